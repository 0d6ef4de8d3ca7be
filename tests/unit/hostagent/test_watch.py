# SPDX-License-Identifier: Apache-2.0

import errno
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from sluice.dataplane.watch import Connection
from sluice.hostagent import watch as flow_watch
from sluice.hostagent.spool import Spool
from sluice.hostagent.watch import FlowWatch, Host, container_name, is_complete, is_sender, to_record
from sluice.policy.errors import EnvironmentLacking
from sluice.policy.wire.agents import MAX_ADDRESSES, WatchStatus
from sluice.policy.wire.records import FINISHED, UNFINISHED, WATCHED, FlowRecord

EPOCH_NS = 1_700_000_000 * 10**9
H1 = Host("h1", {"10.0.0.1": "h1", "10.0.0.2": "h2", "fd00::2": "h2"}, "0123456789ab", EPOCH_NS)
UPLOAD = Connection(
    cookie=77,
    local=ip_address("10.0.0.1"),
    local_port=40_000,
    remote=ip_address("10.0.0.2"),
    remote_port=80,
    start_ns=10**9,
    read_ns=6 * 10**9,
    sent_at_ns=3 * 10**9,
    received_at_ns=5 * 10**9,
    sent_bytes=1_000_000,
    received_bytes=300,
    pending_bytes=0,
    retransmissions=4,
    timeouts=1,
    srtt_us=250,
    error=0,
    congestion_control="cubic",
    active=True,
    closed=True,
    adopted=False,
    declared_start_ns=None,
    declared_deadline_ns=None,
)
DOWNLOAD = replace(UPLOAD, sent_bytes=300, received_bytes=1_000_000)
ELSEWHERE = ip_address("192.0.2.9")


def upload(**changes: Any) -> Connection:
    return replace(UPLOAD, **changes)


def record(connection: Connection) -> FlowRecord:
    made = to_record(connection, H1, "pias")
    assert made is not None
    assert FlowRecord.from_document(made.to_document()) == made
    return made


def test_to_record__data_that_this_host_sent() -> None:
    made = record(UPLOAD)
    assert made == FlowRecord(
        id="watched/0123456789ab/77.1000000000",
        src="h1",
        dst="h2",
        bytes=1_000_000,
        size_class="medium",
        started_at=1_700_000_001.0,
        fct_us=2e6,
        ideal_us=None,
        deadline_us=None,
        met=None,
        retransmissions=4,
        congestion_control="cubic",
        scheme="pias",
        status=FINISHED,
        reason="",
        source=WATCHED,
        src_port=40_000,
        dst_port=80,
        lasted_us=5e6,
        timeouts=1,
        srtt_us=250,
    )


@pytest.mark.parametrize("remote", ["10.0.0.2", "fd00::2", "127.0.0.1", "10.0.0.1"])
def test_to_record__the_watched_sender_reports_instead(remote: str) -> None:
    assert to_record(replace(DOWNLOAD, remote=ip_address(remote)), H1, "pias") is None


def test_to_record__data_from_an_unwatched_host_is_reported_here() -> None:
    made = record(replace(DOWNLOAD, remote=ELSEWHERE))
    assert (made.src, made.src_port, made.dst, made.dst_port) == ("192.0.2.9", 80, "h1", 40_000)
    assert (made.bytes, made.fct_us, made.status) == (1_000_000, 4e6, FINISHED)
    assert (made.retransmissions, made.timeouts, made.congestion_control) == (None, None, "unknown")


def test_of_two_watched_ends_exactly_one_reports() -> None:
    for sent, received in ((1, 0), (5, 5), (0, 9), (1000, 999)):
        one = upload(sent_bytes=sent, received_bytes=received, active=True)
        other = upload(sent_bytes=received, received_bytes=sent, active=False)
        assert is_sender(one) != is_sender(other)


def test_to_record__a_connection_without_data_is_no_flow() -> None:
    assert to_record(upload(sent_bytes=0, received_bytes=0), H1, "pias") is None
    assert to_record(upload(sent_bytes=0, received_bytes=0, pending_bytes=9), H1, "pias") is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"error": errno.ECONNRESET}, "reset by the other end"),
        ({"error": errno.ETIMEDOUT}, "timed out"),
        ({"error": errno.EHOSTUNREACH}, "no route to host"),
        ({}, flow_watch.ABORTED),
    ],
)
def test_to_record__not_all_was_acknowledged(changes: dict[str, Any], reason: str) -> None:
    made = record(upload(sent_at_ns=None, pending_bytes=5000, **changes))
    assert (made.status, made.fct_us, made.reason) == (UNFINISHED, None, reason)
    assert (made.bytes, made.lasted_us) == (1_000_000, 5e6)


