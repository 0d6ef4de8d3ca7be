# SPDX-License-Identifier: Apache-2.0
"""The controller as a process, and peers on its port that behave, misbehave, or fall silent."""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

import pytest

from controller.cookies import cookie
from controller.openflow import frames as wire
from controller.pipeline import Table
from policy import tags
from policy.desired import Policy
from runtime.process import spawn, stop
from runtime.wait import wait_until
from store import desired, observed
from store.engine import open_store
from tests.fakes.peer import MULTIPART_REQUEST, Peer, message, multipart_reply
from tests.unit.controller.networks import leaf_spine, single
from tests.unit.controller.openflow.test_frames import flow_entry


class Process:
    """A controller with a store of its own."""

    def __init__(self, folder, topology=True, start=("-m", "controller"), arguments=()):
        self.folder = folder
        self.engine = open_store(f"sqlite:///{folder}/store.db")
        if topology:
            desired.put_topology(self.engine, single())
            self.put_policy({"scheme": "pias"})
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        argv = [sys.executable, *start, "--store", f"sqlite:///{folder}/store.db"]
        argv += ["--listen", f"127.0.0.1:{self.port}", *arguments]
        self.process = spawn(argv, log_file=folder / "log")
        wait_until(lambda: "listening" in self.log, "the controller listens", timeout_s=20)

    @property
    def log(self):
        return (self.folder / "log").read_text()

    @property
    def threads(self):
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def put_policy(self, document):
        return desired.put_policy(self.engine, Policy.from_document(document), "test")

    def events(self):
        return [event["kind"] for event in observed.recent_events(self.engine, 0)]

    def applied(self):
        return desired.current_policy(self.engine).applied_at is not None

    def close(self):
        if self.process.poll() is None:
            stop(self.process)
        self.engine.dispose()


