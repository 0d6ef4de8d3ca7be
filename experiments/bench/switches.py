# SPDX-License-Identifier: Apache-2.0
"""One process that plays many switches to a controller: OpenFlow over real sockets, counters that grow.

Each switch holds the rules of the policy from the start, and answers every poll with all of its counters. Flows of the
web-search distribution end at every port. To draw the flows of every port at every poll would cost as much as the rest
of the switch. So a poll takes its numbers from draws that are made once, each time from another place.

In the end the process reports the controller's requests, their times, and the queue maps.
"""

import asyncio
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing.connection import Connection
from random import Random
from typing import cast

import numpy as np
import numpy.typing as npt

from sluice.controller.openflow import change, learn
from sluice.controller.openflow.frames import (
    MULTIPART_HEADER_BYTES,
    Frame,
    Framer,
    MessageType,
    StatsType,
    message,
)
from sluice.controller.pipeline import switch_rules
from sluice.controller.policing.hosts import LOW_TAGS
from sluice.controller.rules import FlowRule, MatchValue, SwitchRules
from sluice.controller.tables import Table, cookie, cookie_code, cookie_port
from sluice.policy import tags
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy, queue_map
from sluice.policy.thresholds.port_traffic import TYPICAL_BYTES
from sluice.policy.units import HEADER_BYTES, MSS_BYTES
from sluice.runs.files import load_cdf
from sluice.runtime.process import die_with_parent
from sluice.runtime.wait import wait_until

_PART_BYTES = 60_000
_WORD_BYTES = 8
PACKETS_AT, BYTES_AT = 32, 40
"""Where the counters are in an entry."""


def statistics(kind: int, body: bytes, *, more: bool, xid: int = 0) -> bytes:
    """Return one part of a statistics reply."""
    return message(MessageType.MULTIPART_REPLY, struct.pack("!HHxxxx", kind, int(more)) + body, xid)


def entry(rule: FlowRule) -> bytes:
    """Return a rule as an entry of flow statistics, with counters of zero."""
    body = change.rule_body(rule)
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
        for flow in range(learn.MAX_LEARNED):
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
            yield FlowRule(Table.FLOWS, 1, tuple(match.items()), cookie=cookie(Table.FLOWS, port))


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
        sent = change.group_mod(0, group, 0)
        kind, number = struct.unpack_from("!xxBxI", sent, 8)
        out.append(struct.pack("!HBxI", 8 + len(sent) - 16, kind, number) + sent[16:])
    return b"".join(out)


FLOWS_A_POLL = 60
"""Flows that end at a port between two polls: a 10 Gb/s link under web search at load 0.8, every 100 ms."""
SHIFT_POLLS, SHIFT_BUCKETS = 20, -4
"""Every SHIFT_POLLS polls the sizes change, in turns to a third and back."""
DRAWS = 1 << 13
"""Of the flows of a port between two polls."""

_Counts = npt.NDArray[np.int64]


