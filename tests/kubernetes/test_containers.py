# SPDX-License-Identifier: Apache-2.0
"""Flow records of containers and of a pod that containerd, Docker and Podman run, from an image that is made here.

`make test-kubernetes` installs them. They have folders of their own, and the daemons end with the tests.
"""

import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from sluice.dataplane.congestion import ControlSettings, HostEntry, in_first_namespace, kernel_parts
from sluice.dataplane.tagger import TagSettings
from sluice.hostagent import watch as flow_watch
from sluice.hostagent.spool import Spool
from sluice.hostagent.watch import FlowWatch
from sluice.policy.tags import ATTAINED_FIRST
from sluice.policy.wire.records import FlowRecord
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from tests.kernel.cni import PLUGINS, connect_container
from tests.kernel.lab import Namespace, dial, listen, send_and_receive

IMAGE = "sluice.test/links:latest"
SUBNET, GATEWAY = "10.23.0.0/24", "10.23.0.1"
SIZE_BYTES = 5000
DIGITS = "0f" * 32
CGROUPS, DEFAULT, OTHER = Path("/sys/fs/cgroup"), "default", "web"
PODS = "kubepods/pod6e2"
"""containerd keeps the groups around its containers' groups. With version 1, each hierarchy has them."""
MEETING_PLACE = Path("/run/containerd")
"""Of containerd and the processes of its containers, whatever folders it has."""

Ctr = Callable[..., str]


def packed(files: Mapping[str, bytes | None]) -> bytes:
    """Return an archive. A file without content is a folder: a link into /usr if that has it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            one = tarfile.TarInfo(name)
            one.size, one.mode = len(content or b""), 0o755
            if content is None:
                is_link = Path("/usr", name).exists()
                one.type, one.linkname = (
                    (tarfile.SYMTYPE, f"usr/{name}") if is_link else (tarfile.DIRTYPE, "")
                )
            tar.addfile(one, io.BytesIO(content or b""))
    return archive.getvalue()


def image(pause: bytes) -> bytes:
    """Return an image whose programs are this machine's, in /usr, which each container mounts.

    `pause`: the program that runs without them, and keeps a pod.
    """
    folders = dict.fromkeys(("usr", "proc", "dev", "sys", "run", "tmp", "bin", "lib", "lib64"))
    layer = packed(folders | {"etc/hostname": b"", "pause": pause})
    root = {"type": "layers", "diff_ids": [f"sha256:{sha256(layer).hexdigest()}"]}
    machine = {"architecture": run(["dpkg", "--print-architecture"]).strip(), "os": "linux"}
    settings = {**machine, "rootfs": root, "config": {"Env": ["PATH=/usr/bin"], "Cmd": ["/pause"]}}
    manifest = [{"Config": "settings.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    documents = {"manifest.json": manifest, "settings.json": settings}
    return packed({"layer.tar": layer} | {name: json.dumps(one).encode() for name, one in documents.items()})


def command(folder: Path, *words: str) -> str:
    return run(["ctr", "--address", f"{folder}/socket", *words], timeout_s=120)


def remove_groups(*groups: str) -> None:
    for group in groups:
        for hierarchy in (CGROUPS, *CGROUPS.glob("*")):
            with suppress(OSError):  # there is none, or another daemon uses it
                (hierarchy / group).rmdir()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image."""
    folder = tmp_path_factory.mktemp("image")
    run(
        ["cc", "-static", "-o", f"{folder}/pause", "-xc", "-"],
        stdin="int pause(void); int main() { pause(); }",
    )
    (folder / "image.tar").write_bytes(image((folder / "pause").read_bytes()))
    return folder / "image.tar"


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Iterator[Path]:
    """The folder of a containerd that has the image."""
    if os.geteuid() != 0 or not shutil.which("containerd") or not PLUGINS.exists():
        pytest.skip("containers need root, containerd and CNI: `make test-kubernetes` installs them")
    folder, was_there = tmp_path_factory.mktemp("containerd"), MEETING_PLACE.exists()
    settings = f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
    settings += f'[grpc]\naddress = "{folder}/socket"\n'
    settings += f'[plugins."io.containerd.internal.v1.opt"]\npath = "{folder}/opt"\n'
    # Without the capability SYS_RESOURCE, a machine refuses to spare a pod's first process from the OOM killer.
    settings += f'[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "{IMAGE}"\n'
    settings += f'restrict_oom_score_adj = true\ncni = {{ conf_dir = "{folder}/cni" }}\n'
    (folder / "config.toml").write_text(settings)

    def serves() -> bool:
        with suppress(CommandFailed):
            return bool(command(folder, "version"))
        return False

    daemon = spawn(["containerd", "--config", f"{folder}/config.toml"], log_file=folder / "log")
    try:
        wait_until(serves, "containerd answers")
        for namespace in (DEFAULT, OTHER, "k8s.io"):
            command(folder, "--namespace", namespace, "image", "import", str(archive))
        yield folder
    finally:
        stop(daemon)
        remove_groups(DEFAULT, OTHER, PODS, str(Path(PODS).parent))
        if not was_there:
            shutil.rmtree(MEETING_PLACE)


