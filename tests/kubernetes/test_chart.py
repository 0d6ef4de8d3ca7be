# SPDX-License-Identifier: Apache-2.0
"""The chart for Kubernetes: its objects fit the API of two releases, and its containers work with what they grant.

`make test-kubernetes` runs this. There is no cluster: the containers run under runc, in a network namespace.
"""

import configparser
import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.runtime.command import run
from sluice.runtime.wait import wait_until

ROOT = Path(__file__).parents[2]
CHART, PLAIN = ROOT / "packaging/helm/sluice", ROOT / "packaging/kustomize"
HELM = ROOT / ".setup/bin/helm"
SLUICE = ROOT / ".venv/bin/sluice"
RELEASES = ("1.31", "1.34")
VALUES = {
    "default": [],
    "tls": [
        "controller.tlsSecret=openflow",
        "controller.replicas=3",
        "agent.interface=bond0",
        "agent.containerd=",
        "agent.crio=/run/containers/storage",
        "imagePullSecrets[0].name=x",
    ],
    "agents alone": [
        "portAgent.enabled=false",
        "networkPolicy.enabled=false",
        "web.volume.storageClass=fast",
    ],
    "monitored": ["monitoring.serviceMonitor=true", "monitoring.rules=true", "monitoring.dashboard=true"],
}
NOT_HERE = ("does not exist", "not writable", "none of this machine's")
"""What `--check` finds outside the pod: files and interfaces that this machine lacks."""
NAMESPACE = "sluice-chart"
"""Network namespace in which web process and agent run."""

Object = dict[str, Any]


def helm(*words: str) -> str:
    if not HELM.exists():
        pytest.skip(f"{HELM} is missing: `make test-kubernetes` builds it")
    return run([str(HELM), *words])


def rendered(values: list[str]) -> str:
    chosen = (f"--set={value}" for value in values)
    where = ("--namespace", "sluice", "--kube-version", RELEASES[0])
    return helm("template", "sluice", str(CHART), *where, *chosen)


def objects(values: list[str]) -> list[Object]:
    return [one for one in yaml.safe_load_all(rendered(values)) if one]


def pods(values: list[str]) -> Iterator[Object]:
    """Yield the container of each workload, with the volumes of its pod and the user."""
    for one in objects(values):
        if "template" in one.get("spec", {}):
            pod = one["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            volumes = {volume["name"]: volume for volume in pod["volumes"]}
            yield {**container, "volumes": volumes, "user": pod["securityContext"].get("runAsUser", 0)}


def pod_of(name: str) -> Object:
    (container,) = (one for one in pods([]) if one["name"] == name)
    return container


def test_lint() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("release", RELEASES)
def test_every_object_fits_the_schema_of_the_release(release: str, values: list[str]) -> None:
    if importlib.util.find_spec("kubernetes_validate") is None:
        pytest.skip("kubernetes-validate is missing: `make test-kubernetes` installs it")
    import kubernetes_validate

    for one in objects(values):
        if not one["apiVersion"].startswith("monitoring.coreos.com/"):  # of Prometheus's operator
            kubernetes_validate.validate(one, release, strict=True)


def test_the_plain_manifests_are_the_chart_with_its_defaults() -> None:
    assert rendered([]) == (PLAIN / "sluice.yaml").read_text(), (
        f"helm template sluice {CHART} -n sluice --kube-version {RELEASES[0]}"
    )
    if shutil.which("kubectl"):
        plain = yaml.safe_load_all(run(["kubectl", "kustomize", str(PLAIN)]))
        assert {named(one) for one in plain} == {named(one) for one in objects([])}


def named(one: Object) -> tuple[str, str]:
    return str(one["kind"]), str(one["metadata"]["name"])


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_every_variable_is_a_setting_of_its_service(values: list[str]) -> None:
    for container in pods(values):
        service = container["command"][-1].rpartition("sluice ")[2]
        environ = {**os.environ, **variables(container, "node1")}
        checked = subprocess.run(
            [SLUICE, service, "--check"], env=environ, capture_output=True, text=True, check=False
        )
        wrong = [line for line in checked.stderr.splitlines() if not any(one in line for one in NOT_HERE)]
        assert not wrong


@pytest.mark.parametrize("name", ["agent", "port-agent"])
def test_an_agent_has_the_capabilities_of_its_unit(name: str) -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(ROOT / f"packaging/systemd/sluice-{name}.service")
    granted = pod_of(name)["securityContext"]["capabilities"]
    assert granted["drop"] == ["ALL"]
    assert [f"CAP_{one}" for one in granted["add"]] == unit["Service"]["CapabilityBoundingSet"].split()


def variables(container: Object, node: str) -> dict[str, str]:
    """Return the environment of a container, as Kubernetes makes it on a node."""
    made: dict[str, str] = {}
    for one in container["env"]:
        value = node if "valueFrom" in one else str(one["value"])
        for name, earlier in made.items():
            value = value.replace(f"$({name})", earlier)
        made[one["name"]] = value
    return made


# ── The containers ──────────────────────────────────────────────────────────────────────────────────────────────────


def inside(*words: str) -> list[str]:
    return ["ip", "netns", "exec", NAMESPACE, *words]


@pytest.fixture
def node() -> Iterator[None]:
    """A network namespace, which stands for that of a node."""
    if os.geteuid() != 0 or shutil.which("runc") is None:
        pytest.skip("a container needs root and runc: `make test-kubernetes` installs it")
    run(["ip", "netns", "add", NAMESPACE])
    try:
        run(inside("ip", "link", "set", "lo", "up"))
        yield
    finally:
        run(["ip", "netns", "del", NAMESPACE])


def bundle(folder: Path, container: Object, environ: Mapping[str, str], paths: Mapping[str, Path]) -> None:
    """Write the bundle of a container that sees this machine's files. `paths`: volume → its folder here."""
    run(["runc", "spec", "--bundle", str(folder)])
    document = json.loads((folder / "config.json").read_text())
    context = container["securityContext"]
    names = [f"CAP_{name}" for name in context["capabilities"].get("add", ())]
    document["process"] |= {
        "terminal": False,
        "user": {"uid": container["user"], "gid": container["user"]},
        "args": container["command"],
        "cwd": "/",
        "env": [f"{name}={value}" for name, value in environ.items()],
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), names),
        "noNewPrivileges": not context.get("allowPrivilegeEscalation", True),
    }
    document["process"].pop("rlimits", None)
    document["root"] = {"path": "rootfs", "readonly": context["readOnlyRootFilesystem"]}
    network = {"type": "network", "path": f"/run/netns/{NAMESPACE}"}
    others = [one for one in document["linux"]["namespaces"] if one["type"] not in ("network", "cgroup")]
    document["linux"]["namespaces"] = [*others, network]
    document["mounts"] = [one for one in document["mounts"] if not one["destination"].startswith("/sys/fs")]
    places = {one["mountPath"]: paths[one["name"]] for one in container["volumeMounts"]} | {str(ROOT): ROOT}
    document["mounts"] += [
        {"destination": place, "source": str(source), "type": "none", "options": ["rbind", "rw"]}
        for place, source in places.items()
    ]
    (folder / "config.json").write_text(json.dumps(document))