def test_to_record__a_reset_after_the_last_byte_does_no_harm() -> None:
    assert record(upload(error=errno.ECONNRESET)).status == FINISHED


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"received_at_ns": None}, FINISHED, ""),  # this end closed first, and in order
        ({"received_at_ns": None, "closed": False}, UNFINISHED, flow_watch.CUT),
        ({"error": errno.ECONNRESET}, UNFINISHED, "reset by the other end"),
    ],
)
def test_to_record__a_receiver_decides_by_the_end(changes: dict[str, Any], status: str, reason: str) -> None:
    made = record(replace(DOWNLOAD, remote=ELSEWHERE, **changes))
    assert (made.status, made.reason) == (status, reason)


def test_to_record__declared_deadlines() -> None:
    declared = {"declared_start_ns": 2 * 10**9, "declared_deadline_ns": 4 * 10**9}
    in_time = record(upload(**declared))
    assert (in_time.deadline_us, in_time.met) == (2e6, True)
    assert record(upload(**declared, sent_at_ns=4 * 10**9 + 1)).met is False
    assert record(upload(**declared, sent_at_ns=None, pending_bytes=1)).met is False


def test_to_record__a_client_that_resets_after_its_answer_may_have_had_it_in_time() -> None:
    declared = {"declared_start_ns": 2 * 10**9, "declared_deadline_ns": 4 * 10**9}
    reset = {**declared, "sent_at_ns": None, "pending_bytes": 1, "error": errno.ECONNRESET}
    made = record(upload(**reset, all_sent=True))
    assert (made.status, made.reason) == (UNFINISHED, flow_watch.RESET_AFTER_ALL)
    assert (made.deadline_us, made.met) == (None, None)
    assert record(upload(**reset)).met is False, "not all was sent"
    assert record(upload(**reset, all_sent=True, last_sent_ns=4 * 10**9 + 1)).met is False, "sent too late"


class FakeWatch:
    """A replacement of dataplane.watch.Watch."""

    def __init__(self) -> None:
        self.ends: list[Connection] = []
        self.lives: list[Connection] = []
        self.open = True
        self.cgroups: dict[int, tuple[str, ...]] = {}

    def ended(self) -> list[Connection]:
        ends, self.ends = self.ends, []
        return ends

    def live(self) -> list[Connection]:
        return self.lives

    def cgroup_path(self, connection: Connection) -> tuple[str, ...]:
        return self.cgroups.get(connection.cgroup, ())

    def lost(self) -> int:
        return 3

    def close(self) -> None:
        self.open = False


class Kept(Spool):
    """A spool that keeps the records in memory alone."""

    def __init__(self) -> None:
        self.records: list[FlowRecord] = []
        self.rotations = 0

    def append(self, record: FlowRecord) -> None:
        self.records.append(record)

    def rotate(self) -> int:
        self.rotations += 1
        return self.rotations


Watched = tuple[FlowWatch, FakeWatch, Kept]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """A flow watch that has begun, its kernel, and its spool. It leaves out connections to port 99."""
    kernel, spool = FakeWatch(), Kept()
    monkeypatch.setattr("sluice.hostagent.watch.Watch", lambda own_port, others: kernel)
    watch = FlowWatch("h1", H1.names, spool, lambda: "pias", ignored=lambda: (str(ELSEWHERE), 99))
    watch.begin()
    return watch, kernel, spool


def test_collect__spools_ended_connections_once(watched: Watched) -> None:
    watch, kernel, spool = watched
    kernel.ends = [UPLOAD, DOWNLOAD, upload(cookie=78)]
    watch.collect()
    watch.collect()
    assert [r.id.split("/")[2] for r in spool.records] == ["77.1000000000", "78.1000000000"]
    assert watch.recorded == 2


def test_collect__leaves_out_the_agents_own_reports(watched: Watched) -> None:
    watch, kernel, spool = watched
    kernel.ends = [upload(remote=ELSEWHERE, remote_port=port) for port in (99, 81)]
    watch.collect()
    assert [r.dst_port for r in spool.records] == [81]


def test_collect__the_spool_does_not_grow_without_limit(watched: Watched) -> None:
    watch, kernel, spool = watched
    before = spool.rotations
    kernel.ends = [upload(cookie=i) for i in range(10_001)]
    watch.collect()
    assert spool.rotations == before + 2


