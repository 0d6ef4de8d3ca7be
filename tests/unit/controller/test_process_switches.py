# SPDX-License-Identifier: Apache-2.0
"""Several switches at one controller: duplicates, slow ones, some that refuse every rule, and peers that are none."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.controller.openflow.frames import Frame, MessageType, message
from sluice.runtime.wait import wait_until
from sluice.store import observed
from tests.fakes.peer import Peer
from tests.kit.networks import leaf_spine
from tests.unit.controller.processes import (
    Process,
    Starter,
    changes,
    controller_process,
    is_change,
    polls,
    polls_completed,
    serves,
)

pytestmark = pytest.mark.slow

ADAPTIVE = {"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500}


def test_of_two_live_switches_with_one_datapath_id_the_first_stays_until_it_ends_and_both_are_named(
    controller: Process, live: Starter
) -> None:
    """Otherwise, the two switches would replace each other without end."""
    first = live(controller.port, 1)
    wait_until(controller.applied, "the first is served")
    second = live(controller.port, 1, returns=True)
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


def slowly(frame: Frame) -> bytes | None:
    """Delay the answer to each poll of completed flows."""
    if polls_completed(frame):
        time.sleep(2.0)
    return None


def test_a_switch_that_answers_after_two_seconds_delays_no_other(tmp_path: Path, live: Starter) -> None:
    """The controller polls the slow switch as often as it answers, and the others at their interval."""
    with controller_process(tmp_path, leaf_spine(leaves=1, spines=1)) as controller:
        controller.put_policy(ADAPTIVE)
        slow, quick = live(controller.port, 1, slowly), live(controller.port, 2)
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
    if not is_change(frame):
        return None
    return message(MessageType.ERROR, struct.pack("!HH", 4, 9) + frame.data[:64], frame.xid)


def test_of_several_switches_at_once_those_that_refuse_every_rule_delay_no_other(
    tmp_path: Path, live: Starter
) -> None:
    """Three switches refuse every rule, and the other three get their rules."""
    topology = leaf_spine(leaves=4, spines=2, hosts_per_leaf=1)
    with controller_process(tmp_path, topology) as controller:
        for dpid in range(1, 4):
            live(controller.port, dpid, refuse)
        for dpid in range(4, 7):
            live(controller.port, dpid)

        def right() -> int:
            rows = observed.all_switches(controller.engine)
            return sum(row["policy_version"] == 1 for row in rows)

        def errors() -> list[dict[str, str]]:
            found = observed.events_of(controller.engine, "openflow-error", 0)
            return [event["document"] for event in found]

        wait_until(lambda: right() == 3, "the accepting switches have their rules")
        # A switch that refuses may be slower than all that accept.
        wait_until(lambda: {error["switch"] for error in errors()} == {"s1", "s2", "s3"}, "each is an event")
        wait_until(lambda: controller.events().count("switch-connected") == 6, "all are connected")
        assert all("BAD_PREREQ" in error["error"] and "Rule" in error["rule"] for error in errors())


# ── Peers that break the protocol ──────────────────────────────────────────────────────────────

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
    controller: Process,
) -> None:
    """Half-open connections, half a message and a message that never ends stay open for a while."""
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    at_rest = controller.threads
    endless = [b"", b"\x04\x00", HELLO, HELLO + struct.pack("!BBHI", 4, 19, 65535, 1)]
    hostile = []
    for sent in (*endless, *GARBAGE.values()):
        hostile.append(socket.create_connection(("127.0.0.1", controller.port)))
        hostile[-1].sendall(sent)
    deaf = socket.create_connection(("127.0.0.1", controller.port))
    with suppress(ConnectionError):
        while True:  # it never reads the answers
            deaf.sendall(message(MessageType.ECHO_REQUEST, bytes(60_000)))
    peer.run(lambda: controller.log.count("closing the connection") > len(GARBAGE), timeout_s=300)
    assert "it does not read" in controller.log
    peer.run(lambda: controller.threads == at_rest, timeout_s=300)
    assert all(map(hung_up, hostile))
    assert "Traceback" not in controller.log
    assert not peer.closed
    for sock in (*hostile, deaf):
        sock.close()
    peer.close()
    serves(controller)