@pytest.fixture
def ctr(containerd: Path, monkeypatch: pytest.MonkeyPatch) -> Ctr:
    """The command of a containerd, which describes its containers in its own folder."""
    here = {
        where.replace("/run/containerd", f"{containerd}/state", 1): keys
        for where, keys in flow_watch.DESCRIPTIONS.items()
    }
    monkeypatch.setattr(flow_watch, "DESCRIPTIONS", here)
    return partial(command, containerd)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[Namespace, Namespace]]:
    """The network of a node, and that of a container on it."""
    with closing(Namespace()) as node, closing(Namespace()) as container:
        connect_container(node, container, "bridge", SUBNET, tmp_path / "cni")
        yield node, container


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[FlowWatch]:
    """The flow watch of the machine's agent."""
    if not in_first_namespace():
        pytest.skip("only an agent of the machine's first network namespace watches containers")
    watch = FlowWatch("node1", {}, Spool(tmp_path / "spool"), lambda: "pias")
    watch.begin()
    yield watch
    watch.end()
    watch.spool.close()


def record_to(watch: FlowWatch, port: int) -> FlowRecord | None:
    """Collect what has ended, and return the record of a flow to this port."""
    watch.collect()
    while batch := watch.spool.next_batch():
        watch.spool.acknowledge(batch)
        for record in map(FlowRecord.from_document, map(json.loads, batch.lines)):
            if record.dst_port == port:
                return record
    return None


def in_container(container: Namespace, name: str, program: str) -> tuple[str, ...]:
    """Return the words by which `ctr` runs a program in a new container of the network, and removes it at its end."""
    programs = "type=bind,src=/usr,dst=/usr,options=rbind:ro"
    where = f"network:/proc/{os.getpid()}/fd/{container.fd}"
    return "run", "--rm", "--with-ns", where, "--mount", programs, IMAGE, name, "bash", "-c", program


def sent(address: str, port: int) -> str:
    """Return a program that sends one flow, and then says its cgroup."""
    return f"exec 3<>/dev/tcp/{address}/{port}; head -c {SIZE_BYTES} /dev/zero >&3; cat /proc/self/cgroup"


@pytest.mark.parametrize(
    ("name", "group", "label"),
    [
        pytest.param("web1", f"/{DEFAULT}/web1", "web1", id="ctr"),
        pytest.param(DIGITS, f"/{DEFAULT}/{DIGITS}", DIGITS[:12], id="an id"),
    ],
)
def test_a_flow_of_a_container_that_has_ended_has_its_name(
    ctr: Ctr, node: tuple[Namespace, Namespace], watch: FlowWatch, name: str, group: str, label: str
) -> None:
    """It lives for as long as its one flow, and the agent looks only after its end."""
    network, container = node
    with closing(listen(network, GATEWAY)) as listener:
        port = listener.getsockname()[1]
        assert f"0::{group}\n" in ctr(*in_container(container, name, sent(GATEWAY, port)))
        assert name not in ctr("container", "ls")
        server, _ = listener.accept()
        with server, server.makefile("rb") as arrived:
            assert len(arrived.read()) == SIZE_BYTES
    record = wait_until(lambda: record_to(watch, port), "the flow is recorded")
    assert (record.src, record.label, record.bytes) == ("node1", label, SIZE_BYTES)


