# SPDX-License-Identifier: Apache-2.0
"""DCTCP on the ns-2 of PIAS's authors: FCT by flow size. Runs of their code with their parameters.

Web search at load 0.8: 144 hosts and 100,000 flows, and a small network. The code is
github.com/HKUST-SING/PIAS-NS2: pFabric.patch, tcp/, queue/, scripts/spine_empirical.tcl with the parameters of
run_pias_dctcp.py and one queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


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
