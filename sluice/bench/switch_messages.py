# SPDX-License-Identifier: Apache-2.0
"""The OpenFlow messages of a switch that the benchmark plays: counters that change in place, and descriptions."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from controller import openflow
from controller.cookies import cookie, cookie_code, cookie_port
from controller.openflow import VERSION, MessageType, StatsType
from controller.rules import FlowRule, MatchValue, SwitchRules
from controller.tables import Table

_PART_BYTES = 60_000


def message(kind: int, xid: int, body: bytes = b"") -> bytes:
    return struct.pack("!BBHI", VERSION, kind, 8 + len(body), xid) + body


def entry(rule: FlowRule) -> bytes:
    """Return a rule as an entry of flow statistics, with counters of zero."""
    body = openflow.rule_body(rule)
    head = struct.pack(
        "!HBxIIHHHHxxxxQQQ", 48 + len(body), rule.table, 1, 0, rule.priority, 0, 0, 0, rule.cookie, 0, 0
    )
    return head + body


class CounterTable:
    """The rules of one table that count by port and tag, as bytes in which the counters change."""

    def __init__(self, rules: list[FlowRule], numbers: npt.NDArray[np.int64], codes: int) -> None:
        rules = [rule for rule in rules if cookie_port(rule.cookie) and cookie_code(rule.cookie) < codes]
        lines = [entry(rule) for rule in rules]
        width = len(lines[0]) if lines else 1
        self._bytes = np.frombuffer(bytearray(b"".join(lines)), np.uint8).reshape(-1, width)
        self._row = np.searchsorted(numbers, [cookie_port(rule.cookie) for rule in rules])
        self._code = np.asarray([cookie_code(rule.cookie) for rule in rules])
        # Only the rules of IPv4 count, or of trunks; those of IPv6 and of the other groups stay at zero.
        self._counts = np.asarray([rule.cookie >> 8 & 0xFF == 0 for rule in rules])
        self.parts = max(1, _PART_BYTES // self._bytes.shape[1])

    def __len__(self) -> int:
        return len(self._bytes)

    def write(self, at: int, values: npt.NDArray[np.int64]) -> None:
        """Write the values of (port, code) into the counters that start at byte `at` of an entry."""
        column = np.where(self._counts, values[self._row, self._code], 0).astype(">u8")
        self._bytes[:, at : at + 8] = column[:, None].view(np.uint8)

    def reply(self, xid: int) -> bytes:
        """Return the whole table, in as many messages as needed."""
        out = []
        for start in range(0, len(self._bytes), self.parts):
            rows = self._bytes[start : start + self.parts]
            more = int(start + self.parts < len(self._bytes))
            out.append(
                message(
                    MessageType.MULTIPART_REPLY,
                    xid,
                    struct.pack("!HHxxxx", StatsType.FLOW, more) + rows.tobytes(),
                )
            )
        return b"".join(out)


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