@pytest.fixture
def controller(tmp_path):
    process = Process(tmp_path)
    yield process
    process.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One controller for the tests that only send it garbage."""
    process = Process(tmp_path_factory.mktemp("shared"))
    yield process
    process.close()


def serves(controller):
    """It still brings a switch to a new policy."""
    controller.put_policy({"scheme": "pias"})
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    peer.close()


def test_a_switch_is_brought_to_the_policy(controller):
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    adds = [
        f for f in peer.received if f.kind == wire.EXPERIMENTER and f.data[12:16] == struct.pack("!I", 2301)
    ]
    assert len(adds) > 300
    (row,) = observed.all_switches(controller.engine)
    assert (row["connected"], row["name"]) == (True, "s1")
    peer.close()
    wait_until(lambda: "switch-disconnected" in controller.events(), "the disconnection is recorded")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_within_two_seconds_with_switches_and_idlers_connected(controller, number):
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    idler = socket.create_connection(("127.0.0.1", controller.port))
    began = time.monotonic()
    os.kill(controller.process.pid, number)
    assert controller.process.wait(5) == 0
    assert time.monotonic() - began < 2
    (row,) = observed.all_switches(controller.engine)
    assert row["connected"] is False
    idler.close()


HELLO = message(wire.HELLO)
GARBAGE = {
    "noise": bytes(range(1, 256)) * 20,
    "http": b"GET / HTTP/1.1\r\nHost: sluice\r\n\r\n",
    "length 0": struct.pack("!BBHI", 4, 0, 0, 1) * 10,
    "length 7": struct.pack("!BBHI", 4, 0, 7, 1),
    "openflow 1.0": message(wire.HELLO, version=1),
    "another version after the hello": HELLO + message(wire.BARRIER_REPLY, version=5),
    "a controller's message": HELLO + message(14, bytes(48)),
    "unknown type": HELLO + message(200),
    "error without a body": HELLO + message(wire.ERROR),
    "statistics without a header": HELLO + message(wire.MULTIPART_REPLY, b"\x00"),
    "statistics nobody asked for": HELLO + message(wire.MULTIPART_REPLY, struct.pack("!HHxxxx", 3, 0)),
    "port description cut off": HELLO + message(wire.MULTIPART_REPLY, struct.pack("!HHxxxx", 13, 0) + b"abc"),
    "experimenter of somebody": HELLO + message(wire.EXPERIMENTER, bytes(16)),
    "bundle reply with a property of length 0": HELLO
    + message(wire.EXPERIMENTER, struct.pack("!IIIHHHH", 0x4F4E4600, 2300, 1, 5, 3, 0xFFFF, 0)),
}


def hung_up(sock, timeout_s):
    """The controller closed the connection; what it said before is read away."""
    sock.settimeout(timeout_s)
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_logged_and_hung_up_on(shared, kind):
    logged = shared.log.count("closing the connection")
    with socket.create_connection(("127.0.0.1", shared.port)) as sock:
        sock.sendall(GARBAGE[kind])
        assert hung_up(sock, 3)
    wait_until(lambda: shared.log.count("closing the connection") > logged, "it is logged")
    assert "Traceback" not in shared.log
    serves(shared)


@pytest.mark.parametrize("said", [b"", b"\x04\x00", HELLO, HELLO + struct.pack("!BBHI", 4, 19, 65535, 1)])
def test_whoever_never_finishes_the_handshake_is_hung_up_on(shared, said):
    """Half-open connections, half a message, a message whose end never comes."""
    with socket.create_connection(("127.0.0.1", shared.port)) as sock:
        sock.sendall(said)
        assert hung_up(sock, 10)
    serves(shared)


def test_connections_leave_no_thread_behind(controller):
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    at_rest = controller.threads
    socks = [socket.create_connection(("127.0.0.1", controller.port)) for _ in range(40)]
    for sock, data in zip(socks, list(GARBAGE.values()) * 3, strict=False):
        sock.sendall(data)
    for sock in socks:
        sock.close()
    peer.run(lambda: controller.threads == at_rest, timeout_s=15)
    assert not peer.closed


def test_a_switch_that_falls_silent_is_disconnected(controller):
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    wait_until(lambda: "switch-disconnected" in controller.events(), "silence is noticed", timeout_s=10)
    assert "silent" in controller.log


def test_an_idle_switch_that_answers_echo_requests_stays(controller):
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    until = time.monotonic() + 6
    peer.run(lambda: time.monotonic() > until)
    assert not peer.closed
    assert "switch-disconnected" not in controller.events()


def test_a_switch_outside_the_topology_is_ignored_and_recorded(controller):
    stranger = Peer(controller.port, 99)
    stranger.run(lambda: "unknown-switch" in controller.events())
    known = Peer(controller.port, 1)
    known.run(controller.applied)
    assert not stranger.closed
    assert not any(f.kind == wire.EXPERIMENTER for f in stranger.received)


class Live:
    """A peer that answers all the time, in a thread of its own; it comes back when it is hung up on, as switches do."""

    def __init__(self, port, dpid, answer=lambda _: None, returns=False):
        self._port, self._dpid, self._answer, self._returns = port, dpid, answer, returns
        self._stopped = threading.Event()
        self.peers = [Peer(port, dpid, answer)]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stopped.is_set():
            self.peers[-1].run(lambda: self._stopped.is_set() or self.peers[-1].closed, timeout_s=60)
            if not self._returns:
                return
            if not self._stopped.wait(0.2):
                self.peers.append(Peer(self._port, self._dpid, self._answer))

    @property
    def received(self):
        return [frame for peer in self.peers for frame in peer.received]

    def stop(self):
        self._stopped.set()
        self._thread.join(10)
        self.peers[-1].close()


@pytest.fixture
def live():
    """Start peers that end with the test."""
    started = []

    def start(*args, **kwargs):
        started.append(Live(*args, **kwargs))
        return started[-1]

    yield start
    for peer in started:
        peer.stop()


def changes(frames):
    return [f for f in frames if f.kind == wire.EXPERIMENTER and f.data[12:16] == struct.pack("!I", 2301)]


def test_of_two_live_switches_with_one_datapath_id_the_first_stays_and_both_are_named(controller, live):
    """Else each would throw the other out, for ever."""
    first = live(controller.port, 1, returns=True)
    wait_until(controller.applied, "the first is served")
    second = live(controller.port, 1, returns=True)
    wait_until(lambda: len(second.peers) >= 4, "the second has tried again and again")
    controller.put_policy({"scheme": "tcp"})
    wait_until(controller.applied, "the first is served as before")
    assert len(first.peers) == 1
    assert changes(second.received) == []
    events = observed.recent_events(controller.engine, 0)
    (event,) = [e["document"] for e in events if e["kind"] == "duplicate-datapath-id"]
    assert event["dpid"] == 1
    assert event["established"] == f"127.0.0.1:{first.peers[0].address[1]}"
    assert event["refused"] == f"127.0.0.1:{second.peers[0].address[1]}"
    assert "switch-disconnected" not in controller.events()


def test_when_the_first_of_two_with_one_datapath_id_goes_the_other_is_served(controller, live):
    first = live(controller.port, 1)
    wait_until(controller.applied, "the first is served")
    second = live(controller.port, 1, returns=True)
    wait_until(lambda: len(second.peers) >= 2, "the second was refused")
    first.stop()
    wait_until(lambda: changes(second.received), "the second is served", timeout_s=10)


def test_a_switch_that_answers_after_two_seconds_slows_nobody_down(tmp_path, live):
    """It is polled as often as it answers, and the others at their interval."""
    controller = Process(tmp_path, topology=False)
    try:
        desired.put_topology(controller.engine, leaf_spine())
        controller.put_policy({"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500})

        def slowly(frame):
            if frame.kind == MULTIPART_REQUEST and polls_completed(frame):
                time.sleep(2.0)

        slow = live(controller.port, 1, slowly)
        quick = [live(controller.port, dpid) for dpid in (2, 3, 4)]
        wait_until(controller.applied, "all four stand")
        before = [polls(peer) for peer in quick]
        slow_before = polls(slow)
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began >= 6, "six seconds")
        each = [(polls(peer) - earlier) / 60 for peer, earlier in zip(quick, before, strict=True)]
        assert min(each) > 0.9
        assert 1 <= polls(slow) - slow_before <= 4
        assert "switch-disconnected" not in controller.events()
    finally:
        controller.close()


def polls_completed(frame):
    return frame.data[8:10] == b"\x00\x01" and frame.data[16] == Table.COMPLETED


def polls(peer):
    return sum(frame.kind == MULTIPART_REQUEST and polls_completed(frame) for frame in peer.received)


def test_many_switches_at_once_are_put_right_a_few_at_a_time_and_those_that_refuse_hold_up_nobody(
    tmp_path, live
):
    """Ten refuse every rule; the other ten get theirs."""
    controller = Process(tmp_path, topology=False)
    try:
        desired.put_topology(controller.engine, leaf_spine(leaves=16, spines=4, hosts_per_leaf=1))
        controller.put_policy({"scheme": "pias"})

        def refuse(frame):
            adds = frame.kind == wire.EXPERIMENTER and frame.data[12:16] == struct.pack("!I", 2301)
            return (
                message(wire.ERROR, struct.pack("!HH", 4, 9) + frame.data[:64], frame.xid) if adds else None
            )

        for dpid in range(1, 11):
            live(controller.port, dpid, refuse)
        for dpid in range(11, 21):
            live(controller.port, dpid)

        def right():
            return sum(row["policy_version"] == 1 for row in observed.all_switches(controller.engine))

        wait_until(lambda: right() == 10, "those that take rules have them", timeout_s=30)
        kinds = controller.events()
        assert kinds.count("openflow-error") >= 10
        assert kinds.count("switch-connected") == 20
    finally:
        controller.close()


STEPPING = """
import pathlib, sys, time
real, steps = time.time, pathlib.Path(sys.argv.pop(1))
time.time = lambda: real() + float(steps.read_text())
from controller.__main__ import main
sys.exit(main())
"""


def test_steps_of_the_wall_clock_change_nothing(tmp_path, live):
    """A day ahead, two days back: the same lease, the same connection, the same pace."""
    steps = tmp_path / "steps"
    steps.write_text("0")
    controller = Process(tmp_path, start=["-c", STEPPING, str(steps)])
    try:
        controller.put_policy({"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500})
        peer = live(controller.port, 1)
        wait_until(controller.applied, "the policy is applied")
        for step_s in (86_400, -86_400, 0):
            steps.write_text(str(step_s))
            before, began = polls(peer), time.monotonic()
            wait_until(lambda began=began: time.monotonic() - began >= 2.5, "some seconds")
            assert polls(peer) - before >= 20
            controller.put_policy({"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500})
            wait_until(controller.applied, "a policy is applied after the step")
        kinds = controller.events()
        assert kinds.count("leading") == kinds.count("switch-connected") == 1
        assert "switch-disconnected" not in kinds
    finally:
        controller.close()


def test_counters_that_are_reset_without_a_new_connection_are_no_burst_and_no_drought(controller, live):
    """A datapath that was restarted below its OpenFlow connection counts from zero again."""
    told = {"flows": 1_000_000, "step": 7}

    def answer(frame):
        if frame.kind != MULTIPART_REQUEST or not polls_completed(frame):
            return None
        told["flows"] += told["step"]
        tag = tags.attained_tag(10_000)
        return multipart_reply(frame, flow_entry(cookie(Table.COMPLETED, 1, tag), told["flows"]))

    controller.put_policy(
        {"scheme": "mlfq-adaptive", "queues": 2, "thresholds": ["1MB"], "min_flows": 100, "window_ms": 500}
    )
    live(controller.port, 1, answer)
    wait_until(controller.applied, "the policy is applied")

    def threshold():
        return observed.latest_thresholds(controller.engine)["s1:1"]

    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1.5, "three windows of 35 flows")
    told["flows"] = 0
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1.5, "three windows after the reset")
    assert threshold().thresholds_bytes == (1_000_000,)
    told["step"] = 70
    wait_until(lambda: threshold().thresholds_bytes == (10_000,), "enough flows move it")
    assert threshold().flows < 1_000


def test_a_switch_that_connects_twice_is_served_on_the_newer_connection(controller):
    first = Peer(controller.port, 1)
    first.run(controller.applied)
    second = Peer(controller.port, 1)
    second.run(lambda: controller.events().count("switch-connected") == 2)
    first.run(lambda: first.closed)
    controller.put_policy({"scheme": "tcp"})
    second.run(controller.applied)


def test_a_refused_change_is_recorded_with_the_rule_tried_again_and_never_committed(controller):
    """The switch takes everything but one rule: the bundle must not be committed without it."""
    refused = []

    def answer(frame):
        if (
            len(refused) == 0
            and frame.kind == wire.EXPERIMENTER
            and frame.data[12:16] == struct.pack("!I", 2301)
        ):
            refused.append(frame)
            return message(wire.ERROR, struct.pack("!HH", 4, 9) + frame.data[:64], frame.xid)
        return None

    peer = Peer(controller.port, 1, answer)
    peer.run(lambda: "openflow-error" in controller.events())
    controls = [
        struct.unpack_from("!H", f.data, 20)[0]
        for f in peer.received
        if f.kind == wire.EXPERIMENTER and f.data[12:16] == struct.pack("!I", 2300)
    ]
    assert 4 not in controls
    (event,) = [e for e in observed.recent_events(controller.engine, 0) if e["kind"] == "openflow-error"]
    assert event["document"]["switch"] == "s1"
    assert "BAD_PREREQ" in event["document"]["error"]
    assert "Rule" in event["document"]["rule"]
    peer.run(controller.applied)


@pytest.mark.parametrize(
    "body", [flow_entry(length=0), flow_entry(instructions=struct.pack("!HHxxxx", 1, 0)), b"\x00" * 64]
)
def test_rules_that_cannot_be_read_end_the_connection_and_nothing_else(controller, body):
    def answer(frame):
        if frame.kind == MULTIPART_REQUEST and frame.data[8:10] == b"\x00\x01":
            return multipart_reply(frame, body)
        return None

    broken = Peer(controller.port, 1, answer)
    broken.run(lambda: broken.closed)
    assert "unreadable statistics" in controller.log
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)


def test_statistics_without_end_are_cut_off(controller):
    """A reply that says of every part that more follows."""

    def answer(frame):
        if frame.kind == MULTIPART_REQUEST and frame.data[8:10] == b"\x00\x01":
            return multipart_reply(frame, flow_entry() * 1000, more=True) * 1300
        return None

    endless = Peer(controller.port, 1, answer)
    try:
        endless.run(lambda: endless.closed, timeout_s=20)
    except ConnectionError:
        endless.close()
    wait_until(lambda: "without end" in controller.log, "it is logged")


def test_it_waits_for_a_topology_and_says_so_once(tmp_path):
    controller = Process(tmp_path, topology=False)
    try:
        peer = Peer(controller.port, 1)
        until = time.monotonic() + 1.5
        peer.run(lambda: time.monotonic() > until)
        assert controller.log.count("no topology in the store yet") == 1
        desired.put_topology(controller.engine, single())
        controller.put_policy({"scheme": "pias"})
        peer.run(controller.applied)
    finally:
        controller.close()


def test_it_outlives_a_store_that_is_locked_for_long(controller):
    """Rules change as before; what happened is written when the lock is gone."""
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    connection = controller.engine.raw_connection()
    connection.execute("BEGIN EXCLUSIVE")
    peer.close()
    again = Peer(controller.port, 1)
    again.run(lambda: len(again.received) > 300)
    connection.rollback()
    connection.close()
    again.run(lambda: controller.events().count("switch-connected") == 2, timeout_s=20)
    assert controller.process.poll() is None


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--store", "sqlite:////nonexistent/store.db", "--listen", "256.0.0.1:1"], "listen"),
        (["--store", "sqlite://", "--listen", "nonsense"], "listen"),
        (["--store", "what is this", "--listen", "127.0.0.1:0"], "store"),
        (["--store", "nosuch://x/y", "--listen", "127.0.0.1:0"], "store"),
    ],
)
def test_bad_arguments_are_explained(tmp_path, arguments, word):
    process = spawn([sys.executable, "-m", "controller", *arguments], log_file=tmp_path / "log")
    assert process.wait(20) == 2
    said = (tmp_path / "log").read_text()
    assert said.startswith("controller: " + word)
    assert "Traceback" not in said


def test_it_listens_on_a_unix_socket(tmp_path):
    path = tmp_path / "of.sock"
    argv = [
        sys.executable,
        "-m",
        "controller",
        "--store",
        f"sqlite:///{tmp_path}/s.db",
        "--listen",
        f"unix:{path}",
    ]
    process = spawn(argv, log_file=tmp_path / "log")
    try:
        wait_until(path.exists, "the socket is there", timeout_s=20)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            wait_until(lambda: sock.connect_ex(str(path)) == 0, "it accepts")
            assert sock.recv(8)[:2] == b"\x04\x00"
    finally:
        assert stop(process) == 0