def test_sockets_of_a_container_carry_tags_as_the_machines_agent_says(
    node: tuple[Namespace, Namespace], watch: FlowWatch
) -> None:
    """A namespace without an agent has the settings of the machine. This test changes those."""
    network, container = node
    control = "sluice_dctcp"
    settings = ControlSettings(control=control, tags=TagSettings(60_000_000_000))
    with ExitStack() as stack:
        for part in kernel_parts():
            stack.enter_context(part)
        entry = stack.enter_context(HostEntry())
        entry.set(settings, settings)
        stack.callback(entry.forget)
        for place in node:
            place.sysctl("net.ipv4.tcp_ecn", 1)
        container.sysctl("net.ipv4.tcp_congestion_control", control)
        listener = stack.enter_context(listen(network, GATEWAY, control))
        client, server = (stack.enter_context(end) for end in dial(container, listener))
        send_and_receive(client, server, 100_000)
        assert client.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) >> 2 > ATTAINED_FIRST


def see(watch: FlowWatch, listener: socket.socket, label: str) -> None:
    """Receive a flow, and let a heartbeat see its connection before it ends."""
    server, _ = listener.accept()
    with server:
        assert len(server.recv(SIZE_BYTES, socket.MSG_WAITALL)) == SIZE_BYTES
        (living,) = (one for one in watch.status().connections if one.dst_port == listener.getsockname()[1])
        assert living.label == label


def test_a_flow_of_another_namespace_of_containerd_has_its_containers_name(
    ctr: Ctr, node: tuple[Namespace, Namespace], watch: FlowWatch
) -> None:
    network, container = node
    with closing(listen(network, GATEWAY)) as listener, ThreadPoolExecutor() as threads:
        port = listener.getsockname()[1]
        words = in_container(container, "web1", f"{sent(GATEWAY, port)}; cat <&3")
        ended = threads.submit(ctr, "--namespace", OTHER, *words)
        see(watch, listener, "web1")
        assert f"0::/{OTHER}/web1\n" in ended.result()
    record = wait_until(lambda: record_to(watch, port), "the flow is recorded")
    assert (record.src, record.label, record.bytes) == ("node1", "web1", SIZE_BYTES)


# ── A pod, as a kubelet asks containerd for it (the Container Runtime Interface, k8s.io/cri-api/pkg/apis/runtime/v1) ─


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Return a message of protobuf. Its fields have numbers below 16, and its numbers are below 128."""
    data = b""
    for number, value in fields:
        if isinstance(value, int):
            data += bytes([number << 3, value])
        else:
            content = value.encode() if isinstance(value, str) else value
            data += bytes([number << 3 | 2, len(content) & 127 | 128, len(content) >> 7]) + content
    return data


def asked(folder: Path, method: str, request: bytes) -> str:
    """Ask containerd as a kubelet does, and return the id that it answers. gRPC is a message after five bytes."""
    curl = ("curl", "-sS", "--http2-prior-knowledge", "--data-binary", "@-", "--unix-socket")
    headers = ("-H", "content-type: application/grpc", "-H", "te: trailers")
    url = f"http://localhost/runtime.v1.RuntimeService/{method}"
    words = (*curl, f"{folder}/socket", *headers, url)
    framed = b"\0" + len(request).to_bytes(4) + request
    answer = subprocess.run(words, input=framed, capture_output=True, timeout=120, check=True).stdout
    assert answer, f"{method}: {(folder / 'log').read_text()}"
    return answer[7:].decode()


def test_a_flow_of_a_pod_has_its_name(containerd: Path, ctr: Ctr, watch: FlowWatch) -> None:
    """It is in the node's network. Its container ends before the agent records the flow."""
    ask = partial(asked, containerd)
    network = message((1, message((1, 2))))
    names = message((1, "cart-7d9f"), (2, "6e2"), (3, "shop"))
    pod = message((1, names), (8, message((1, f"/{PODS}"), (2, network))))
    sandbox = ask("RunPodSandbox", message((1, pod)))
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(60)
            port = listener.getsockname()[1]
            words = ("bash", "-c", f"{sent('127.0.0.1', port)}; cat <&3")
            mount = message((1, "/usr"), (2, "/usr"), (3, 1))
            image = message((1, IMAGE))
            server = message(
                (1, message((1, "server"))), (2, image), *((3, word) for word in words), (7, mount)
            )
            number = ask("CreateContainer", message((1, sandbox), (2, server), (3, pod)))
            ask("StartContainer", message((1, number)))
            see(watch, listener, "shop/cart-7d9f/server")
        wait_until(lambda: number not in ctr("--namespace", "k8s.io", "task", "ls"), "the container ends")
        record = wait_until(lambda: record_to(watch, port), "the flow is recorded")
    finally:
        ask("StopPodSandbox", message((1, sandbox)))
        ask("RemovePodSandbox", message((1, sandbox)))
    assert (record.src, record.label, record.bytes) == ("node1", "shop/cart-7d9f/server", SIZE_BYTES)


