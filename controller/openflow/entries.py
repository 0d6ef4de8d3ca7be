# SPDX-License-Identifier: Apache-2.0
"""Entries of statistics replies, with every nested length checked.

os-ken 4.2's parsers advance by the length fields that they read, and loop without end on a length
of 0. So a body from a switch passes these checks before os-ken parses it. Malformed bytes raise
ProtocolViolation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from sluice.controller.openflow.frames import ProtocolViolation, u16

FLOW_FIXED_BYTES = 48
"""Of a flow statistics entry: what precedes the match (1.3.5, section 7.3.5.2)."""
_FLOW_ENTRY = struct.Struct("!HBxIIHHHHxxxxQQQ")
_MATCH_HEADER_BYTES = 4
_OXM_HEADER_BYTES = 4
_HAVE_ACTIONS = (3, 4, 5)
"""Types of instructions with actions: write, apply, clear."""
_INSTRUCTION_BYTES = {1: 8, 2: 24, 6: 8}
"""The length of a goto, of metadata and of a meter. os-ken takes these, whatever the instruction says."""
_OUTPUT, _SET_FIELD, _EXPERIMENTER = 0, 25, 0xFFFF
"""Types of actions that are longer than 8 bytes."""
_OXM_BASIC = 0x8000
_FIELD_BYTES = {0: 4, 3: 6, 4: 6, 5: 2, 8: 1, 10: 1, 22: 4, 26: 16, 27: 16}
_FIELD_BYTES |= {11: 4, 12: 4, 13: 2, 14: 2, 15: 2, 16: 2}
"""Size of each basic field that is read, by its number (1.3.5, table 12)."""


def _items(data: bytes, start: int, end: int, *, length_at: int, at_least: int, what: str) -> Iterator[int]:
    """Yield the offsets of the items of a list, each of which carries its own length."""
    while start < end:
        if end - start < at_least:
            raise ProtocolViolation(f"{what} is cut off: {end - start} bytes of at least {at_least}")
        length = u16(data, start + length_at)
        if length < at_least or start + length > end:
            raise ProtocolViolation(
                f"{what} gives its length as {length} bytes; {at_least} to {end - start} are possible"
            )
        yield start
        start += length


def flow_entry_offsets(body: bytes, start: int = 0) -> Iterator[int]:
    """Yield the offsets of the entries of a flow statistics reply."""
    at_least = FLOW_FIXED_BYTES + 8
    return _items(body, start, len(body), length_at=0, at_least=at_least, what="a flow statistics entry")


class FlowEntry(NamedTuple):
    """A rule in a flow statistics reply, without its counters."""

    table: int
    priority: int
    timeouts: tuple[int, int]
    """Idle and hard timeout in seconds; 0 is none."""
    cookie: int
    tail: bytes
    """Match and instructions. `check_tail` has not seen them."""


def flow_entries(body: bytes) -> Iterator[FlowEntry]:
    """Yield the rules of a flow statistics reply."""
    for start in flow_entry_offsets(body):
        length, table, _, _, priority, idle, hard, _, cookie, *_ = _FLOW_ENTRY.unpack_from(body, start)
        tail = body[start + FLOW_FIXED_BYTES : start + length]
        yield FlowEntry(table, priority, (idle, hard), cookie, tail)


class LearnedEntry(NamedTuple):
    """The counters of a rule that the switch has learned from a packet."""

    cookie: int
    duration_s: float
    packets: int
    size_bytes: int
    match: bytes
    """The fields of the match. `match_fields` has not seen them."""


def learned_entries(body: bytes) -> Iterator[LearnedEntry]:
    """Yield the entries of a flow statistics reply with their counters."""
    for start in flow_entry_offsets(body):
        length, _, seconds, ns, *_, cookie, packets, size_bytes = _FLOW_ENTRY.unpack_from(body, start)
        match_start = start + FLOW_FIXED_BYTES
        match_length = u16(body, match_start + 2)
        if not _MATCH_HEADER_BYTES <= match_length <= length - FLOW_FIXED_BYTES:
            raise _bad_match(match_length, length - FLOW_FIXED_BYTES)
        match = body[match_start + _MATCH_HEADER_BYTES : match_start + match_length]
        yield LearnedEntry(cookie, seconds + ns / 1e9, packets, size_bytes, match)


def _bad_match(length: int, at_most: int) -> ProtocolViolation:
    return ProtocolViolation(
        f"a match gives its length as {length} bytes; {_MATCH_HEADER_BYTES} to {at_most} are possible"
    )


def match_fields(match: bytes) -> dict[int, bytes]:
    """Return the values of the basic fields by number (1.3.5, section 7.2.3.7).

    Masked fields and the fields of experimenters are left out. Raises ProtocolViolation.
    """
    _check_fields(match, 0, len(match))
    fields, at = {}, 0
    while at < len(match):
        end = at + _OXM_HEADER_BYTES + match[at + 3]
        if u16(match, at) == _OXM_BASIC and not match[at + 2] & 1:
            number, size = match[at + 2] >> 1, end - at - _OXM_HEADER_BYTES
            if size != _FIELD_BYTES.get(number, size):
                raise ProtocolViolation(
                    f"match field {number} has {size} bytes instead of {_FIELD_BYTES[number]}"
                )
            fields[number] = match[at + _OXM_HEADER_BYTES : end]
        at = end
    return fields


def check_tail(tail: bytes) -> None:
    """Check the match and the instructions of a flow statistics entry."""
    match_length = u16(tail, 2)
    instructions = (match_length + 7) // 8 * 8
    if match_length < _MATCH_HEADER_BYTES or instructions > len(tail):
        raise _bad_match(match_length, len(tail))
    _check_fields(tail, _MATCH_HEADER_BYTES, match_length)
    for at in _items(tail, instructions, len(tail), length_at=2, at_least=8, what="an instruction"):
        kind, length = u16(tail, at), u16(tail, at + 2)
        if length != _INSTRUCTION_BYTES.get(kind, length):
            raise ProtocolViolation(f"an instruction of type {kind} gives its length as {length} bytes")
        if kind in _HAVE_ACTIONS:
            _check_actions(tail, at + 8, at + length)


def _check_fields(data: bytes, start: int, end: int) -> None:
    while start < end:
        if end - start < _OXM_HEADER_BYTES or start + _OXM_HEADER_BYTES + data[start + 3] > end:
            raise ProtocolViolation(f"a match field is cut off: {end - start} bytes remain for it")
        start += _OXM_HEADER_BYTES + data[start + 3]


def _check_actions(data: bytes, start: int, end: int) -> None:
    for at in _items(data, start, end, length_at=2, at_least=8, what="an action"):
        kind, length = u16(data, at), u16(data, at + 2)
        fixed = kind not in (_SET_FIELD, _EXPERIMENTER)
        if length % 8 or (fixed and length != (16 if kind == _OUTPUT else 8)):
            raise ProtocolViolation(f"an action of type {kind} gives its length as {length} bytes")


def group_entry_offsets(body: bytes) -> Iterator[int]:
    """Yield the offsets of the entries of a group description reply, each checked throughout."""
    for start in _items(body, 0, len(body), length_at=0, at_least=8, what="a group"):
        end = start + u16(body, start)
        for bucket in _items(body, start + 8, end, length_at=0, at_least=16, what="a bucket"):
            _check_actions(body, bucket + 16, bucket + u16(body, bucket))
        yield start


def meter_entry_offsets(body: bytes) -> Iterator[int]:
    """Yield the offsets of the entries of a meter configuration reply."""
    return _items(body, 0, len(body), length_at=0, at_least=8, what="a meter")