class Traffic:
    """Counters of one switch: completed flows, packets and bytes, each of shape (ports, TAG_COUNT)."""

    def __init__(self, ports: int, seed: int) -> None:
        self._random = Random(seed)
        self._ports = ports
        self._counts = np.zeros((3, ports, tags.TAG_COUNT), np.int64)
        self.completed, self.packets, self.size_bytes = self._counts

    def flows_end(self, polls: int) -> None:
        """Count the flows since the latest poll, before which there were `polls` - 1 others."""
        first = self._random.randrange(DRAWS - self._ports + 1)
        self._counts += draws(polls // SHIFT_POLLS % 2)[:, first : first + self._ports]


@cache
def draws(turn: int) -> _Counts:
    """Return for one of the two turns by how much the counters of a port grow between two polls. Shape:
    (3, DRAWS, TAG_COUNT)."""
    sizes = load_cdf("web-search").at(np.random.default_rng(1).random(200_000))[0]
    bucket = np.minimum(np.searchsorted(tags.EDGES_BYTES, sizes), tags.ATTAINED_BUCKETS - 1)
    share_of_bucket = np.bincount(bucket, minlength=tags.ATTAINED_BUCKETS) / len(sizes)
    mean = FLOWS_A_POLL * np.roll(share_of_bucket, turn * SHIFT_BUCKETS)
    ended = np.random.default_rng(turn).poisson(mean, (DRAWS, tags.ATTAINED_BUCKETS))
    edges = np.asarray(tags.EDGES_BYTES, float)
    begin = np.concatenate([[0.0], edges[:-1]])
    # In row j and column k: payload in bucket k of a flow that ends in bucket j.
    payload = np.asarray(np.clip(TYPICAL_BYTES[:, None] - begin, 0, edges - begin), np.int64)
    packets = ended @ -(-payload // MSS_BYTES)
    by_tag = np.zeros((3, DRAWS, tags.TAG_COUNT), np.int64)
    counts = ended, packets, ended @ payload + HEADER_BYTES * packets
    by_tag[..., tags.ATTAINED_FIRST : tags.ATTAINED_LAST + 1] = counts
    return by_tag


# ── One switch ───────────────────────────────────────────────────────────────────────────────────────


_COUNTED = (Table.ENDS, Table.MAP, Table.INGRESS)
"""Tables whose counters grow. Hosts send as much as they receive, and their tags are correct."""
_BUNDLE_ADD = 2301
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
        self._flows = in_parts(b"".join(map(entry, learned(self._numbers[:2].tolist()))))
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
                return message(MessageType.ECHO_REPLY, frame.data[8:], frame.xid)
            case 5:
                features = struct.pack("!QIBBxxII", self._dpid, 0, 254, 0, 0, 0)
                return message(MessageType.FEATURES_REPLY, features, frame.xid)
            case 18:
                return self._statistics(frame)
            case 20:
                return self._barrier(frame)
            case 24:
                return message(MessageType.ROLE_REPLY, frame.data[8:], frame.xid)
            case MessageType.EXPERIMENTER:
                return self._bundle(frame)
        return b""

    def _statistics(self, frame: Frame) -> bytes | memoryview:
        kind = struct.unpack_from("!H", frame.data, 8)[0]
        if kind == StatsType.FLOW and frame.data[16] == Table.ENDS:
            self.record.polls_at.append(time.monotonic())
            self.traffic.flows_end(len(self.record.polls_at))
            reply = self._count(Table.ENDS, frame.xid)
            self._counters_at = time.monotonic()
            return reply
        if kind == StatsType.FLOW and frame.data[16] in (Table.MAP, Table.INGRESS):
            low_tags = frame.data[16] == Table.INGRESS and frame.data[47] != 0  # byte 47: its cookie mask
            return self._count(Table(frame.data[16]), frame.xid, low_tags=low_tags)
        parts = self._descriptions.get(kind, [b""])
        if kind == StatsType.FLOW and frame.data[16] == Table.FLOWS:
            parts = self._flows
            self.record.entries += 2 * learn.MAX_LEARNED
        return b"".join(statistics(kind, part, more=part is not parts[-1], xid=frame.xid) for part in parts)

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
        if kind == _BUNDLE_ADD and frame.data[48] == Table.EDGE:
            self.record.modified += 1
            return b""
        if kind == _BUNDLE_ADD:
            code, port = struct.unpack_from("!HH", frame.data, 84)
            self._staged.append((port, code, frame.data[128]))
            return b""
        control = struct.unpack_from("!H", frame.data, 20)[0]
        self._committing = control == _COMMIT
        if self._committing and self._staged:
            port, code, queue = np.asarray(self._staged).T
            self.queues[np.searchsorted(self._numbers, port), code] = queue
            self.record.modified += len(self._staged)
            self._staged.clear()
        reply = struct.pack("!IIIHH", owner, kind, bundle, _REPLY_OF[control], 3)
        return message(MessageType.EXPERIMENTER, reply, frame.xid)

    def _barrier(self, frame: Frame) -> bytes:
        if self._committing and self._counters_at is not None:
            self.record.took_s.append(time.monotonic() - self._counters_at)
            self._counters_at = None
        self._committing = False
        return message(MessageType.BARRIER_REPLY, xid=frame.xid)


# ── Its connections ──────────────────────────────────────────────────────────────────────────────────


WARM_POLLS = 30
"""Polls of each switch before the measurement."""
LIMIT_S = 240.0


class Line(asyncio.Protocol):
    """A connection of a switch to the controller."""

    def __init__(self, switch: Switch) -> None:
        self._switch, self._framer = switch, Framer()
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(message(MessageType.HELLO, xid=1))

    def data_received(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._transport.write(
                bytes(self._switch.answer(frame))
            )  # a copy: the counters may change before it is sent

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set_result(None)


def play(
    topology: Topology, policy: Policy, port: int, seconds: float, core: int, report: Connection
) -> None:
    """Serve a controller on one core until it closes the connections. Dies with the parent.

    Reports the begin and the end of the measurement, and at last what the controller requested during it.
    """
    die_with_parent()
    os.sched_setaffinity(0, {core})
    wait_until(lambda: _listens(port), "the controller listens", timeout_s=60)
    switches = [
        Switch(topology, switch.name, switch.dpid, policy, seed)
        for seed, switch in enumerate(topology.switches)
    ]
    asyncio.run(_serve(switches, port, seconds, report))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _serve(switches: list[Switch], port: int, seconds: float, report: Connection) -> None:
    """TimeoutError: the controller polls too seldom, or does not close the connections."""
    loop = asyncio.get_running_loop()
    lines = [
        (await loop.create_connection(partial(Line, switch), "127.0.0.1", port))[1] for switch in switches
    ]
    async with asyncio.timeout(LIMIT_S):
        while not all(len(switch.record.polls_at) >= WARM_POLLS for switch in switches):
            await asyncio.sleep(0.05)
    _fresh_records(switches)
    report.send(None)
    await asyncio.sleep(seconds)
    report.send(None)
    records = _fresh_records(switches)
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*(line.closed for line in lines))
    report.send(
        {
            "polls_at": [record.polls_at for record in records],
            "took_s": [took for record in records for took in record.took_s],
            "modified": sum(record.modified for record in records),
            "entries": sum(record.entries for record in records),
            "queues": {switch.name: switch.queues for switch in switches},
        }
    )


def _fresh_records(switches: list[Switch]) -> list[Record]:
    """Return the records of all switches so far, and begin new ones."""
    records = [switch.record for switch in switches]
    for switch in switches:
        switch.record = Record()
    return records
