# SPDX-License-Identifier: Apache-2.0
"""Traffic that no workload of a scenario describes, and PIAS's thresholds for a workload and a load."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy.thresholds.static import pias_thresholds as optimum
from sluice.policy.units import WIRE_PER_PAYLOAD, size_bytes
from sluice.policy.workload.sizes import Mix, MixPart, SizeCdf, Sizes
from sluice.runs.files import SCENARIOS, load_cdf, read_document

ANSWER_BYTES = 20_000
"""Size of each answer to a request. 64 of them have two thirds of a port's buffer of 1.95 MB."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Incasts:
    """Requests of single hosts, which `fan_in` answers reach at the same time."""

    fan_in: int
    load: float
    """Mean load of the hosts' links by answers."""


@dataclass(frozen=True)
class Traffic:
    """Flows between any two hosts. A host sends and receives in proportion to its link's rate."""

    sizes: SizeCdf
    load: float
    """Load of the busiest host's link by the flows between any two hosts."""
    rates_bps: tuple[int, ...]
    """Rate of each host's link."""
    incasts: Incasts | None = None

    @property
    def flows_per_s(self) -> float:
        """Flows between any two hosts, without answers."""
        share_by_rate = np.max(self._pairs().sum(axis=1) / np.asarray(self.rates_bps))
        return self.load / float(share_by_rate * self.sizes.mean_bytes * 8 * WIRE_PER_PAYLOAD)

    @property
    def requests_per_s(self) -> float:
        if self.incasts is None:
            return 0.0
        answers_bits = 8 * WIRE_PER_PAYLOAD * ANSWER_BYTES * self.incasts.fan_in
        return self.incasts.load * sum(self.rates_bps) / answers_bits

    @property
    def all_sizes(self) -> Sizes:
        """The sizes of all flows, answers included."""
        if self.incasts is None:
            return self.sizes
        answers_per_s = self.requests_per_s * self.incasts.fan_in
        share = answers_per_s / (answers_per_s + self.flows_per_s)
        return Mix((MixPart(None, 1 - share, self.sizes), MixPart(ANSWER_BYTES, share)))

    @property
    def total_load(self) -> float:
        return self.load + (self.incasts.load if self.incasts else 0)

    def _pairs(self) -> Floats:
        """Probability of each pair of sender and receiver."""
        rates = np.asarray(self.rates_bps, float)
        weight = np.outer(rates, rates)
        np.fill_diagonal(weight, 0)
        return np.asarray(weight / weight.sum())

    def flows(self, count: int, seed: int) -> list[tuple[int, int, int, int]]:
        """Return start in ns, sender, receiver and bytes of each flow, by start: `count` flows, and the answers."""
        gaps, pairs, sizes, requests = (
            np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)
        )
        start_s = np.cumsum(gaps.standard_exponential(count)) / self.flows_per_s
        hosts = len(self.rates_bps)
        source, to = np.divmod(pairs.choice(hosts * hosts, count, p=self._pairs().ravel()), hosts)
        flows = list(
            zip(_ns(start_s), source, to, self.sizes.at(sizes.random(count))[0].astype(int), strict=True)
        )
        flows += self._answers(start_s[-1], requests)
        return sorted((int(at), int(a), int(b), int(size)) for at, a, b, size in flows)

    def _answers(self, until_s: float, rng: np.random.Generator) -> list[tuple[Any, ...]]:
        """Return the answers to all requests until a time. The other hosts answer in turn, from a random one on."""
        if self.incasts is None:
            return []
        times_s = np.sort(rng.uniform(0, until_s, rng.poisson(self.requests_per_s * until_s)))
        hosts, answers = len(self.rates_bps), []
        for at in _ns(times_s):
            receiver, first = rng.integers(hosts), rng.integers(hosts - 1)
            for i in range(self.incasts.fan_in):
                sender = (receiver + 1 + (first + i) % (hosts - 1)) % hosts
                answers.append((at, sender, receiver, ANSWER_BYTES))
        return answers


def _ns(seconds: Floats) -> npt.NDArray[np.int64]:
    return np.round(seconds * 1e9).astype(np.int64)


def write_table(traffic: Traffic, count: int, seed: int, path: Path) -> Path:
    """Write the flows as a table that a scenario's `trace` reads. Returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("time_ns", "src", "dst", "bytes"))
        for at, source, to, size in traffic.flows(count, seed):
            rows.writerow((at, f"h{source + 1}", f"h{to + 1}", size))
    return path


SCRIPTS = {"web-search": "pias-144", "data-mining": "pias-144-data-mining"}
"""The scenarios with the authors' thresholds, by workload."""
QUEUES = 8


def pias_thresholds(workload: str, load: float) -> tuple[int, ...]:
    """Thresholds in bytes. `workload`: a name in sluice/data/workloads."""
    by_load = (
        read_document(SCENARIOS / f"{SCRIPTS[workload]}.toml")["sweep"]["scheme"]["pias"]["0"]
        if workload in SCRIPTS
        else {}
    )
    decimals = f"{load:g}".removeprefix("0.")  # TOML reads the table [pias.0.8] as the table 8 of the table 0
    if decimals not in by_load:
        return optimum(load_cdf(workload), load, QUEUES)
    return tuple(size_bytes("thresholds", text) for text in by_load[decimals]["thresholds"])
