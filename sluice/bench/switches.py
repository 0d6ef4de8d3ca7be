# SPDX-License-Identifier: Apache-2.0
"""One process that plays many switches to a controller: OpenFlow over real sockets, counters that grow.

    python -m sluice.bench.switches < order.json        # a topology, a policy, ports, how long to run

Each switch connects to one controller at each port, and answers each on its own connection.

From the start they hold the rules of the policy. They answer every poll with all of their
counters: flows of the web-search distribution end at every port. In the end they report the
controller's requests, their times, and the maps.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from controller import openflow
from controller.cookies import cookie_code
from controller.openflow import Frame, Framer, MessageType, StatsType
from controller.pipeline import switch_rules
from controller.policing import LOW_TAGS
from controller.tables import Table
from policy import tags
from policy.desired import Policy
from policy.framing import HEADER_BYTES, MSS_BYTES
from policy.graph import Topology
from policy.port_traffic import TYPICAL_BYTES
from policy.queue_map import queue_map
from runtime.wait import wait_until
from sluice.bench.switch_messages import CounterTable, entry, group_statistics, in_parts, learned, message
from sluice.runs.files import load_cdf

FLOWS_A_POLL = 60
"""Flows that end at a port between two polls: a 10 Gb/s link under web search at load 0.8, every 100 ms."""
SHIFT_POLLS, SHIFT_BUCKETS = 20, -4
"""Every SHIFT_POLLS polls the sizes change, in turns to a third and back."""
_COUNTED = (Table.ENDS, Table.MAP, Table.INGRESS)
"""Tables whose counters grow. Hosts send as much as they receive, and their tags are correct."""
_PACKETS_AT, _BYTES_AT = 32, 40
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


class Line:
    """A connection of a switch to a controller."""

    def __init__(self, switch: Switch, port: int) -> None:
        self._switch, self._framer = switch, Framer()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(message(MessageType.HELLO, 1))

    def read(self) -> bool:
        """Answer the messages that have arrived. Returns False once the controller has closed the
        connection."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError:
            return False
        answers = [self._switch.answer(frame) for frame in self._framer.feed(data)]
        if out := b"".join(answers):
            self.socket.sendall(out)
        return bool(data)


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
        self._random = np.random.default_rng(seed)
        self._completed = np.zeros((len(ports), tags.TAG_COUNT), np.int64)
        self._carried = np.zeros((2, len(ports), tags.TAG_COUNT), np.int64)
        self._counters_at: float | None = None
        self._committing = False
        self._staged: list[tuple[int, int, int]] = []
        self.record = Record()

    # ── Traffic ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _flows_end(self) -> None:
        turn = len(self.record.polls_at) // SHIFT_POLLS % 2
        mean = FLOWS_A_POLL * np.roll(_ENDS, turn * SHIFT_BUCKETS)
        ended = self._random.poisson(mean, (len(self._numbers), tags.ATTAINED_BUCKETS))
        first, end = tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1
        self._completed[:, first:end] += ended
        packets = ended @ _PACKETS_OF
        self._carried[0][:, first:end] += packets
        self._carried[1][:, first:end] += ended @ _PAYLOAD_OF + HEADER_BYTES * packets

    # ── Answers ────────────────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, frame: Frame) -> bytes:
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

    def _statistics(self, frame: Frame) -> bytes:
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
        heads = [struct.pack("!HHxxxx", kind, int(i + 1 < len(parts))) for i in range(len(parts))]
        return b"".join(
            message(MessageType.MULTIPART_REPLY, frame.xid, head + part)
            for head, part in zip(heads, parts, strict=True)
        )

    def _polled(self, xid: int) -> bytes:
        now = time.monotonic()
        self.record.polls_at.append(now)
        self._flows_end()
        reply = self._count(Table.ENDS, xid)
        self._counters_at = time.monotonic()
        return reply

    def _count(self, table: Table, xid: int, *, low_tags: bool = False) -> bytes:
        counters = self._low_tags if low_tags else self._tables[table]
        if table == Table.ENDS:
            counters.write(_PACKETS_AT, self._completed)
        else:
            counters.write(_PACKETS_AT, self._carried[0])
            counters.write(_BYTES_AT, self._carried[1])
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


def _ends() -> npt.NDArray[np.float64]:
    """Return the share of all flows that end in each bucket, under the web-search distribution."""
    sizes = load_cdf("web-search")
    drawn = sizes.at(np.random.default_rng(1).random(200_000))[0]
    bucket = np.minimum(np.searchsorted(tags.EDGES_BYTES, drawn), tags.ATTAINED_BUCKETS - 1)
    return np.asarray(np.bincount(bucket, minlength=tags.ATTAINED_BUCKETS) / len(drawn))


def _payloads() -> npt.NDArray[np.int64]:
    """Return matrix (j, k): payload in bucket k of a flow that ends in bucket j."""
    edges = np.asarray(tags.EDGES_BYTES, float)
    begin = np.concatenate([[0.0], edges[:-1]])
    return np.asarray(np.clip(TYPICAL_BYTES[:, None] - begin, 0, edges - begin), np.int64)


_ENDS = _ends()
_PAYLOAD_OF = _payloads()
_PACKETS_OF = -(-_PAYLOAD_OF // MSS_BYTES)


def run(order: Mapping[str, Any]) -> dict[str, Any]:
    """Serve a controller until it closes the connections. Returns what it requested during the measurement."""
    topology = Topology.from_document(order["topology"])
    policy = Policy.from_document(order["policy"])
    switches = [
        Switch(topology, switch.name, switch.dpid, policy, seed)
        for seed, switch in enumerate(topology.switches)
    ]
    serving = Serving(switches, order["ports"])
    serving.until(
        lambda: all(len(s.record.polls_at) >= order["warm_polls"] for s in switches), order["limit_s"]
    )
    records = serving.measure(order["seconds"])
    serving.until(lambda: not serving.connected, order["limit_s"])
    return {
        "polls_at": [record.polls_at for record in records],
        "took_s": [took for record in records for took in record.took_s],
        "modified": sum(record.modified for record in records),
        "entries": sum(record.entries for record in records),
        "queues": {switch.name: switch.queues.tolist() for switch in switches},
    }


class Serving:
    """Switches and their connections to each controller."""

    def __init__(self, switches: list[Switch], ports: list[int]) -> None:
        self._switches = switches
        self._selector = selectors.DefaultSelector()
        for port in ports:
            wait_until(partial(_listens, port), "the controller listens", timeout_s=60)
            for switch in switches:
                line = Line(switch, port)
                self._selector.register(line.socket, selectors.EVENT_READ, line)

    @property
    def connected(self) -> bool:
        return bool(self._selector.get_map())

    def measure(self, seconds: float) -> list[Record]:
        for switch in self._switches:
            switch.record = Record()
        print("measuring", flush=True)
        began = time.monotonic()
        self.until(lambda: time.monotonic() - began >= seconds, seconds + 1)
        print("measured", flush=True)
        records = [switch.record for switch in self._switches]
        for switch in self._switches:
            switch.record = Record()
        return records

    def until(self, condition: Callable[[], bool], limit_s: float) -> None:
        """Answer messages until the condition holds. Raises TimeoutError after the limit."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError("the controller did not send enough polls in time")
            for key, _ in self._selector.select(0.05):
                if not key.data.read():
                    self._selector.unregister(key.fileobj)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.stdin.readline()))))
