# SPDX-License-Identifier: Apache-2.0
"""One of the switches that the benchmark plays: its rules, its counters, its answers.

From the start it holds the rules of the policy. It answers every poll with all of its counters. It records the
controller's requests and their times.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field

import numpy as np

from sluice.bench.switch_messages import (
    BYTES_AT,
    PACKETS_AT,
    CounterTable,
    entry,
    group_statistics,
    in_parts,
    learned,
    message,
    statistics,
)
from sluice.bench.switch_traffic import Traffic
from sluice.controller import openflow
from sluice.controller.cookies import cookie_code
from sluice.controller.openflow import Frame, MessageType, StatsType
from sluice.controller.pipeline import switch_rules
from sluice.controller.policing import LOW_TAGS
from sluice.controller.tables import Table
from sluice.policy import tags
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy, queue_map

_COUNTED = (Table.ENDS, Table.MAP, Table.INGRESS)
"""Tables whose counters grow. Hosts send as much as they receive, and their tags are correct."""
_BUNDLE_CONTROL, _BUNDLE_ADD = 2300, 2301
_REPLY_OF = {0: 1, 2: 3, 4: 5, 6: 7}
_COMMIT = 4


@dataclass
class Record:
    """What one switch recorded during the measurement."""

    polls_at: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    """From the moment the counters left to the acknowledgement of the rules that followed from them."""
    modified: int = 0
    entries: int = 0


class Switch:
    """One switch: its counters, its queue maps."""

    def __init__(self, topology: Topology, name: str, dpid: int, policy: Policy, seed: int) -> None:
        self.name, self._dpid = name, dpid
        ports = topology.ports_of[name]
        self._numbers = np.asarray([port.number for port in ports], np.int64)
        queues = queue_map(policy, policy.thresholds)
        self.queues = np.tile(np.asarray(queues), (len(ports), 1))
        rules = switch_rules(topology, name, dict.fromkeys(self._numbers.tolist(), queues))
        self._tables = {
            table: CounterTable([r for r in rules.flows if r.table == table], self._numbers, tags.TAG_COUNT)
            for table in _COUNTED
        }
        low = [r for r in rules.flows if r.table == Table.INGRESS and cookie_code(r.cookie) < LOW_TAGS]
        self._low_tags = CounterTable(low, self._numbers, tags.TAG_COUNT)
        self._witnesses = in_parts(b"".join(map(entry, learned(self._numbers[:2].tolist()))))
        self._descriptions = {
            StatsType.FLOW: in_parts(b"".join(map(entry, rules.flows))),
            StatsType.GROUP_DESC: in_parts(group_statistics(rules)),
        }
        self.traffic = Traffic(len(ports), seed)
        self._counters_at: float | None = None
        self._committing = False
        self._staged: list[tuple[int, int, int]] = []
        self.record = Record()

    # ── Answers ────────────────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, frame: Frame) -> bytes | memoryview:
        match frame.kind:
            case MessageType.ECHO_REQUEST:
                return message(MessageType.ECHO_REPLY, frame.xid, frame.data[8:])
            case 5:
                return message(
                    MessageType.FEATURES_REPLY,
                    frame.xid,
                    struct.pack("!QIBBxxII", self._dpid, 0, 254, 0, 0, 0),
                )
            case 18:
                return self._statistics(frame)
            case 20:
                return self._barrier(frame)
            case 24:
                return message(MessageType.ROLE_REPLY, frame.xid, frame.data[8:])
            case MessageType.EXPERIMENTER:
                return self._bundle(frame)
        return b""

    def _statistics(self, frame: Frame) -> bytes | memoryview:
        kind = struct.unpack_from("!H", frame.data, 8)[0]
        if kind == StatsType.FLOW and frame.data[16] == Table.ENDS:
            return self._polled(frame.xid)
        if kind == StatsType.FLOW and frame.data[16] in (Table.MAP, Table.INGRESS):
            low_tags = frame.data[16] == Table.INGRESS and frame.data[47] != 0  # byte 47: its cookie mask
            return self._count(Table(frame.data[16]), frame.xid, low_tags=low_tags)
        parts = self._descriptions.get(kind, [b""])
        if kind == StatsType.FLOW and frame.data[16] == Table.WITNESS:
            parts = self._witnesses
            self.record.entries += 2 * openflow.MAX_LEARNED
        return b"".join(statistics(kind, part, more=part is not parts[-1], xid=frame.xid) for part in parts)

    def _polled(self, xid: int) -> memoryview:
        now = time.monotonic()
        self.record.polls_at.append(now)
        self.traffic.flows_end(len(self.record.polls_at))
        reply = self._count(Table.ENDS, xid)
        self._counters_at = time.monotonic()
        return reply

    def _count(self, table: Table, xid: int, *, low_tags: bool = False) -> memoryview:
        counters = self._low_tags if low_tags else self._tables[table]
        if table == Table.ENDS:
            counters.write(PACKETS_AT, self.traffic.completed)
        else:
            counters.write(PACKETS_AT, self.traffic.packets)
            counters.write(BYTES_AT, self.traffic.size_bytes)
        self.record.entries += len(counters)
        return counters.reply(xid)

    def _bundle(self, frame: Frame) -> bytes:
        owner, kind, bundle = struct.unpack_from("!III", frame.data, 8)
        if kind == _BUNDLE_ADD and frame.data[48] == Table.CONDUCT:
            self.record.modified += 1
            return b""
        if kind == _BUNDLE_ADD:
            code, port = struct.unpack_from("!HH", frame.data, 84)
            self._staged.append((port, code, frame.data[128]))
            return b""
        control = struct.unpack_from("!H", frame.data, 20)[0]
        self._committing = control == _COMMIT
        if self._committing and self._staged:
            self._take_staged()
        return message(
            MessageType.EXPERIMENTER,
            frame.xid,
            struct.pack("!IIIHH", owner, kind, bundle, _REPLY_OF[control], 3),
        )

    def _take_staged(self) -> None:
        port, code, queue = np.asarray(self._staged).T
        self.queues[np.searchsorted(self._numbers, port), code] = queue
        self.record.modified += len(self._staged)
        self._staged.clear()

    def _barrier(self, frame: Frame) -> bytes:
        if self._committing and self._counters_at is not None:
            self.record.took_s.append(time.monotonic() - self._counters_at)
            self._counters_at = None
        self._committing = False
        return message(MessageType.BARRIER_REPLY, frame.xid)