def test_status__shows_the_fastest_and_counts_all(watched: Watched) -> None:
    watch, kernel, _ = watched
    kernel.lives = [upload(cookie=i, sent_bytes=1000 * (i + 1)) for i in range(100)] + [DOWNLOAD]
    status = watch.status()
    assert (status.living, status.lost) == (100, 3)
    assert len(status.connections) == flow_watch.MOST_SHOWN
    assert status.connections[0].bytes == 100_000
    watch.end()
    assert not kernel.open
    assert watch.status() == WatchStatus(watching=False)


def test_status__has_the_addresses_of_containers_for_some_minutes(watched: Watched) -> None:
    watch, kernel, spool = watched
    now_ns = time.monotonic_ns()
    old, *new = (ip_address(f"10.4.0.{i}") for i in range(1, MAX_ADDRESSES + 3))
    pod = partial(upload, elsewhere=True, remote=ELSEWHERE, read_ns=now_ns)
    kernel.ends = [
        pod(local=old, read_ns=now_ns - flow_watch.ADDRESS_NS),
        *(pod(local=address) for address in (*new, new[1])),
        pod(local=ip_address("127.0.0.1")),
        pod(local=ip_address("fe80::1")),
        upload(),
    ]
    assert watch.status().addresses == tuple(map(str, [new[1], *reversed(new[2:])]))
    assert (spool.records[0].src, spool.records[0].dst) == ("h1", str(ELSEWHERE))
    kernel.ends = [pod(local=old, read_ns=now_ns - flow_watch.ADDRESS_NS)]
    assert str(old) not in watch.status().addresses
    kernel.lives = [pod(local=old)]
    assert watch.status().addresses[0] == str(old)


def test_status__an_open_connection_names_its_container(watched: Watched) -> None:
    watch, kernel, _ = watched
    kernel.cgroups = {7: ("lxc.payload.web",)}
    kernel.lives = [upload(cookie=1, cgroup=7), upload(cookie=2, cgroup=8)]
    assert [one.label for one in watch.status().connections] == ["web", ""]


def test_begin__a_kernel_without_support_is_reported_without_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(own_port: int, others: bool) -> FakeWatch:
        raise EnvironmentLacking("no ring buffers here")

    monkeypatch.setattr("sluice.hostagent.watch.Watch", refuse)
    watch = FlowWatch("h1", H1.names, Kept(), lambda: "pias")
    watch.begin()
    watch.collect()
    problem = "connections are not watched: no ring buffers here"
    assert watch.status() == WatchStatus(watching=False, problem=problem)


# ── Records of the flows of a persistent connection ────────────────────────────────────────────


ANSWER = replace(
    DOWNLOAD,
    active=False,
    later=True,
    closed=False,
    received_at_ns=None,
    sent_bytes=20_000,
    received_bytes=300,
    start_ns=10**9,
    first_sent_ns=2 * 10**9,
    last_sent_ns=2_950_000_000,
    sent_at_ns=3 * 10**9,
    min_rtt_us=200,
    followed=True,
)
"""A flow of a persistent connection, at the server."""


def test_to_record__an_answer_begins_with_its_first_write() -> None:
    made = record(ANSWER)
    assert (made.src_port, made.started_at, made.fct_us) == (40_000, 1_700_000_002.0, 1e6)
    assert (made.ack_wait_us, made.lasted_us) == (50_000, 4e6)
    assert made.id == "watched/0123456789ab/77.1000000000"
    declared = replace(ANSWER, declared_start_ns=1_900_000_000, declared_deadline_ns=3_100_000_000)
    assert (record(declared).fct_us, record(declared).deadline_us) == (1.1e6, 1.2e6)
    first = replace(declared, active=True, later=False)
    assert record(first).fct_us == 2e6, "the first flow of the connecting end begins with connect()"


@pytest.mark.parametrize(
    ("deadline_ns", "met"),
    [(3_000_000_000, True), (2_950_200_000, True), (2_950_199_999, False), (2_900_000_000, False)],
)
def test_to_record__a_receiver_that_holds_the_acknowledgement_causes_no_miss(
    deadline_ns: int, met: bool
) -> None:
    assert record(replace(ANSWER, declared_start_ns=2 * 10**9, declared_deadline_ns=deadline_ns)).met is met


def test_to_record__several_uploads_from_an_unwatched_host_have_no_known_start() -> None:
    received = replace(
        ANSWER, remote=ELSEWHERE, sent_bytes=10, received_bytes=50_000, received_at_ns=5 * 10**9
    )
    assert to_record(received, H1, "pias") is None
    assert to_record(replace(received, followed=False, part=True), H1, "pias") is None
    assert record(replace(received, followed=False)).src == str(ELSEWHERE)
    assert record(replace(received, active=True)).src == str(ELSEWHERE), "answers to this host's requests"


