# SPDX-License-Identifier: Apache-2.0
"""DCTCP on the ns-2 of PIAS's authors: FCT by flow size. Runs of their code with their parameters.

Web search at load 0.8: 144 hosts and 100,000 flows, and a small network. The code is
github.com/HKUST-SING/PIAS-NS2: pFabric.patch, tcp/, queue/, scripts/spine_empirical.tcl with the parameters of
run_pias_dctcp.py and one queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sluice.policy.figures.metrics import Array
from sluice.policy.workload.sizes import SizeCdf


class SizeRow(NamedTuple):
    """The flows of a range of sizes."""

    least_packets: int
    """A packet has 1460 bytes of payload."""
    most_packets: int
    flows: int
    mean_us: float
    p50_us: float
    p99_us: float

    @property
    def name(self) -> str:
        return f"{self.least_packets:,}–{self.most_packets:,} packets"


LARGEST = 20_000
ALL_MEAN_US = 17_256.0
ROWS = (
    SizeRow(3, 7, 15_760, 236, 222, 607),
    SizeRow(8, 20, 14_976, 251, 235, 622),
    SizeRow(21, 40, 13_805, 279, 260, 641),
    SizeRow(41, 70, 9_963, 322, 293, 732),
    SizeRow(71, 140, 5_643, 617, 576, 2_670),
    SizeRow(141, 700, 10_323, 2_548, 1_921, 12_507),
    SizeRow(701, 1_400, 9_893, 10_405, 6_883, 46_019),
    SizeRow(1_401, 3_500, 9_983, 39_282, 30_438, 136_954),
    SizeRow(3_501, 7_000, 6_731, 87_439, 76_020, 270_124),
    SizeRow(7_001, 14_000, 1_598, 163_796, 145_389, 494_203),
    SizeRow(14_001, LARGEST, 1_325, 253_474, 229_441, 682_272),
)
SMALL_ALL_MEAN_US = 14_579.0
SMALL_ROWS = (
    SizeRow(3, 7, 440, 233, 213, 657),
    SizeRow(8, 20, 429, 267, 234, 687),
    SizeRow(21, 40, 395, 290, 256, 730),
    SizeRow(41, 70, 315, 338, 289, 939),
    SizeRow(71, 140, 192, 587, 553, 1_236),
    SizeRow(141, 700, 316, 2_701, 1_952, 15_438),
    SizeRow(701, 1_400, 294, 9_913, 6_652, 41_759),
    SizeRow(1_401, 3_500, 323, 30_417, 20_974, 118_350),
    SizeRow(3_501, 7_000, 208, 78_429, 64_812, 257_293),
    SizeRow(7_001, 14_000, 45, 144_014, 136_234, 310_308),
    SizeRow(14_001, LARGEST, 43, 158_136, 141_727, 375_986),
)
"""Two racks of eight hosts, two spines, 3,000 flows."""


class Reference(NamedTuple):
    """A run of ns-2."""

    hosts: int
    flows: int
    fabric: Mapping[str, int]
    rows: Sequence[SizeRow]
    all_mean_us: float


FULL = Reference(144, 100_000, {}, ROWS, ALL_MEAN_US)
SMALL = Reference(16, 3000, {"leaves": 2, "spines": 2, "hosts_per_leaf": 8}, SMALL_ROWS, SMALL_ALL_MEAN_US)
TAIL_ROWS = 5
"""The first rows, up to 140 packets: their p99 is compared, too."""


RATE_BPS = 1e10
PACKET_BYTES, FRAME_BYTES = 1460, 1500
SCRIPT_MEAN_PACKETS = 1138
"""What the scripts take for the mean size of web search."""
WARM_UP_S, WARM_UP_PACKETS = 0.5, 5
FLOWS_AT_S = 0.9
"""When the scripts' flows begin, from the beginning of the warm-up on."""


class Mrg32k3a:
    """Many generators at once (L'Ecuyer, Operations Research 47(1), 1999, section 4), one for each seed."""

    M1, M2 = 4_294_967_087, 4_294_944_443
    A12, A13, A21, A23 = 1_403_580, 810_728, 527_612, 1_370_589

    def __init__(self, seeds: np.ndarray[Any, Any]) -> None:
        self._first = [seeds.astype(np.int64)] * 3
        self._second = [seeds.astype(np.int64)] * 3

    def next(self) -> Array:
        """Return the next number of each generator, above 0 and below 1."""
        first = (self.A12 * self._first[1] - self.A13 * self._first[0]) % self.M1
        second = (self.A21 * self._second[2] - self.A23 * self._second[0]) % self.M2
        self._first = [*self._first[1:], first]
        self._second = [*self._second[1:], second]
        combined = np.where(first > second, first - second, first - second + self.M1)
        numbers: Array = combined / (self.M1 + 1.0)
        return numbers


def flow_tables(flows: int, load: float, sizes: SizeCdf, hosts: int, seed: int) -> list[dict[str, str]]:
    """Return [[workload.flow]] tables: the warm-up, at times by `seed`, and the first flows from FLOWS_AT_S on."""
    starts_s, size_bytes, source, to = columns(flows, load, sizes, hosts)
    return [
        *_tables(*_warm_up(hosts, seed)),
        *_tables(starts_s + FLOWS_AT_S, size_bytes, source, to),
    ]


def _tables(starts_s: Array, size_bytes: Array, source: Array, to: Array) -> list[dict[str, str]]:
    return [
        {"from": f"h{a + 1}", "to": f"h{b + 1}", "bytes": f"{int(n)}B", "start": f"{round(s * 1e9)}ns"}
        for s, n, a, b in zip(starts_s, size_bytes, source, to, strict=True)
    ]


def _warm_up(hosts: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return the columns of the warm-up: each connection sends five packets at a random time."""
    source, to = (hosts_of_pairs.astype(int) for hosts_of_pairs in _pairs(hosts))
    starts_s = np.random.default_rng(seed).uniform(0, WARM_UP_S, len(source))
    order = np.argsort(starts_s)
    size_bytes = np.full(len(source), WARM_UP_PACKETS * PACKET_BYTES)
    return starts_s[order], size_bytes, source[order], to[order]


def _pairs(hosts: int) -> tuple[Array, Array]:
    """Return the sender and the receiver of each connection, in the order of the scripts."""
    to, source = (pair.ravel() for pair in np.mgrid[0:hosts, 0:hosts])
    pairs = source != to
    return source[pairs], to[pairs]


def columns(flows: int, load: float, sizes: SizeCdf, hosts: int) -> tuple[Array, Array, Array, Array]:
    """Return start in seconds, size in bytes, sender and receiver of the first flows, by start."""
    source, to = _pairs(hosts)
    gaps, places = Mrg32k3a(17 * source + 1244 * to), Mrg32k3a(33 * source + 4369 * to)
    mean_gap_s = SCRIPT_MEAN_PACKETS * FRAME_BYTES * 8 / (load * RATE_BPS) * (hosts - 1)

    start_s, table = np.zeros(len(to)), np.empty((4, 0))
    while np.count_nonzero(table[0] < start_s.min()) < flows:
        start_s = start_s - mean_gap_s * np.log(gaps.next())
        table = np.hstack([table, np.stack([start_s, sizes.at(places.next())[0], source, to])])
    first = np.argsort(table[0], kind="stable")[:flows]
    starts_s, size_bytes, senders, receivers = table[:, first]
    return starts_s, size_bytes, senders.astype(int), receivers.astype(int)
