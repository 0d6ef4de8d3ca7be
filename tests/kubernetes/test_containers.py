# SPDX-License-Identifier: Apache-2.0
"""Flow records of containers that containerd runs and plugins of CNI connect, from an image that is made here.

`make test-kubernetes` installs containerd. The daemon has folders of its own, and ends with the test.
"""

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from sluice.dataplane.congestion import in_first_namespace
from sluice.hostagent.spool import Spool
from sluice.hostagent.watch import FlowWatch
from sluice.policy.wire.records import FlowRecord
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from tests.kernel.cni import PLUGINS, connect_container
from tests.kernel.lab import Namespace, listen

IMAGE = "sluice.test/links:latest"
SUBNET, GATEWAY = "10.23.0.0/24", "10.23.0.1"
SIZE_BYTES = 5000
DIGITS = "0f" * 32
CGROUPS, DEFAULT = Path("/sys/fs/cgroup"), "default"
"""containerd keeps the group around its containers' groups. With version 1, each hierarchy has one."""
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


def image() -> bytes:
    """Return an image whose programs are this machine's, in /usr, which each container mounts."""
    layer = packed(dict.fromkeys(("usr", "proc", "dev", "sys", "run", "tmp", "bin", "lib", "lib64")))
    root = {"type": "layers", "diff_ids": [f"sha256:{sha256(layer).hexdigest()}"]}
    machine = {"architecture": run(["dpkg", "--print-architecture"]).strip(), "os": "linux"}
    settings = {**machine, "rootfs": root, "config": {"Env": ["PATH=/usr/bin"]}}
    manifest = [{"Config": "settings.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    documents = {"manifest.json": manifest, "settings.json": settings}
    return packed({"layer.tar": layer} | {name: json.dumps(one).encode() for name, one in documents.items()})


@pytest.fixture(scope="module")
def ctr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctr]:
    """The command of a containerd that has the image."""
    if os.geteuid() != 0 or not shutil.which("containerd") or not PLUGINS.exists():
        pytest.skip("containers need root, containerd and CNI: `make test-kubernetes` installs them")
    folder, was_there = tmp_path_factory.mktemp("containerd"), MEETING_PLACE.exists()
    settings = f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
    settings += f'[grpc]\naddress = "{folder}/socket"\n'
    settings += f'[plugins."io.containerd.internal.v1.opt"]\npath = "{folder}/opt"\n'
    (folder / "config.toml").write_text(settings)
    (folder / "image.tar").write_bytes(image())

    def ctr(*words: str) -> str:
        return run(["ctr", "--address", f"{folder}/socket", *words], timeout_s=120)

    def serves() -> bool:
        with suppress(CommandFailed):
            return bool(ctr("version"))
        return False

    daemon = spawn(["containerd", "--config", f"{folder}/config.toml"], log_file=folder / "log")
    try:
        wait_until(serves, "containerd answers")
        ctr("image", "import", f"{folder}/image.tar")
        yield ctr
    finally:
        stop(daemon)
        for hierarchy in (CGROUPS, *CGROUPS.glob("*")):
            with suppress(OSError):  # there is none, or another containerd uses it
                (hierarchy / DEFAULT).rmdir()
        if not was_there:
            shutil.rmtree(MEETING_PLACE)


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
        programs = "type=bind,src=/usr,dst=/usr,options=rbind:ro"
        where = f"network:/proc/{os.getpid()}/fd/{container.fd}"
        send = f"head -c {SIZE_BYTES} /dev/zero > /dev/tcp/{GATEWAY}/{port}; cat /proc/self/cgroup"
        started = ("run", "--rm", "--with-ns", where, "--mount", programs, IMAGE, name, "bash", "-c", send)
        assert f"0::{group}\n" in ctr(*started)
        assert name not in ctr("container", "ls")
        server, _ = listener.accept()
        with server, server.makefile("rb") as arrived:
            assert len(arrived.read()) == SIZE_BYTES
    record = wait_until(lambda: record_to(watch, port), "the flow is recorded")
    assert (record.src, record.label, record.bytes) == ("node1", label, SIZE_BYTES)