# ── Docker ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def docker(
    tmp_path_factory: pytest.TempPathFactory, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ctr]:
    """The command of a Docker engine that has the image, and leaves this machine's network alone."""
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        pytest.skip("an engine needs root and dockerd: `make test-kubernetes` installs it")
    folder = tmp_path_factory.mktemp("docker")
    here = {
        where.replace("/var/lib/docker", f"{folder}/data", 1): keys
        for where, keys in flow_watch.DESCRIPTIONS.items()
    }
    monkeypatch.setattr(flow_watch, "DESCRIPTIONS", here)
    words = ["dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--bridge=none"]
    words += ["--pidfile", f"{folder}/pid", "--host", f"unix://{folder}/socket", "--storage-driver=vfs"]
    words += ["--iptables=false", "--ip-forward=false"]

    def asked(*words: str) -> str:
        return run(["docker", "--host", f"unix://{folder}/socket", *words], timeout_s=120)

    def serves() -> bool:
        with suppress(CommandFailed):
            return bool(asked("version"))
        return False

    daemon = spawn(words, log_file=folder / "log")
    try:
        wait_until(serves, "the engine answers")
        asked("load", "--input", str(archive))
        yield asked
    finally:
        stop(daemon, grace_s=60)
        remove_groups("docker")
        with suppress(CommandFailed):  # it has not come so far
            run(["umount", f"{folder}/exec/netns/default"])


def test_a_flow_of_a_container_of_docker_has_its_name(docker: Ctr, watch: FlowWatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as threads:
        listener.settimeout(300)
        port = listener.getsockname()[1]
        words = ("run", "--rm", "--name", "web.1", "--network=host", "--volume", "/usr:/usr:ro", IMAGE)
        ended = threads.submit(docker, *words, "bash", "-c", f"{sent('127.0.0.1', port)}; cat <&3")
        see(watch, listener, "web.1")
        assert "0::/" in ended.result()
    record = wait_until(lambda: record_to(watch, port), "the flow is recorded")
    assert (record.src, record.label, record.bytes) == ("node1", "web.1", SIZE_BYTES)


def test_a_flow_of_a_container_of_podman_has_its_name(
    archive: Path, watch: FlowWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("podman"):
        pytest.skip("this needs podman: `make test-kubernetes` installs it")
    limits = "--ulimit=nofile=1000:1000", "--ulimit=nproc=1000:1000"  # to raise them needs a capability
    words = ["--rm", "--name=web.1", "--network=host", *limits, "--volume=/usr:/usr:ro", IMAGE, "bash", "-c"]
    # Podman takes no long path.
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(flow_watch, "PODMAN", Path(folder))
        podman = ["podman", "--root", folder, "--runroot", f"{folder}/run", "--storage-driver=vfs"]
        podman += ["--cgroup-manager=cgroupfs", "--events-backend=none"]
        run([*podman, "load", "--input", str(archive)], timeout_s=120)
        listener.settimeout(300)
        port = listener.getsockname()[1]
        with ThreadPoolExecutor() as threads:
            program = f"{sent('127.0.0.1', port)}; cat <&3"
            ended = threads.submit(run, [*podman, "run", *words, program], timeout_s=300)
            see(watch, listener, "web.1")
            assert "0::/" in ended.result()
    remove_groups("libpod_parent")
    record = wait_until(lambda: record_to(watch, port), "the flow is recorded")
    assert (record.src, record.label, record.bytes) == ("node1", "web.1", SIZE_BYTES)
