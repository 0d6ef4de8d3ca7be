# SPDX-License-Identifier: Apache-2.0
"""The traffic of a switch that the benchmark plays: flows of the web-search distribution end at every port.

To draw the flows of every port at every poll would cost as much as the rest of the switch. So a poll takes its numbers
from draws that are made once, each time from another place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

import numpy as np
import numpy.typing as npt

from sluice.policy import tags
from sluice.policy.thresholds.port_traffic import TYPICAL_BYTES
from sluice.policy.units import HEADER_BYTES, MSS_BYTES
from sluice.runs.files import load_cdf

FLOWS_A_POLL = 60
"""Flows that end at a port between two polls: a 10 Gb/s link under web search at load 0.8, every 100 ms."""
SHIFT_POLLS, SHIFT_BUCKETS = 20, -4
"""Every SHIFT_POLLS polls the sizes change, in turns to a third and back."""
DRAWS = 1 << 13
"""Of the flows of a port between two polls."""

_Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Growth:
    """By how much the counters of ports grow between two polls, each of shape (DRAWS, TAG_COUNT)."""

    completed: _Counts
    packets: _Counts
    size_bytes: _Counts


class Traffic:
    """Counters of one switch, each of shape (ports, TAG_COUNT)."""

    def __init__(self, ports: int, seed: int) -> None:
        self._random = Random(seed)
        self.completed = np.zeros((ports, tags.TAG_COUNT), np.int64)
        self.packets, self.size_bytes = self.completed.copy(), self.completed.copy()

    def flows_end(self, polls: int) -> None:
        """Count the flows since the latest poll, before which there were `polls` - 1 others."""
        growth = draws(polls // SHIFT_POLLS % 2)
        ports = len(self.completed)
        first = self._random.randrange(DRAWS - ports + 1)
        self.completed += growth.completed[first : first + ports]
        self.packets += growth.packets[first : first + ports]
        self.size_bytes += growth.size_bytes[first : first + ports]


@cache
def draws(turn: int) -> Growth:
    """Return draws for one of the two turns."""
    mean = FLOWS_A_POLL * np.roll(_ends(), turn * SHIFT_BUCKETS)
    ended = np.random.default_rng(turn).poisson(mean, (DRAWS, tags.ATTAINED_BUCKETS))
    payload = _payloads()
    packets = ended @ -(-payload // MSS_BYTES)
    return Growth(*map(_by_tag, (ended, packets, ended @ payload + HEADER_BYTES * packets)))


def _by_tag(counts: _Counts) -> _Counts:
    by_tag = np.zeros((len(counts), tags.TAG_COUNT), np.int64)
    by_tag[:, tags.ATTAINED_FIRST : tags.ATTAINED_LAST + 1] = counts
    return by_tag


def _ends() -> npt.NDArray[np.float64]:
    """Return the share of all flows that end in each bucket, under the web-search distribution."""
    sizes = load_cdf("web-search")
    drawn = sizes.at(np.random.default_rng(1).random(200_000))[0]
    bucket = np.minimum(np.searchsorted(tags.EDGES_BYTES, drawn), tags.ATTAINED_BUCKETS - 1)
    return np.asarray(np.bincount(bucket, minlength=tags.ATTAINED_BUCKETS) / len(drawn))


def _payloads() -> _Counts:
    """Return matrix (j, k): payload in bucket k of a flow that ends in bucket j."""
    edges = np.asarray(tags.EDGES_BYTES, float)
    begin = np.concatenate([[0.0], edges[:-1]])
    return np.asarray(np.clip(TYPICAL_BYTES[:, None] - begin, 0, edges - begin), np.int64)
