# SPDX-License-Identifier: Apache-2.0
"""laws/dqs.h against a switch that holds the packets themselves."""

from collections import deque
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

NONE = 2**32 - 1
MAX_QUEUES = 32
U64 = 2**64 - 1
EXTREMES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**63, U64]


@dataclass
class SubQueue:
    owner: int | None = None
    packets: deque[int] = field(default_factory=deque)
    """The flow of each waiting packet."""
    emptied_ns: int = 0


class Switch:
    """The description on top of dqs.h, with packets in queues instead of counts."""

    def __init__(self, queues: int, release_ns: int) -> None:
        self.queues = [SubQueue() for _ in range(min(max(queues, 1), MAX_QUEUES))]
        self.release_ns, self.turn = release_ns, 0

    def is_free(self, q: SubQueue, now_ns: int) -> bool:
        return q.owner is None or (not q.packets and now_ns - q.emptied_ns > self.release_ns)

    def place(self, flow: int, now_ns: int) -> SubQueue:
        shared = self.queues[(flow * 0x9E3779B97F4A7C15 % 2**64 >> 32) * len(self.queues) >> 32]
        own = [q for q in self.queues if q.owner == flow]
        if own:
            return own[0]
        free = [q for q in self.queues if self.is_free(q, now_ns)]
        if free and all(guest == shared.owner for guest in shared.packets):
            free[0].owner = flow
            return free[0]
        return shared

    def enqueue(self, flow: int, now_ns: int) -> int:
        q = self.place(flow, now_ns)
        q.packets.append(flow)
        return next(i for i, other in enumerate(self.queues) if other is q)

    def dequeue(self, now_ns: int) -> int:
        for step in range(len(self.queues)):
            at = (self.turn + step) % len(self.queues)
            q = self.queues[at]
            if q.packets:
                self.turn = at + 1
                q.packets.popleft()
                if not q.packets:
                    q.emptied_ns = now_ns
                return at
        return NONE


class Law:
    """The law, and the packets that its caller holds."""

    def __init__(self, laws: ModuleType, queues: int, release_ns: int) -> None:
        self.lib = laws.lib
        self.state = laws.ffi.new("struct sl_dqs *")
        self.settings = laws.ffi.new("struct sl_dqs_settings *", (release_ns, queues))
        self.held: list[deque[Any]] = [deque() for _ in range(MAX_QUEUES)]

    def enqueue(self, packet: object, flow: int, now_ns: int) -> int:
        at: int = self.lib.sl_dqs_enqueue(self.state, self.settings, flow, now_ns)
        self.held[at].append(packet)
        return at

    def dequeue(self, now_ns: int) -> Any:
        at = self.lib.sl_dqs_dequeue(self.state, self.settings, now_ns)
        return None if at == NONE else self.held[at].popleft()

    def active(self, now_ns: int) -> int:
        return int(self.lib.sl_dqs_active(self.state, self.settings, now_ns))


queue_counts = st.one_of(
    st.integers(0, 4), st.sampled_from([31, 32, 33, 2**32 - 1]), st.integers(0, 2**32 - 1)
)
flows = st.one_of(st.integers(0, 8), st.sampled_from(EXTREMES), st.integers(0, U64))
release_times = st.one_of(st.integers(0, 100), st.sampled_from(EXTREMES))
steps = st.lists(
    st.tuples(
        st.one_of(st.none(), flows),  # a packet of this flow arrives; None: one leaves
        st.one_of(st.just(0), st.integers(0, 100), st.integers(0, 10**12)),  # ns since the last step
    ),
    max_size=100,
)


@given(queues=queue_counts, release_ns=release_times, begin_ns=st.sampled_from([0, 1, 2**62]), steps=steps)
def test_dqs__is_the_switch_that_holds_the_packets(
    laws: ModuleType, queues: int, release_ns: int, begin_ns: int, steps: list[tuple[int | None, int]]
) -> None:
    law, switch, now_ns = Law(laws, queues, release_ns), Switch(queues, release_ns), begin_ns
    for flow, later_ns in steps:
        now_ns += later_ns
        if flow is None:
            assert laws.lib.sl_dqs_dequeue(law.state, law.settings, now_ns) == switch.dequeue(now_ns)
        else:
            at = laws.lib.sl_dqs_enqueue(law.state, law.settings, flow, now_ns)
            assert at == switch.enqueue(flow, now_ns)
        assert [law.state.queue[i].waiting for i in range(len(switch.queues))] == [
            len(q.packets) for q in switch.queues
        ]
        assert law.active(now_ns) == sum(not switch.is_free(q, now_ns) for q in switch.queues)


@given(queues=queue_counts, release_ns=release_times, steps=steps)
def test_dqs__the_packets_of_a_flow_leave_in_their_order_and_all_leave(
    laws: ModuleType, queues: int, release_ns: int, steps: list[tuple[int | None, int]]
) -> None:
    law, now_ns = Law(laws, queues, release_ns), 0
    arrived: list[tuple[int, int]] = []
    left: list[Any] = []
    for number, (flow, later_ns) in enumerate(steps):
        now_ns += later_ns
        if flow is None:
            left.append(law.dequeue(now_ns))
        else:
            law.enqueue((flow, number), flow, now_ns)
            arrived.append((flow, number))
    left += [law.dequeue(now_ns) for _ in range(len(arrived))]
    left = [packet for packet in left if packet is not None]
    assert law.dequeue(now_ns) is None
    assert sorted(left) == sorted(arrived)
    for flow in {flow for flow, _ in arrived}:
        numbers = [number for f, number in left if f == flow]
        assert numbers == sorted(numbers)


def test_shared__spreads_flows_evenly(laws: ModuleType) -> None:
    settings = laws.ffi.new("struct sl_dqs_settings *", (0, 32))
    hits = [0] * 32
    for flow in range(32_000):
        hits[laws.lib.sl_dqs_shared(flow, settings)] += 1
    assert 900 < min(hits) <= max(hits) < 1100


late_steps = st.lists(
    st.tuples(
        st.one_of(st.none(), flows),  # a packet of this flow arrives; None: one leaves
        st.integers(0, MAX_QUEUES - 1),  # from the first sub-queue with packets, from here on
        st.booleans(),  # the caller reports departures to the law
    ),
    max_size=200,
)


@given(queues=queue_counts, release_ns=release_times, steps=late_steps)
def test_left__in_any_order_and_with_late_reports(
    laws: ModuleType, queues: int, release_ns: int, steps: list[tuple[int | None, int, bool]]
) -> None:
    """As in a kernel, whose scheduler dequeues packets while the law sees only arrivals."""
    law, unreported = Law(laws, queues, release_ns), [0] * MAX_QUEUES
    last_ns, left = [0] * MAX_QUEUES, []
    for now_ns, (flow, first, report) in enumerate(steps):
        at = next(
            (i % MAX_QUEUES for i in range(first, first + MAX_QUEUES) if law.held[i % MAX_QUEUES]), None
        )
        if flow is not None:
            law.enqueue((flow, now_ns), flow, now_ns)
        elif at is not None:
            left.append(law.held[at].popleft())
            unreported[at], last_ns[at] = unreported[at] + 1, now_ns
        for i in range(MAX_QUEUES) if report else ():
            laws.lib.sl_dqs_left(law.state, i, unreported[i], last_ns[i])
            unreported[i] = 0
            assert law.state.queue[i].waiting == len(law.held[i])
    left += [packet for queue in law.held for packet in queue]
    for flow in {flow for flow, _ in left}:
        arrivals = [at_ns for f, at_ns in left if f == flow]
        assert arrivals == sorted(arrivals)
