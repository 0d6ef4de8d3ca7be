# SPDX-License-Identifier: Apache-2.0
"""Peers that break the protocol. The controller closes their connections and serves all others as before."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from sluice.controller.openflow.frames import Frame, MessageType, message
from tests.fakes.openflow import BUNDLE_CONTROL, flow_entry
from tests.fakes.peer import Peer, multipart_reply
from tests.unit.controller.processes import Process, controller_process, is_change, is_flow_request, serves

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One controller for the tests that only send what it cannot read."""
    with controller_process(tmp_path_factory.mktemp("shared")) as process:
        yield process


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


def test_garbage_and_endless_handshakes_are_hung_up_on_and_leave_no_thread_behind(shared: Process) -> None:
    """Half-open connections, half a message and a message that never ends stay open for a while."""
    peer = Peer(shared.port, 1)
    peer.run(shared.applied)
    at_rest = shared.threads
    endless = [b"", b"\x04\x00", HELLO, HELLO + struct.pack("!BBHI", 4, 19, 65535, 1)]
    hostile = []
    for sent in (*endless, *GARBAGE.values()):
        hostile.append(socket.create_connection(("127.0.0.1", shared.port)))
        hostile[-1].sendall(sent)
    peer.run(lambda: shared.log.count("closing the connection") >= len(GARBAGE), timeout_s=300)
    peer.run(lambda: shared.threads == at_rest, timeout_s=300)
    assert all(map(hung_up, hostile))
    assert "Traceback" not in shared.log
    assert not peer.closed
    for sock in hostile:
        sock.close()
    peer.close()
    serves(shared)


def test_a_refused_change_is_recorded_with_its_rule_tried_again_and_never_committed(shared: Process) -> None:
    """The switch accepts everything except one rule, so the controller must not commit the bundle."""
    shared.put_policy({"scheme": "pias"})
    refused: list[Frame] = []

    def answer(frame: Frame) -> bytes | None:
        if refused or not is_change(frame):
            return None
        refused.append(frame)
        return message(MessageType.ERROR, struct.pack("!HH", 4, 9) + frame.data[:64], frame.xid)

    peer = Peer(shared.port, 1, answer)
    peer.run(lambda: "openflow-error" in shared.events())
    controls = [
        struct.unpack_from("!H", frame.data, 20)[0]
        for frame in peer.received
        if frame.kind == MessageType.EXPERIMENTER and frame.data[12:16] == struct.pack("!I", BUNDLE_CONTROL)
    ]
    assert 4 not in controls
    document = shared.event("openflow-error")
    assert document["switch"] == "s1"
    assert "BAD_PREREQ" in document["error"]
    assert "Rule" in document["rule"]
    peer.run(shared.applied)
    peer.close()


def test_unreadable_rules_end_the_connection_and_nothing_else(shared: Process) -> None:
    def answer(frame: Frame) -> bytes | None:
        return multipart_reply(frame, flow_entry(length=0)) if is_flow_request(frame) else None

    broken = Peer(shared.port, 1, answer)
    broken.run(lambda: broken.closed)
    assert "unreadable statistics" in shared.log
    serves(shared)
