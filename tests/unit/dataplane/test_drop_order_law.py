# SPDX-License-Identifier: Apache-2.0
"""laws/drop_order.h against a plain reading of its description: which packets a port admits, and what marks them."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

BACKGROUND = 8
RANKS = range(BACKGROUND + 1)
BUFFER = 360_000
SMALL_BUFFER = 48_000
"""A few dozen packets fill it."""
PASS, MARK, DROP = 0, 1, 2
UNITS = 8 * 10**9
"""Units of a level in a byte (laws/mark.h)."""
BY_PORT, BY_QUEUE, BY_AHEAD = 0, 1, 2
"""What marks a packet: enum sl_mark_by."""

buffers = st.one_of(st.integers(1, 10**6), st.integers(1, 2**62))
ranks = st.integers(0, BACKGROUND)
ways_to_mark = st.sampled_from([BY_PORT, BY_QUEUE, BY_AHEAD])


class PlainPort:
    """The description on top of drop_order.h: the bytes that wait, by rank."""

    def __init__(self, buffer_bytes: int, mark_by: int) -> None:
        self.buffer = buffer_bytes
        self.step = buffer_bytes // 32 * (2 if mark_by == BY_QUEUE else 1)
        self.waiting = [0] * len(RANKS)

    def room(self, rank: int) -> int:
        if rank == 0:
            return self.buffer
        if rank == BACKGROUND:
            return self.buffer // 8
        return self.buffer - self.buffer // 4 - rank * self.step

    def admits(self, rank: int, len_bytes: int) -> bool:
        at_most_as_urgent = sum(self.waiting[rank:])
        return sum(self.waiting) + len_bytes <= self.buffer and at_most_as_urgent + len_bytes <= self.room(
            rank
        )

    def send(self, len_bytes: int) -> None:
        """Take bytes from the most urgent rank on, as a port with strict priorities does."""
        for rank in RANKS:
            sent = min(self.waiting[rank], len_bytes)
            self.waiting[rank] -= sent
            len_bytes -= sent


class LawPort:
    """The same with the law's levels."""

    def __init__(self, laws: ModuleType, buffer_bytes: int, mark_by: int = BY_PORT) -> None:
        self.lib, self.buffer, self.total = laws.lib, buffer_bytes, 0
        self.mark_by = mark_by
        self.ahead = laws.ffi.new("struct sl_ahead *")

    def admits(self, rank: int, len_bytes: int) -> bool:
        above = self.lib.sl_ahead_above(self.ahead, self.total, rank)
        return bool(
            self.lib.sl_drop_order_admits(self.total, above, len_bytes, self.buffer, self.mark_by, rank)
        )

    def arrive(self, rank: int, len_bytes: int) -> bool:
        admitted = self.admits(rank, len_bytes)
        if admitted:
            self.lib.sl_ahead_admitted(self.ahead, rank, len_bytes)
            self.total += len_bytes
        return admitted

    def send(self, len_bytes: int) -> None:
        sent = min(self.total, len_bytes)
        self.lib.sl_ahead_sent(self.ahead, sent)
        self.total -= sent


events = st.lists(
    st.tuples(ranks, st.integers(0, 9000), st.one_of(st.just(0), st.integers(0, 20_000))), max_size=120
)


@given(buffer_bytes=st.integers(1, 60_000), mark_by=ways_to_mark, packets=events)
def test_the_law_is_the_plain_reading(
    laws: ModuleType, buffer_bytes: int, mark_by: int, packets: list[tuple[int, int, int]]
) -> None:
    law, plain = LawPort(laws, buffer_bytes, mark_by), PlainPort(buffer_bytes, mark_by)
    for rank, len_bytes, sent_bytes in packets:
        law.send(sent_bytes)
        plain.send(sent_bytes)
        admitted = plain.admits(rank, len_bytes)
        assert law.arrive(rank, len_bytes) == admitted
        if admitted:
            plain.waiting[rank] += len_bytes
        levels = [laws.lib.sl_ahead_up_to(law.ahead, law.total, r) for r in RANKS]
        assert levels == [sum(plain.waiting[: r + 1]) for r in RANKS]


@given(buffer_bytes=buffers, mark_by=ways_to_mark)
def test_room__shrinks_with_every_rank(laws: ModuleType, buffer_bytes: int, mark_by: int) -> None:
    rooms = [laws.lib.sl_drop_order_room(buffer_bytes, mark_by, rank) for rank in RANKS]
    assert rooms[0] == buffer_bytes
    assert rooms == sorted(rooms, reverse=True)
    assert laws.lib.sl_drop_order_room(buffer_bytes, mark_by, 2**32 - 1) == rooms[BACKGROUND]


