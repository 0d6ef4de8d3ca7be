# SPDX-License-Identifier: Apache-2.0
"""Runs whose scenario lists its flows: each flow's outcome, and its samples over time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy.units import format_bytes, time_ns
from sluice.runs.bundle import read_flows, read_samples

MIN_SPAN_S = 0.01
"""Samples with a shorter time between them give no rate."""

Series = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""(seconds of the run, values)"""


@dataclass(frozen=True)
class ListedFlow:
    """One flow of the scenario and its outcome. `start_s` counts from the start of the run."""

    label: str
    bytes: int
    start_s: float
    fct_s: float | None
    deadline_s: float | None
    met: bool | None
    reason: str

    @property
    def end_s(self) -> float | None:
        return None if self.fct_s is None else self.start_s + self.fct_s

    def __str__(self) -> str:
        """Return for example: 10 MB in 3.4 s."""
        end = self.reason if self.fct_s is None else f"in {self.fct_s:.2f} s"
        return f"{format_bytes(self.bytes)} {end}"


@dataclass(frozen=True)
class ListedFlows:
    """A run's flows and their samples, both in the order of the scenario."""

    flows: Sequence[ListedFlow]
    samples: Sequence[Sequence[Mapping[str, Any]]]
    retransmissions: int
    timeouts: int

    def labelled(self, label: str) -> list[int]:
        """Return the indices of the flows with that label."""
        return [i for i, flow in enumerate(self.flows) if flow.label == label]

    def fct_s(self, label: str) -> list[float | None]:
        """Return the FCTs of the flows with that label."""
        return [self.flows[i].fct_s for i in self.labelled(label)]

    def rates(self, index: int) -> Series:
        """Return the throughput between samples in Mb/s, at the middle of the time between them."""
        times, acked = self._acked_bytes(index)
        spans = np.diff(times)
        keep = spans > MIN_SPAN_S
        return ((times[1:] + times[:-1]) / 2)[keep], (np.diff(acked)[keep] * 8e-6 / spans[keep])

    def mean_rate_mbps(self, index: int, from_s: float, to_s: float) -> float:
        """Return the mean throughput between two times of the run; 0 before the flow's start."""
        ends = np.interp([from_s, to_s], *self._acked_bytes(index))
        return float((ends[1] - ends[0]) * 8e-6 / (to_s - from_s))

    def _acked_bytes(self, index: int) -> Series:
        points = [(self.flows[index].start_s, 0)]
        points += [(sample["at_s"], sample["acked_bytes"]) for sample in self.samples[index]]
        times, acked = np.asarray(points, dtype=np.float64).T
        return times, acked

    def column(self, index: int, name: str) -> Series:
        """Return the known samples of one quantity of one flow."""
        known = [(s["at_s"], s[name]) for s in self.samples[index] if s[name] is not None]
        times, values = np.asarray(known, dtype=np.float64).reshape(-1, 2).T
        return times, values


def read_listed(bundle: Path) -> ListedFlows:
    """Return the flows of a bundle whose scenario lists them and requests samples."""
    meta, scenario = (json.loads((bundle / name).read_text()) for name in ("meta.json", "scenario.json"))
    tables = scenario["workload"]["flow"]
    rows = read_flows(bundle)
    place = places(rows, tables)
    records = {place[row["id"]]: row for row in rows}
    samples: list[list[Mapping[str, Any]]] = [[] for _ in tables]
    for sample in read_samples(bundle):
        samples[place[sample["flow"]]].append(sample)
    return ListedFlows(
        flows=[_flow(records[i], table, meta["start_at"]) for i, table in enumerate(tables)],
        samples=samples,
        retransmissions=sum(row["retransmissions"] for row in records.values()),
        timeouts=meta["tcp"]["retransmission_timeouts"],
    )


def places(rows: Sequence[Mapping[str, Any]], tables: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return id of a flow → its index in the scenario. A run numbers each host's flows by their starts."""
    recorded = sorted(rows, key=lambda row: (row["src"], row["started_at"], int(row["id"].rsplit("/", 1)[1])))
    starts_ns = [time_ns("start", table.get("start", "0s")) for table in tables]
    written = sorted(range(len(tables)), key=lambda i: (tables[i]["from"], starts_ns[i]))
    return {row["id"]: place for row, place in zip(recorded, written, strict=True)}


def _flow(row: Mapping[str, Any], table: Mapping[str, Any], start_at: float) -> ListedFlow:
    seconds = {key: None if row[key] is None else row[key] / 1e6 for key in ("fct_us", "deadline_us")}
    return ListedFlow(
        label=table["label"],
        bytes=row["bytes"],
        start_s=row["started_at"] - start_at,
        fct_s=seconds["fct_us"],
        deadline_s=seconds["deadline_us"],
        met=row["met"],
        reason=row["reason"],
    )
