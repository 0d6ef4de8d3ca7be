# SPDX-License-Identifier: Apache-2.0
"""The OpenFlow messages of a switch that the benchmark plays: counters that change in place, and descriptions."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sluice.controller import openflow
from sluice.controller.cookies import cookie, cookie_code, cookie_port
from sluice.controller.openflow import VERSION, MessageType, StatsType
from sluice.controller.openflow.frames import MULTIPART_HEADER_BYTES
from sluice.controller.rules import FlowRule, MatchValue, SwitchRules
from sluice.controller.tables import Table

_PART_BYTES = 60_000
_WORD_BYTES = 8
PACKETS_AT, BYTES_AT = 32, 40
"""Where the counters are in an entry."""


def message(kind: int, xid: int, body: bytes = b"") -> bytes:
    return struct.pack("!BBHI", VERSION, kind, 8 + len(body), xid) + body


def statistics(kind: int, body: bytes, *, more: bool, xid: int = 0) -> bytes:
    """Return one part of a statistics reply."""
    return message(MessageType.MULTIPART_REPLY, xid, struct.pack("!HHxxxx", kind, int(more)) + body)


def entry(rule: FlowRule) -> bytes:
    """Return a rule as an entry of flow statistics, with counters of zero."""
    body = openflow.rule_body(rule)
    head = struct.pack(
        "!HBxIIHHHHxxxxQQQ", 48 + len(body), rule.table, 1, 0, rule.priority, 0, 0, 0, rule.cookie, 0, 0
    )
    return head + body


class CounterTable:
    """The rules of one table that count by port and tag, as the bytes of a reply in which the counters change."""

    def __init__(self, rules: list[FlowRule], numbers: npt.NDArray[np.int64], codes: int) -> None:
        rules = [rule for rule in rules if cookie_port(rule.cookie) and cookie_code(rule.cookie) < codes]
        entries = [entry(rule) for rule in rules]
        width = len(entries[0]) if entries else _WORD_BYTES
        in_part = _PART_BYTES // width
        parts = [entries[start : start + in_part] for start in range(0, len(entries), in_part)] or [[]]
        self._size = len(entries)
        self._reply = bytearray().join(
            statistics(StatsType.FLOW, b"".join(part), more=part is not parts[-1]) for part in parts
        )
        heads = np.arange(len(parts)) * (MULTIPART_HEADER_BYTES + in_part * width)
        self._xids, self._xid_at = np.frombuffer(self._reply, ">u4"), heads // 4 + 1
        # Only the rules of IPv4 count, or of trunks; those of IPv6 and of the other groups stay at zero.
        counting = [at for at, rule in enumerate(rules) if rule.cookie >> 8 & 0xFF == 0]
        row = np.searchsorted(numbers, [cookie_port(rules[at].cookie) for at in counting])
        code = np.asarray([cookie_code(rules[at].cookie) for at in counting], np.int64)
        self._cells = row * codes + code
        """Of each entry that counts: its index in the values of (port, code)."""
        starts = [MULTIPART_HEADER_BYTES * (1 + at // in_part) + at * width for at in counting]
        # Words of the host's byte order: numpy would write others through a buffer. All lengths in OpenFlow are words.
        self._words = np.frombuffer(self._reply, np.int64)
        first = np.asarray(starts, np.int64) // _WORD_BYTES
        self._word_at = {at: first + at // _WORD_BYTES for at in (PACKETS_AT, BYTES_AT)}

    def __len__(self) -> int:
        return self._size

    def write(self, at: int, values: npt.NDArray[np.int64]) -> None:
        """Write the values of (port, code) into the counters at byte `at` of the entries."""
        counted = values.reshape(-1).take(self._cells).astype(">i8")
        self._words[self._word_at[at]] = counted.view(np.int64)

    def reply(self, xid: int) -> memoryview:
        """Return the whole table, in as many messages as needed. The bytes are valid until the next call."""
        self._xids[self._xid_at] = xid
        return memoryview(self._reply)


def learned(ports: Sequence[int]) -> Iterator[FlowRule]:
    """Yield the rules that two watched ports learned of flows with correct tags: as many as there
    is room for."""
    for port in ports:
        for flow in range(openflow.MAX_LEARNED):
            match: dict[str, MatchValue] = {
                "in_port": port,
                "eth_type": 0x0800,
                "ip_proto": 6,
                "ipv4_src": f"10.0.0.{port}",
                "ipv4_dst": "10.0.1.1",
                "tcp_src": 40_000 + flow // 8,
                "tcp_dst": 80,
                "ip_dscp": 1 + flow % 8,
            }
            yield FlowRule(Table.WITNESS, 1, tuple(match.items()), cookie=cookie(Table.WITNESS, port))


def in_parts(body: bytes) -> list[bytes]:
    """Return the entries in parts that each fit a message. Each entry starts with its length."""
    parts, begin, at = [], 0, 0
    while at < len(body):
        size = body[at] << 8 | body[at + 1]
        if at + size - begin > _PART_BYTES:
            parts.append(body[begin:at])
            begin = at
        at += size
    return [*parts, body[begin:]]


def group_statistics(rules: SwitchRules) -> bytes:
    """Return group descriptions: the buckets of group-mod messages with another header."""
    out = []
    for group in rules.groups:
        sent = openflow.group_mod(0, group, 0)
        kind, number = struct.unpack_from("!xxBxI", sent, 8)
        out.append(struct.pack("!HBxI", 8 + len(sent) - 16, kind, number) + sent[16:])
    return b"".join(out)