@given(rank=st.integers(1, BACKGROUND), packets=st.lists(st.integers(600, 1518), min_size=60, max_size=90))
def test_a_flood_of_one_rank_leaves_room_for_every_more_urgent_one(
    laws: ModuleType, rank: int, packets: list[int]
) -> None:
    port = LawPort(laws, SMALL_BUFFER)
    for len_bytes in packets:
        port.arrive(rank, len_bytes)
    for urgent in range(rank):
        assert port.admits(urgent, SMALL_BUFFER // 32)
    assert port.admits(0, SMALL_BUFFER // 4)


@pytest.mark.parametrize("rank", [0, 1, BACKGROUND])
def test_admits__exactly_what_fits(laws: ModuleType, rank: int) -> None:
    """One packet that fills the room of its rank, and one more byte."""
    room = laws.lib.sl_drop_order_room(BUFFER, BY_PORT, rank)
    assert LawPort(laws, BUFFER).admits(rank, room)
    assert not LawPort(laws, BUFFER).admits(rank, room + 1)
    full = LawPort(laws, BUFFER)
    if rank:
        full.arrive(0, BUFFER - room)
    assert full.admits(rank, room)


def marking_backlog(waiting: Sequence[int], rank: int, mark_by: int, urgent_first: bool) -> int:
    """The description's backlog for these waiting bytes by rank."""
    if mark_by == BY_QUEUE:
        return waiting[rank]
    if mark_by == BY_AHEAD:
        return sum(waiting[: rank + 1])
    return sum(waiting) if rank == BACKGROUND or not urgent_first else sum(waiting[:BACKGROUND])


def by_rank(
    laws: ModuleType, mark_by: int = BY_PORT, *, urgent_first: bool = True, last: tuple[int, int] = (7, 0)
) -> Any:
    """struct sl_by_rank. `last`: the last queue and its K."""
    last_queue, last_mark_bytes = last
    return laws.ffi.new("struct sl_by_rank *", (last_mark_bytes, last_queue, mark_by, urgent_first, 0))


def arrive(
    laws: ModuleType, state: tuple[Any, Any], settings: Any, by: Any, rank: int, packet: tuple[int, int]
) -> int:
    """Let a packet of (bytes, time in ns) arrive at a virtual queue, as bpf/port.bpf.c does."""
    (queue, ahead), (len_bytes, now_ns) = state, packet
    before = queue.level
    laws.lib.sl_vq_at_least(queue, settings, 0, now_ns)
    return int(
        laws.lib.sl_ranked_arrive(queue, ahead, settings, by, rank, len_bytes, before - queue.level, 0)
    )


def virtual_queue(laws: ModuleType) -> tuple[Any, Any]:
    return laws.ffi.new("struct sl_vq_state *"), laws.ffi.new("struct sl_ahead *")


@pytest.mark.parametrize(
    ("mark_by", "urgent_first", "expected"),
    [
        (BY_QUEUE, True, [20, 0, 0, 5, 0, 0, 0, 3, 7]),
        (BY_AHEAD, True, [20, 20, 20, 25, 25, 25, 25, 28, 35]),
        (BY_PORT, True, [28, 28, 28, 28, 28, 28, 28, 28, 35]),
        (BY_PORT, False, [35, 35, 35, 35, 35, 35, 35, 35, 35]),
    ],
)
def test_backlog_that_marks__with_packets_in_three_queues_and_background_traffic(
    laws: ModuleType, mark_by: int, urgent_first: bool, expected: list[int]
) -> None:
    """20 bytes wait in queue 0, 5 in queue 3, 3 in queue 7, and 7 of background traffic."""
    _, ahead = virtual_queue(laws)
    for rank, len_bytes in ((0, 20), (3, 5), (7, 3)):
        laws.lib.sl_ahead_admitted(ahead, rank, len_bytes)
    by = by_rank(laws, mark_by, urgent_first=urgent_first)
    assert [laws.lib.sl_backlog_that_marks(ahead, by, 35, rank) for rank in RANKS] == expected


arrivals = st.lists(st.tuples(ranks, st.integers(0, 9000), st.integers(0, 200_000)), max_size=120)
settings_of_a_port = st.tuples(
    st.integers(10**7, 10**9), st.integers(0, 20_000), st.integers(1, 60_000), st.just(0)
)


@given(settings=settings_of_a_port, packets=arrivals)
def test_arrive__the_first_rank_alone_is_the_port_without_an_order(
    laws: ModuleType, settings: tuple[int, ...], packets: list[tuple[int, int, int]]
) -> None:
    given_settings = laws.ffi.new("struct sl_vq_settings *", settings)
    state, plain, now_ns = virtual_queue(laws), laws.ffi.new("struct sl_vq_state *"), 0
    for _, len_bytes, later_ns in packets:
        now_ns += later_ns
        expected = laws.lib.sl_vq_arrive(plain, given_settings, len_bytes, now_ns, 0)
        assert arrive(laws, state, given_settings, by_rank(laws), 0, (len_bytes, now_ns)) == expected
        assert state[0].level == plain.level == state[1].of[0]


@given(
    settings=settings_of_a_port,
    packets=arrivals,
    mark_by=ways_to_mark,
    urgent_first=st.booleans(),
    last=st.tuples(st.integers(0, 7), st.integers(0, 40_000)),
)
def test_arrive__is_the_plain_port_while_it_drains(
    laws: ModuleType,
    settings: tuple[int, ...],
    packets: list[tuple[int, int, int]],
    mark_by: int,
    urgent_first: bool,
    last: tuple[int, int],
) -> None:
    given_settings = laws.ffi.new("struct sl_vq_settings *", settings)
    by = by_rank(laws, mark_by, urgent_first=urgent_first, last=last)
    rate_bps, mark_bytes, buffer_bytes, _ = settings
    last_queue, last_mark_bytes = last
    state, now_ns = virtual_queue(laws), 0
    plain = PlainPort(buffer_bytes * UNITS, mark_by)
    for rank, len_bytes, later_ns in packets:
        now_ns += later_ns
        plain.send(later_ns * rate_bps)
        verdict = arrive(laws, state, given_settings, by, rank, (len_bytes, now_ns))
        fits = sum(plain.waiting) + len_bytes * UNITS <= plain.buffer
        if not (plain.admits(rank, len_bytes * UNITS) if urgent_first else fits):
            assert verdict == DROP
            continue
        found = marking_backlog(plain.waiting, rank, mark_by, urgent_first)
        k = last_mark_bytes if last_mark_bytes and rank >= last_queue else mark_bytes
        assert verdict == (MARK if k and found > k * UNITS else PASS)
        plain.waiting[rank] += len_bytes * UNITS