@contextmanager
def running(name: str, folder: Path, changed: Mapping[str, str]) -> Iterator[str]:
    """Run the container of a pod until its main loop has turned. Yields its id. `changed`: variables that differ."""
    container, number = pod_of(name), f"{NAMESPACE}-{name}"
    paths = {}
    for volume, source in container["volumes"].items():
        paths[volume] = folder / volume
        paths[volume].mkdir(exist_ok=True)
        os.chown(paths[volume], container["user"], container["user"])  # as fsGroup does
        if source.get("hostPath", {}).get("type") == "Directory":
            paths[volume] = Path(source["hostPath"]["path"])
    environ = {**variables(container, "node1"), **changed}
    environ["PATH"] = f"{SLUICE.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    bundle(folder, container, {key: value for key, value in environ.items() if value}, paths)
    (folder / "rootfs").mkdir()
    run(["mount", "--bind", "/", str(folder / "rootfs")])
    try:
        with subprocess.Popen(["runc", "run", "--bundle", str(folder), number]) as process:
            try:
                wait_until(
                    lambda: process.poll() is not None or (paths["run"] / "alive").exists(),
                    f"{name} reports its life",
                )
                assert process.poll() is None
                yield number
            finally:
                if process.poll() is None:
                    run(["runc", "kill", number, "TERM"])
                assert process.wait(300) == 0
    finally:
        run(["umount", str(folder / "rootfs")])


def store_in_the_volume(prefix: str) -> dict[str, str]:
    """The variables of a store without PostgreSQL, whose password has no file."""
    return {f"{prefix}_STORE": "sqlite:////var/lib/sluice/store.db", f"{prefix}_STORE_PASSWORD_FILE": ""}


def test_the_controller_runs_without_privileges(node: None, tmp_path: Path) -> None:
    with running("controller", tmp_path, store_in_the_volume("SLUICE_CONTROLLER")):
        wait_until(lambda: "0.0.0.0:6653" in run(inside("ss", "-Hltn")), "it listens")


def test_the_agent_enrols_at_the_web_process_and_runs_with_the_privileges_of_its_daemon_set(
    node: None, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("web", "agent")]
    for folder in folders:
        folder.mkdir()
    with running("web", folders[0], store_in_the_volume("SLUICE_WEB")) as web:
        wait_until(lambda: run(inside("ss", "-Hltn")).count("0.0.0.0:8") == 2, "it listens")
        (folders[1] / "enrolment").mkdir()
        (folders[1] / "enrolment/node1").write_text(run(["runc", "exec", web, "sluice", "enrol", "node1"]))
        changed = {
            "SLUICE_AGENT_WEB": "https://127.0.0.1:8443",  # there is no name service
            "SLUICE_AGENT_INTERFACE": "lo",
            "SLUICE_AGENT_CONGESTION_CONTROL": "sluice_dctcp",  # there is no policy
        }
        with running("agent", folders[1], changed):
            wait_until(lambda: " up " in run(["runc", "exec", web, "sluice", "agents"]), "the agent is up")
            (beat,) = json.loads(run(inside("curl", "-sS", "http://127.0.0.1:8080/api/v1/health")))["agents"]
            assert (beat["name"], beat["alive"], beat["status"]["tagger"]) == ("node1", True, True)
            default = run(inside("cat", "/proc/sys/net/ipv4/tcp_congestion_control"))
            assert default == "sluice_dctcp\n", "the agent may write sysctls"
