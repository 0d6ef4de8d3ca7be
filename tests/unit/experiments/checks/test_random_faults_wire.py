# SPDX-License-Identifier: Apache-2.0
"""What a conversation of a controller and a switch says, and the relay between them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.checks.random_faults.relay import Relay
from experiments.checks.random_faults.wire import (
    BUNDLE_ADD,
    BUNDLE_CONTROL,
    COMMIT_REPLY,
    COMMIT_REQUEST,
    Closed,
    Conversation,
    Denied,
    Event,
    Mastered,
    Opened,
    Written,
)
from sluice.controller.openflow import Framer, MessageType, message
from sluice.runtime.wait import wait_until

ONF, MASTER, SLAVE = 0x4F4E4600, 2, 3


def features(dpid: int) -> bytes:
    return message(MessageType.FEATURES_REPLY, struct.pack("!Q16x", dpid))


def role(role: int, generation: int) -> bytes:
    return message(MessageType.ROLE_REPLY, struct.pack("!IxxxxQ", role, generation))


def add(bundle: int) -> bytes:
    flow_mod = message(MessageType.FLOW_MOD, bytes(48))
    return message(MessageType.EXPERIMENTER, struct.pack("!IIIxxH", ONF, BUNDLE_ADD, bundle, 0) + flow_mod)


def control(bundle: int, kind: int) -> bytes:
    return message(MessageType.EXPERIMENTER, struct.pack("!IIIHH", ONF, BUNDLE_CONTROL, bundle, kind, 0))


def error(kind: int, code: int, xid: int = 0) -> bytes:
    return message(MessageType.ERROR, struct.pack("!HH", kind, code), xid)


class Talk:
    """A conversation with the switch 5, in which each message takes a second."""

    def __init__(self) -> None:
        self.conversation, self.now = Conversation("c"), 0.0
        self.events: list[Event] = []

    def controller(self, *data: bytes) -> Talk:
        for frame in Framer().feed(b"".join(data)):
            self.now += 1.0
            self.conversation.ordered(frame, self.now)
        return self

    def switch(self, *data: bytes) -> Talk:
        for frame in Framer().feed(b"".join(data)):
            self.now += 1.0
            self.events += self.conversation.answered(frame, self.now)
        return self


@pytest.fixture
def master() -> Talk:
    """A controller that has become master in generation 7."""
    talk = Talk().switch(features(5), role(MASTER, 7))
    assert talk.events == [Opened(1.0, "c", 5), Mastered(2.0, "c", 5, 7)]
    talk.events.clear()
    return talk


def test_a_bundle_counts_once_the_switch_has_committed_it(master: Talk) -> None:
    master.controller(add(1), add(1), control(1, COMMIT_REQUEST))
    assert master.events == []
    master.switch(control(1, COMMIT_REPLY))
    assert master.events == [Written(6.0, "c", 5, 7, 5.0, 2)]


def test_a_bundle_that_the_switch_refuses_is_no_write(master: Talk) -> None:
    master.controller(add(1), control(1, COMMIT_REQUEST)).switch(error(1, 10))
    assert master.events == [Denied(5.0, "c", 5, "slave")]


def test_a_change_outside_a_bundle_counts_from_the_barrier_on_unless_it_is_refused(master: Talk) -> None:
    change = [message(MessageType.METER_MOD, bytes(8), xid) for xid in (1, 2)]
    master.controller(*change).switch(error(12, 1, xid=2), message(MessageType.BARRIER_REPLY))
    assert master.events == [Written(6.0, "c", 5, 7, 3.0, 1)]


def test_a_slave_has_no_generation_in_whose_name_it_writes(master: Talk) -> None:
    master.switch(role(SLAVE, 8)).controller(add(1), control(1, COMMIT_REQUEST)).switch(
        control(1, COMMIT_REPLY)
    )
    (written,) = master.events
    assert isinstance(written, Written)
    assert written.generation == 0


def test_a_stale_generation_is_denied() -> None:
    assert Talk().switch(features(5), error(11, 0)).events[1:] == [Denied(2.0, "c", 5, "stale")]


# -- the relay


@dataclass
class Ends:
    """A relay, and the listening socket of the controller behind it."""

    relay: Relay
    door: Path
    listening: socket.socket

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Return both ends of a new connection: the switch's and the controller's."""
        switch = socket.socket(socket.AF_UNIX)
        switch.connect(str(self.door))
        switch.settimeout(60)
        controller, _ = self.listening.accept()
        controller.settimeout(60)
        return switch, controller


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "c"))
    listening.listen()
    listening.settimeout(60)
    with listening, Relay({"c": (tmp_path / "door", tmp_path / "c")}) as relay:
        yield Ends(relay, tmp_path / "door", listening)


def is_silent(sock: socket.socket) -> bool:
    sock.settimeout(0.3)
    try:
        sock.recv(1)
    except TimeoutError:
        return True
    finally:
        sock.settimeout(60)
    return False


def test_relay__hands_on_what_both_sides_say_and_notes_it(ends: Ends) -> None:
    switch, controller = ends.connect()
    switch.sendall(features(5) + role(MASTER, 7))
    assert len(controller.recv(1000)) == 56
    controller.sendall(b"".join([add(1), control(1, COMMIT_REQUEST)]))
    assert switch.recv(1000)
    switch.sendall(control(1, COMMIT_REPLY))
    assert controller.recv(1000)
    assert [type(event) for event in ends.relay.events] == [Opened, Mastered, Written]
    controller.close()
    assert switch.recv(1) == b""
    wait_until(lambda: isinstance(ends.relay.events[-1], Closed), "the end is noted")


@pytest.mark.parametrize("cut", [5, None])
def test_relay__a_cut_holds_back_what_is_under_way_and_ends_nothing(ends: Ends, cut: int | None) -> None:
    switch, controller = ends.connect()
    switch.sendall(features(5))
    assert controller.recv(1000)
    ends.relay.silence("c", cut)
    switch.sendall(role(MASTER, 7))
    controller.sendall(add(1))
    assert is_silent(switch)
    ends.relay.heal("c", cut)
    assert controller.recv(1000) == role(MASTER, 7)
    assert switch.recv(1000) == add(1)


def test_relay__a_cut_of_another_switch_changes_nothing(ends: Ends) -> None:
    switch, controller = ends.connect()
    switch.sendall(features(5))
    assert controller.recv(1000)
    ends.relay.silence("c", 6)
    switch.sendall(role(MASTER, 7))
    assert controller.recv(1000) == role(MASTER, 7)


def test_relay__a_refused_switch_is_cut_off_at_once_and_again(ends: Ends) -> None:
    switch, controller = ends.connect()
    switch.sendall(features(5))
    assert controller.recv(1000)
    ends.relay.refuse("c", 5)
    assert (switch.recv(1), controller.recv(1)) == (b"", b"")
    again, controller = ends.connect()
    again.sendall(features(5))
    assert again.recv(1) == b""
    ends.relay.heal("c", 5)
    switch, controller = ends.connect()
    switch.sendall(features(5))
    assert controller.recv(1000)
