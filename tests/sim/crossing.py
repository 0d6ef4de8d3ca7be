# SPDX-License-Identifier: Apache-2.0
"""Many hosts send one packet each through one port: the port's behaviour, and the behaviour by definition.

Every flow sends one packet, because its initial window is 1. Its ACK takes a millisecond, and by then the test is over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.sim import kit
from tests.sim.kit import FRAME, GBIT, HEADER, MS, PAYLOAD, Link, serialisation

UP_BPS = 1000 * GBIT
SILENCE = MS


@dataclass
class Packet:
    """One packet. `packets`: how many its flow has; this is the first of them."""

    start_ps: int
    priority: int
    frame_bytes: int = FRAME
    packets: int = 1

    @property
    def arrival_ps(self) -> int:
        return self.start_ps + serialisation(self.frame_bytes, UP_BPS)


@dataclass
class Fate:
    """For each packet: when its service began (None if it was dropped), and whether it was marked."""

    served_ps: list[int | None]
    marked: list[bool] = field(default_factory=list)


def random_packets(
    seed: int, count: int, over_ps: int, *, packets: Sequence[int] = (1,), full: bool = False
) -> list[Packet]:
    """Return packets in the order of their starts, with random priorities and, unless `full`, random sizes."""
    rng = np.random.default_rng(seed)
    made = []
    for start in np.sort(rng.choice(over_ps, count, replace=False)):
        total = int(rng.choice(packets))
        frame = FRAME if full or total > 1 else HEADER + int(rng.integers(1, PAYLOAD + 1))
        made.append(Packet(int(start), int(rng.integers(8)), frame, total))
    return sorted(made, key=lambda p: p.start_ps)


def cross(packets: Sequence[Packet], port: Link) -> Fate:
    """Return the behaviour of the fabric's port. This function sets the link's delay."""
    sink = len(packets)
    port.delay_ps = SILENCE
    settings = kit.transport(initial_window=1, tags_deadlines=True)
    net = kit.single(sink + 1, settings, up=Link(UP_BPS, 0), down=port)
    net.fabric.set_queue_of(net.towards[sink], kit.priority_map())
    _add(net, packets, sink)
    fate = Fate([None] * sink, [False] * sink)
    by_arrival = {p.arrival_ps: i for i, p in enumerate(packets)}
    marked = 0
    while not net.run(packets[-1].start_ps + SILENCE + SILENCE // 2, 1):
        numbers = net.port(net.towards[sink])
        if numbers.marked > marked:
            fate.marked[by_arrival[net.fabric.now_ps]] = True
            marked = numbers.marked
        if net.fabric.now_ps >= SILENCE:
            _note_deliveries(net, packets, fate, port)
    net.fabric.audit()
    assert numbers.dropped == fate.served_ps.count(None)
    return fate


def _add(net: kit.Net, packets: Sequence[Packet], sink: int) -> None:
    urgent = [kit.as_priority(p.priority, p.start_ps) for p in packets]
    net.add(
        bytes=[p.frame_bytes - HEADER + (p.packets - 1) * PAYLOAD for p in packets],
        start_ps=[p.start_ps for p in packets],
        source=range(sink),
        sink=[sink] * sink,
        **{name: [columns[name] for columns in urgent] for name in urgent[0]},
    )


def _note_deliveries(net: kit.Net, packets: Sequence[Packet], fate: Fate, port: Link) -> None:
    under_way, done = net.fabric.unfinished(), net.results()
    arrived = [*under_way["id"][under_way["delivered_bytes"] > 0], *done["id"]]
    for i in map(int, arrived):
        if fate.served_ps[i] is None:
            fate.served_ps[i] = net.fabric.now_ps - SILENCE - serialisation(packets[i].frame_bytes, port.bps)


Choose = Callable[[list[int], int], int]
"""(packets that wait, in the order of arrival; time) -> the packet to serve."""
Displace = Callable[[list[int], int], int]
"""(packets that wait; the packet that has no room) -> the packet to drop."""


@dataclass
class Definition:
    """A port by definition: one server, and a buffer for waiting packets."""

    packets: Sequence[Packet]
    bps: int
    choose: Choose
    buffer_bytes: int = kit.NO_BOUND
    displace: Displace = lambda _waiting, arriving: arriving
    is_dropped: Callable[[list[int], int], bool] = lambda _waiting, _arriving: False
    """(packets that wait; the packet that arrives) -> whether it is dropped even if the buffer has room."""
    marks: Callable[[int, list[int]], bool] = lambda _arriving, _waiting: False
    free_ps: int = 0
    waiting: list[int] = field(default_factory=list)

    def run(self) -> Fate:
        self.fate = Fate([None] * len(self.packets), [False] * len(self.packets))
        for i in sorted(range(len(self.packets)), key=lambda i: self.packets[i].arrival_ps):
            self._serve_until(self.packets[i].arrival_ps)
            self._arrive(i)
        self._serve_until(2**62)
        return self.fate

    def backlog(self) -> int:
        return sum(self.packets[i].frame_bytes for i in self.waiting)

    def _arrive(self, i: int) -> None:
        packet = self.packets[i]
        if self.is_dropped(self.waiting, i):
            return
        while self.backlog() + packet.frame_bytes > self.buffer_bytes:
            victim = self.displace(self.waiting, i)
            if victim == i:
                return
            self.waiting.remove(victim)
        self.fate.marked[i] = self.marks(i, self.waiting)
        self.waiting.append(i)
        if self.free_ps <= packet.arrival_ps:
            self.free_ps = packet.arrival_ps
            self._serve()

    def _serve_until(self, now_ps: int) -> None:
        while self.waiting and self.free_ps <= now_ps:
            self._serve()

    def _serve(self) -> None:
        i = self.choose(self.waiting, self.free_ps)
        self.waiting.remove(i)
        self.fate.served_ps[i] = self.free_ps
        self.free_ps += serialisation(self.packets[i].frame_bytes, self.bps)