@pytest.mark.parametrize(
    ("changes", "complete"),
    [
        ({}, True),
        ({"read_ns": 2_950_000_000 + 9_000_000}, False),
        ({"srtt_us": 3_000_000}, False),
        ({"sent_at_ns": None, "pending_bytes": 1}, False),
        ({"received_bytes": 0}, False),
        ({"active": True}, False),
    ],
)
def test_is_complete(changes: dict[str, Any], complete: bool) -> None:
    assert is_complete(replace(ANSWER, **changes), 10_000_000) is complete


def test_status__an_answer_on_an_open_connection_is_recorded_once(watched: Watched) -> None:
    watch, kernel, spool = watched
    kernel.lives = [ANSWER]
    watch.status()
    watch.status()
    kernel.ends = [ANSWER]
    kernel.lives = [replace(ANSWER, start_ns=7 * 10**9, first_sent_ns=8 * 10**9, sent_at_ns=None)]
    watch.status()
    assert [r.id.split("/")[2] for r in spool.records] == ["77.1000000000"]
    kernel.ends = [replace(ANSWER, start_ns=7 * 10**9, first_sent_ns=8 * 10**9, sent_at_ns=9 * 10**9)]
    watch.collect()
    assert watch.recorded == 2


# ── The names of containers ────────────────────────────────────────────────────────────────────


ID = "0f" * 32
POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6e2.slice"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"system.slice/docker-{ID}.scope", ID[:12]),
        (f"docker/{ID}/init.scope", ID[:12]),
        (f"{POD}/cri-containerd-{ID}.scope", ID[:12]),
        (f"{POD}/crio-{ID}.scope/container", ID[:12]),
        (f"machine.slice/libpod-{ID}.scope", ID[:12]),
        (f"system.slice/docker-{ID}.scope/docker/{'ab' * 32}", ID[:12]),
        ("lxc.payload.web/system.slice/nginx.service", "web"),
        (r"machine.slice/machine-qemu\x2d1\x2dmail.scope", "qemu-1-mail"),
        ("machine.slice/systemd-nspawn@db.service/payload", "db"),
        (r"machine.slice/machine-\x0a.scope", None),
        ("machine.slice/machine-" + "a" * 90 + ".scope", "a" * 64),
        ("user.slice/user-0.slice/session-1.scope", None),
        ("system.slice/docker.service", None),
        (f"system.slice/docker-{ID[:-1]}.scope", None),
        ("default/web1", "web1"),
        ("default/web1/init.scope", "web1"),
        (f"default/{ID}", ID[:12]),
        ("default", None),
        ("system.slice/default/web1", None),
        ("", None),
    ],
)
def test_container_name__what_runtimes_call_it(path: str, name: str | None) -> None:
    assert container_name(tuple(path.split("/"))) == name


