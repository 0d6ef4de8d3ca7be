# SPDX-License-Identifier: Apache-2.0
"""The flows of the scripts of PIAS's authors: the same starts, sizes and hosts.

Each pair of hosts draws its gaps and its sizes from two generators of its own. The generator is ns-2's MRG32k3a
with one number, the seed, in all six places of its state. The seeds of the pairs are evenly spaced, and so are their
first numbers. A run draws five numbers for a pair. Its flows are therefore not Poisson: the number of flows to a host
varies by 9 % instead of 4 %, and one host of 144 receives 34 % more bytes than the mean.

Before the flows, each connection sends five packets. What it has counted for alpha then stays for its first flow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.policy.figures.metrics import Array
from sluice.policy.workload.sizes import SizeCdf

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
