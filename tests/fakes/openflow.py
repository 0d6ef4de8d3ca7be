# SPDX-License-Identifier: Apache-2.0
"""OpenFlow bytes as a switch sends them, and a switch's reading of the controller's bytes."""

import struct
from collections.abc import Mapping

from sluice.controller.openflow.change import rule_body
from sluice.controller.openflow.frames import Frame, Framer, MessageType
from sluice.controller.rules import FlowRule, MatchValue
from sluice.controller.tables import Table, cookie

BUNDLE_CONTROL, BUNDLE_ADD = 2300, 2301
"""ONF's experimenter types."""
TCP_FLOW: dict[str, MatchValue] = {
    "ipv4_src": "10.0.0.2",
    "ipv4_dst": "10.0.0.1",
    "tcp_src": 4000,
    "tcp_dst": 80,
}
NO_MATCH = b"\x00\x01\x00\x04\x00\x00\x00\x00"
_FLOW_ENTRY = struct.Struct("!HBxIIHHHHxxxxQQQ")


class Xids:
    """Message numbers from 1 on."""

    def __init__(self) -> None:
        self.last_xid = 0

    def reserve_xids(self, count: int) -> int:
        self.last_xid += count
        return self.last_xid - count + 1


# ── Messages of the controller ─────────────────────────────────────────────────────────────────


def frames(data: bytes) -> list[Frame]:
    return list(Framer().feed(data))


def inner(frame: Frame) -> Frame | None:
    """Return the message within a bundle-add; None for any other message."""
    if frame.kind != MessageType.EXPERIMENTER:
        return None
    if struct.unpack_from("!I", frame.data, 12)[0] != BUNDLE_ADD:
        return None
    return frames(frame.data[24:])[0]


def inners(data: bytes) -> list[Frame]:
    """Return the messages within all bundle-adds."""
    return [found for frame in frames(data) if (found := inner(frame)) is not None]


# ── Entries of statistics replies ──────────────────────────────────────────────────────────────


def flow_entry(
    number: int = 1,
    packets: int = 2,
    match: bytes = NO_MATCH,
    instructions: bytes = b"",
    length: int | None = None,
    duration_s: int = 1,
) -> bytes:
    """Return a flow statistics entry with this cookie. `length` replaces the true length."""
    size = 48 + len(match) + len(instructions) if length is None else length
    head = _FLOW_ENTRY.pack(size, 2, duration_s, 0, 10, 0, 0, 0, number, packets, 99)
    return head + match + instructions


def entry_of(rule: FlowRule) -> bytes:
    """Return the flow statistics entry of a rule that has counted nothing."""
    body = rule_body(rule)
    head = (48 + len(body), rule.table, 1, 0, rule.priority, 0, 0, 0, rule.cookie, 0, 0)
    return _FLOW_ENTRY.pack(*head) + body


def entry_of_flow_mod(flow_mod: Frame) -> bytes:
    """Return the entry of the rule that a flow-mod adds. Both have the same body."""
    number, table = struct.unpack_from("!Q8xB", flow_mod.data, 8)
    priority = struct.unpack_from("!H", flow_mod.data, 30)[0]
    body = flow_mod.data[48:]
    return _FLOW_ENTRY.pack(48 + len(body), table, 1, 0, priority, 0, 0, 0, number, 0, 0) + body


def entry_of_group_mod(group_mod: Frame) -> bytes:
    """Return the group description of the group that a group-mod adds."""
    kind, number = struct.unpack_from("!xxBxI", group_mod.data, 8)
    buckets = group_mod.data[16:]
    return struct.pack("!HBxI", 8 + len(buckets), kind, number) + buckets


def learned_entry(
    port: int, tag: int, packets: int, size_bytes: int, match: Mapping[str, MatchValue], age_s: int = 1
) -> bytes:
    """Return the entry of a rule that Open vSwitch has learned, by default for TCP over IPv4.

    `match`: more fields, or other values.
    """
    base: dict[str, MatchValue] = {"eth_type": 0x0800, "ip_proto": 6, "ip_dscp": tag}
    fields = {"in_port": port, **base, **match}
    body = rule_body(FlowRule(0, 0, tuple(fields.items())))
    number, half_a_second_ns = cookie(Table.FLOWS, port), 500_000_000
    head = (48 + len(body), Table.FLOWS, age_s, half_a_second_ns, 1, 0, 2, 0, number)
    return _FLOW_ENTRY.pack(*head, packets, size_bytes) + body
