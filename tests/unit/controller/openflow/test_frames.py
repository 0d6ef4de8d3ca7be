# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.controller.openflow.frames import (
    Frame,
    Framer,
    MessageType,
    Part,
    ProtocolViolation,
    Replies,
    message,
    multipart,
)


def echo(body: bytes = b"", xid: int = 7, version: int = 4, length: int | None = None) -> bytes:
    """Return an echo request; `length` replaces the true one."""
    size = 8 + len(body) if length is None else length
    return struct.pack("!BBHI", version, 2, size, xid) + body


def test_message__is_what_the_framer_reads() -> None:
    (frame,) = Framer().feed(message(MessageType.ECHO_REQUEST, b"1234", 9))
    assert frame == Frame(4, 2, 9, echo(b"1234", 9))


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_framer__finds_the_messages_however_they_arrive(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(echo(body, i) for i, body in enumerate(bodies))
    framer, frames = Framer(), list[Frame]()
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        frames += framer.feed(stream[:cut])
        stream = stream[cut:]
    assert [(f.xid, f.kind, f.data[8:]) for f in frames] == [(i, 2, body) for i, body in enumerate(bodies)]
    assert not framer.partial


@pytest.mark.parametrize("length", [0, 1, 7])
def test_framer__a_length_below_the_header_is_a_violation(length: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"{length} bytes; the minimum is 8"):
        list(Framer().feed(echo(length=length)))


def test_framer__a_version_that_does_not_exist_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation, match="begins with 0x47"):
        list(Framer().feed(b"GET / HTTP/1.1"))


def test_framer__an_incomplete_message_yields_nothing() -> None:
    framer = Framer()
    assert list(framer.feed(echo(b"1234")[:9])) == []
    assert framer.partial


@given(st.binary(max_size=400))
def test_framer__ends_on_any_bytes_with_frames_or_a_violation(data: bytes) -> None:
    try:
        assert len(list(Framer().feed(data))) <= len(data) / 8
    except ProtocolViolation:
        return


def test_replies__joins_the_parts_of_each_transaction() -> None:
    replies = Replies()
    assert replies.add(1, Part(1, True, b"a")) is None
    assert replies.add(2, Part(1, True, b"x")) is None
    assert replies.add(1, Part(1, False, b"b")) == b"ab"
    assert replies.add(2, Part(1, False, b"y")) == b"xy"


def flood(body: bytes) -> None:
    replies = Replies()
    for _ in range(300_000):
        replies.add(1, Part(1, True, body))


@pytest.mark.parametrize("body", [bytes(60_000), b""])
def test_replies__parts_that_do_not_end_are_a_violation(body: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="do not end"):
        flood(body)


def test_replies__too_many_unfinished_ones_are_a_violation() -> None:
    replies = Replies()
    for xid in range(8):
        replies.add(xid, Part(1, True, b""))
    with pytest.raises(ProtocolViolation, match="9 unfinished"):
        replies.add(8, Part(1, True, b""))


def test_multipart__reads_the_header() -> None:
    body = struct.pack("!HHxxxx", 5, 1) + b"rest"
    (frame,) = Framer().feed(message(MessageType.MULTIPART_REPLY, body))
    stats, more, rest = multipart(frame)
    assert (stats, more, bytes(rest)) == (5, True, b"rest")


def test_multipart__a_short_header_is_a_violation() -> None:
    (frame,) = Framer().feed(message(MessageType.MULTIPART_REPLY, b"\x00\x01"))
    with pytest.raises(ProtocolViolation, match="10 bytes; its header has 16"):
        multipart(frame)
