# SPDX-License-Identifier: Apache-2.0
"""DCTCP on the ns-2 of PIAS's authors: FCT by flow size. A run of their code with their parameters.

Web search at load 0.8, 144 hosts, 100,000 flows. The code is github.com/HKUST-SING/PIAS-NS2: pFabric.patch, tcp/,
queue/, scripts/spine_empirical.tcl with the parameters of run_pias_dctcp.py and one queue.
"""

from __future__ import annotations

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
TAIL_ROWS = 5
"""The first rows, up to 140 packets: their p99 is compared, too."""
