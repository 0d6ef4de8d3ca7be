# SPDX-License-Identifier: Apache-2.0
"""The controller as a process: how it serves switches, waits for its store, and stops.

The tests share one process. Each begins without switches and events, and the last one ends the process.
"""

import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.controller.openflow.frames import Frame, MessageType, message
from sluice.controller.service import check_store
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.wait import wait_until
from sluice.store import observed
from sluice.store.engine import open_store
from sluice.store.schema import SCHEMA_VERSION, schema_versions
from tests.fakes.peer import Peer
from tests.kit.networks import leaf_spine, single
from tests.unit.controller import processes
from tests.unit.controller.processes import Process, Starter, changes, polls

pytestmark = pytest.mark.slow

ADAPTIVE = {"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500}
START = """
import pathlib, sys, time
from sluice.controller.app import Controller
from sluice.controller.service import SERVICE
take, real, folder = Controller._take_answer, time.time, pathlib.Path(sys.argv.pop(1))
def slow(*arguments):
    time.sleep(float((folder / "pause").read_text()))
    take(*arguments)
Controller._take_answer = slow
time.time = lambda: real() + float((folder / "step").read_text())
sys.exit(SERVICE.main(sys.argv[1:]))
"""
"""A controller whose wall clock is wrong by `step` seconds, and that needs `pause` seconds for an answer."""


def set_to(folder: Path, name: str, seconds: float) -> None:
    """Write a file that the controller never reads in part."""
    new = folder / f"{name}.new"
    new.write_text(str(seconds))
    new.rename(folder / name)


def started(folder: Path) -> Process:
    set_to(folder, "pause", 0)
    set_to(folder, "step", 0)
    return Process(folder, start=["-c", START, str(folder)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("controller")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Process]:
    process = started(folder)
    yield process
    process.close()


@pytest.fixture
def controller(shared: Process) -> Process:
    shared.begin_again()
    shared.put_policy({"scheme": "pias"})
    return shared


@pytest.fixture
def switches(controller: Process) -> Iterator[Starter]:
    starter = Starter(controller.port)
    yield starter
    starter.stop()


def test_a_switch_is_brought_to_the_policy_and_stays_until_it_falls_silent(
    controller: Process, switches: Starter
) -> None:
    stranger = switches.driven(99)
    stranger.run(lambda: "unknown-switch" in controller.events())
    peer = switches.driven(1)
    peer.run(controller.applied)
    assert len(changes(peer.received)) > 300
    assert (controller.switch(1)["connected"], controller.switch(1)["name"]) == (True, "s1")
    assert not stranger.closed
    assert changes(stranger.received) == [], "the topology does not have it"
    stranger.close()
    until = time.monotonic() + 6
    peer.run(lambda: time.monotonic() > until)
    assert not peer.closed
    assert "switch-disconnected" not in controller.events()
    wait_until(lambda: "switch-disconnected" in controller.events(), "the controller records the silence")
    assert "silent" in controller.log


def test_steps_of_the_wall_clock_change_nothing(controller: Process, switches: Starter, folder: Path) -> None:
    """The clock steps a day ahead and two days back. Lease, connection and polls stay."""
    controller.put_policy(ADAPTIVE)
    peer = switches.live(1)
    wait_until(controller.applied, "the policy is applied")
    for step_s in (86_400, -86_400, 0):
        set_to(folder, "step", step_s)
        before = polls(peer)
        wait_until(lambda: polls(peer) >= before + 10, "polls go on after the step")  # noqa: B023 - called at once
        controller.put_policy(ADAPTIVE)
        wait_until(controller.applied, "a policy is applied after the step")
    kinds = controller.events()
    assert kinds.count("switch-connected") == 1
    assert not {"leading", "switch-disconnected"} & set(kinds)


def test_it_outlives_a_store_that_is_locked_for_long(controller: Process, switches: Starter) -> None:
    """Rules change as before, and the controller writes the rows after the lock ends."""
    peer = switches.driven(1)
    peer.run(controller.applied)
    connection = controller.engine.raw_connection()
    connection.cursor().execute("BEGIN EXCLUSIVE")
    peer.close()
    again = switches.driven(1)
    again.run(lambda: len(again.received) > 300)
    connection.rollback()
    connection.close()
    again.run(lambda: controller.events().count("switch-connected") == 2)
    assert controller.process.poll() is None


def test_check_store__a_store_of_a_later_version_is_named_before_anything_starts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    engine = open_store(url)
    with engine.begin() as connection:
        connection.execute(schema_versions.insert().values(version=SCHEMA_VERSION + 1, sluice="9.1.0"))
    engine.dispose()
    with pytest.raises(EnvironmentLacking, match=r"of Sluice 9\.1\.0"):
        check_store(url)
    check_store(f"sqlite:///{tmp_path}/not-yet/store.db")  # a store that is away may come back


# ── Several switches ───────────────────────────────────────────────────────────────────────────


def test_of_two_live_switches_with_one_datapath_id_the_first_stays_until_it_ends_and_both_are_named(
    controller: Process, switches: Starter
) -> None:
    """Otherwise, the two switches would replace each other without end."""
    first = switches.live(1)
    wait_until(controller.applied, "the first is served")
    second = switches.live(1, returns=True)
    wait_until(lambda: len(second.peers) >= 3, "the second has tried several times")
    controller.put_policy({"scheme": "tcp"})
    wait_until(controller.applied, "the first is served as before")
    assert len(first.peers) == 1
    assert changes(second.received) == []
    document = controller.event("duplicate-datapath-id")
    assert document["dpid"] == 1
    assert document["established"] == f"127.0.0.1:{first.peers[0].address[1]}"
    assert document["refused"] == f"127.0.0.1:{second.peers[0].address[1]}"
    assert "switch-disconnected" not in controller.events()
    first.stop()
    wait_until(lambda: changes(second.received), "the second is served")


HELLO = message(MessageType.HELLO)


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: sluice\r\n\r\n",
    "length 0": struct.pack("!BBHI", 4, 0, 0, 1) * 10,
    "openflow 1.0": b"\x01" + HELLO[1:],
    "another version after the hello": HELLO + struct.pack("!BBHI", 5, 21, 8, 1),
    "a controller's message": HELLO + message(MessageType.FLOW_MOD, bytes(48)),
    "port description cut off": HELLO
    + message(MessageType.MULTIPART_REPLY, struct.pack("!HHxxxx3s", 13, 0, b"abc")),
}
"""What AnswerReader and Framer refuse, and what only the connection does. Their own tests have the other cases."""


def hung_up(sock: socket.socket) -> bool:
    """Whether the controller closes the connection. Earlier bytes are ignored."""
    sock.settimeout(300)
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_garbage_and_endless_handshakes_are_hung_up_on_and_leave_no_thread_behind(
    controller: Process, switches: Starter
) -> None:
    """Half-open connections, half a message and a message that never ends stay open for a while."""
    peer = switches.driven(1)
    peer.run(controller.applied)
    at_rest, closed = controller.threads, controller.log.count("closing the connection")
    endless = [b"", b"\x04\x00", HELLO, HELLO + struct.pack("!BBHI", 4, 19, 65535, 1)]
    hostile = []
    for sent in (*endless, *GARBAGE.values()):
        hostile.append(socket.create_connection(("127.0.0.1", controller.port)))
        hostile[-1].sendall(sent)
    deaf = socket.create_connection(("127.0.0.1", controller.port))
    with suppress(ConnectionError):
        while True:  # it never reads the answers
            deaf.sendall(message(MessageType.ECHO_REQUEST, bytes(60_000)))
    peer.run(lambda: controller.log.count("closing the connection") - closed > len(GARBAGE), timeout_s=300)
    assert "it does not read" in controller.log
    peer.run(lambda: controller.threads == at_rest, timeout_s=300)
    assert all(map(hung_up, hostile))
    assert "Traceback" not in controller.log
    assert not peer.closed
    for sock in (*hostile, deaf):
        sock.close()
    peer.close()
    processes.serves(controller)


def slowly(frame: Frame) -> bytes | None:
    """Delay the answer to each poll of completed flows."""
    if processes.polls_completed(frame):
        time.sleep(2.0)
    return None


def test_a_switch_that_answers_after_two_seconds_delays_no_other(
    controller: Process, switches: Starter
) -> None:
    """The controller polls the slow switch as often as it answers, and the others at their interval."""
    controller.put_topology(leaf_spine(leaves=1, spines=1))
    controller.put_policy(ADAPTIVE)
    slow, quick = switches.live(1, slowly), switches.live(2)
    wait_until(controller.applied, "both implement the policy")

    def is_polled_meanwhile() -> bool:
        before, slow_before = polls(quick), polls(slow)
        wait_until(lambda: polls(slow) > slow_before, "the slow one answers again")
        return polls(quick) - before > 3

    # The slow one may just be about to answer, or the machine pause, so one answer says nothing.
    wait_until(is_polled_meanwhile, "it does not wait for the slow one")
    assert "switch-disconnected" not in controller.events()


def refuse(frame: Frame) -> bytes | None:
    """Refuse every change."""
    if not processes.is_change(frame):
        return None
    return message(MessageType.ERROR, struct.pack("!HH", 4, 9) + frame.data[:64], frame.xid)


def test_of_several_switches_at_once_those_that_refuse_every_rule_delay_no_other(
    controller: Process, switches: Starter
) -> None:
    """Three switches refuse every rule, and the other three get their rules."""
    controller.put_topology(leaf_spine(leaves=4, spines=2, hosts_per_leaf=1))
    version = controller.put_policy({"scheme": "pias"})
    for dpid in range(1, 4):
        switches.live(dpid, refuse)
    for dpid in range(4, 7):
        switches.live(dpid)

    def right() -> int:
        return sum(row["policy_version"] == version for row in observed.all_switches(controller.engine))

    def errors() -> list[dict[str, str]]:
        found = observed.events_of(controller.engine, "openflow-error", 0)
        return [event["document"] for event in found]

    wait_until(lambda: right() == 3, "the accepting switches have their rules")
    # A switch that refuses may be slower than all that accept.
    wait_until(lambda: {error["switch"] for error in errors()} == {"s1", "s2", "s3"}, "each is an event")
    wait_until(lambda: controller.events().count("switch-connected") == 6, "all are connected")
    assert all("BAD_PREREQ" in error["error"] and "Rule" in error["rule"] for error in errors())


# ── The end ────────────────────────────────────────────────────────────────────────────────────


def overload(controller: Process, folder: Path, pause_s: float) -> None:
    """Let more answers wait than the controller handles in this time, and end it."""
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    set_to(folder, "pause", pause_s)
    peer.send(1000 * message(MessageType.BARRIER_REPLY))
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began >= 0.5, "answers wait")
    os.kill(controller.process.pid, signal.SIGTERM)
    assert controller.process.wait(300) == 0
    peer.close()


def test_it_stops_although_an_answer_takes_longer_than_the_end_may(tmp_path: Path) -> None:
    controller = started(tmp_path)
    try:
        overload(controller, tmp_path, 100)
        assert controller.switch(1)["connected"]
    finally:
        controller.close()


def test_it_stops_under_overload_without_waiting_for_idlers_and_records_the_end(
    controller: Process, folder: Path
) -> None:
    controller.put_topology(single())
    with socket.create_connection(("127.0.0.1", controller.port)):
        overload(controller, folder, 0.1)
    assert not controller.switch(1)["connected"]