TASKS, STORAGE = "io.containerd.runtime.v2.task", "containers/storage/overlay-containers"
POD_NAMES = ("shop", "cart-7d9f", "server")
CONTAINERD, CRIO = (
    dict(zip(keys, POD_NAMES, strict=True))
    for keys in (
        [f"io.kubernetes.cri.{name}" for name in ("sandbox-namespace", "sandbox-name", "container-name")],
        [f"io.kubernetes.{name}" for name in ("pod.namespace", "pod.name", "container.name")],
    )
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that stands for the root of a machine's files."""
    beneath = {f"{tmp_path}{where}": keys for where, keys in flow_watch.DESCRIPTIONS.items()}
    monkeypatch.setattr(flow_watch, "DESCRIPTIONS", beneath)
    monkeypatch.setattr(flow_watch, "PODMAN", tmp_path / "var/lib/containers/storage")
    flow_watch.described_name.cache_clear()
    yield tmp_path
    flow_watch.described_name.cache_clear()


def describe(root: Path, folder: str, description: bytes | dict[str, str]) -> Path:
    """Write the description of a container, or its annotations, as a runtime does."""
    if isinstance(description, dict):
        description = json.dumps({"ociVersion": "1.1.0", "annotations": description}).encode()
    file = root / "run" / folder / "config.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(description)
    return file


@pytest.mark.parametrize(
    ("folder", "annotations", "path", "name"),
    [
        (f"containerd/{TASKS}/k8s.io/{ID}", CONTAINERD, f"{POD}/cri-containerd-{ID}.scope", POD_NAMES),
        (f"containerd/{TASKS}/k8s.io/{ID}", CONTAINERD, f"kubepods/burstable/pod6e2/{ID}", POD_NAMES),
        (f"k3s/containerd/{TASKS}/k8s.io/{ID}", CONTAINERD, f"{POD}/cri-containerd-{ID}.scope", POD_NAMES),
        (f"{STORAGE}/{ID}/userdata", CRIO, f"{POD}/crio-{ID}.scope", POD_NAMES),
        (f"{STORAGE}/{ID}/userdata", CONTAINERD, f"{POD}/crio-{ID}.scope", (ID[:12],)),
        (f"containerd/{TASKS}/web/web1", {}, "web/web1/init.scope", ("web1",)),
        (f"containerd/{TASKS}/web/web1", {}, "web/web2", ()),
        (f"containerd/{TASKS}/web/web1", {}, "system.slice/web/web1", ()),
        (f"containerd/{TASKS}/web/{ID}", {}, f"web/{ID}", (ID[:12],)),
    ],
)
def test_container_name__what_its_runtime_describes(
    root: Path, folder: str, annotations: dict[str, str], path: str, name: tuple[str, ...]
) -> None:
    describe(root, folder, annotations)
    assert container_name(path.split("/")) == ("/".join(name) or None)


@pytest.mark.parametrize(
    "description",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[" * 10**5, id="deep"),
        pytest.param(b" " * flow_watch.MOST_BYTES + json.dumps({"annotations": CRIO}).encode(), id="long"),
        pytest.param(b'{"annotations": ["io.kubernetes.pod.namespace"]}', id="a list"),
        pytest.param(b'{"annotations": null}', id="null"),
        pytest.param(json.dumps({"annotations": dict.fromkeys(CRIO, 7)}).encode(), id="numbers"),
        pytest.param(json.dumps({"annotations": dict.fromkeys(CRIO, "\ud800")}).encode(), id="unprintable"),
        pytest.param(b'{"annotations": {"io.kubernetes.pod.namespace": "shop"}}', id="a part"),
    ],
)
def test_container_name__a_bad_description_leaves_the_id(root: Path, description: bytes) -> None:
    describe(root, f"{STORAGE}/{ID}/userdata", description)
    assert container_name((f"crio-{ID}.scope",)) == ID[:12]


@pytest.mark.parametrize(
    ("description", "name"), [({"ID": ID, "Name": "/web.1"}, "web.1"), ({"ID": ID}, ID[:12])]
)
def test_container_name__what_docker_describes(root: Path, description: dict[str, str], name: str) -> None:
    file = root / f"var/lib/docker/containers/{ID}/config.v2.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(description))
    assert container_name(("system.slice", f"docker-{ID}.scope")) == name


@pytest.mark.parametrize("storage", ["vfs-containers/containers", "overlay-containers/volatile-containers"])
@pytest.mark.parametrize(
    ("containers", "name"),
    [
        pytest.param(
            [{"id": "ab" * 32, "names": ["db"]}, {"id": ID, "names": ["web.1"]}], "web.1", id="named"
        ),
        pytest.param([{"id": "ab" * 32, "names": ["db"]}], ID[:12], id="not listed"),
        pytest.param([{"id": ID}], ID[:12], id="without a name"),
        pytest.param([{"id": ID, "names": [7]}], ID[:12], id="a number"),
        pytest.param([{"id": ID, "names": ["a\nb"]}], ID[:12], id="unprintable"),
        pytest.param({"id": ID}, ID[:12], id="no list"),
    ],
)
def test_container_name__what_podman_lists(root: Path, storage: str, containers: object, name: str) -> None:
    file = root / f"var/lib/containers/storage/{storage}.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(containers))
    assert container_name(("machine.slice", f"libpod-{ID}.scope", "container")) == name


def test_container_name__has_a_bound(root: Path) -> None:
    describe(root, f"{STORAGE}/{ID}/userdata", CRIO | {"io.kubernetes.pod.name": "a" * 253})
    assert container_name((f"crio-{ID}.scope",)) == "shop/" + "a" * 59


def test_a_container_that_a_heartbeat_has_seen_keeps_its_name_after_its_end(
    root: Path, watched: Watched
) -> None:
    watch, kernel, spool = watched
    kernel.cgroups = {7: (f"crio-{ID}.scope",), 8: (f"crio-{'ab' * 32}.scope",)}
    kernel.lives = [upload(cookie=i, cgroup=7 if i == 0 else 0, sent_bytes=1000 * (i + 1)) for i in range(99)]
    description = describe(root, f"{STORAGE}/{ID}/userdata", CRIO)
    assert not any(one.label for one in watch.status().connections), "it is none of the fastest"
    description.unlink()
    kernel.ends = [upload(cookie=100 + cgroup, cgroup=cgroup) for cgroup in (7, 8)]
    watch.collect()
    assert [one.label for one in spool.records] == ["/".join(POD_NAMES), "ab" * 6]
