# SPDX-License-Identifier: Apache-2.0
"""The flows of a finished run as columns, and their figures; and the flows of a scenario that lists them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from sluice.policy.units import time_ns
from sluice.policy.wire.records import SCHEDULED
from sluice.runs.bundle import read_flows, read_samples

Column = npt.NDArray[Any]

COLUMNS = ("id", "dst", "size_class", "bytes", "started_at", "fct_us", "ideal_us", "deadline_us", "slowdown")


@dataclass(frozen=True)
class Flows:
    """Columns with one row for each flow, in the order of the flows' ends. A missing value is nan."""

    id: Column
    dst: Column
    """The receiving host's name."""
    size_class: Column
    bytes: Column
    started_s: Column
    """Seconds since the run began."""
    fct_us: Column
    """nan for an unfinished flow."""
    ideal_us: Column
    deadline_us: Column
    slowdown: Column
    retransmissions: Column

    def of(self, chosen: Column) -> Flows:
        """Return the flows that a mask or an array of indices selects."""
        return Flows(*(column[chosen] for column in vars(self).values()))

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def by_number(self) -> Flows:
        """Return the flows in the order of the schedule. A flow's id ends with its number."""
        return self.of(np.argsort([int(text.rsplit("/", 1)[1]) for text in self.id]))

    def need_finished(self) -> Flows:
        """Return the same flows. ValueError: a flow is unfinished, so any mean would be too low."""
        if np.isnan(self.fct_us).any():
            raise ValueError("some flows are unfinished, so the mean FCT would be too low")
        return self


def read_flow_columns(bundle: Path) -> Flows:
    """Return the scheduled flows of a bundle."""
    table = pq.read_table(bundle / "flows.parquet", filters=[("source", "=", SCHEDULED)])
    began_at = json.loads((bundle / "meta.json").read_text())["start_at"]
    columns = {name: table.column(name).to_numpy() for name in COLUMNS}
    started_s = columns.pop("started_at") - began_at
    retransmissions = table.column("retransmissions").to_numpy().astype(float)
    return Flows(**columns, started_s=started_s, retransmissions=retransmissions)


def percentile(values: Column, percent: float) -> float:
    """Return a percentile; nan without values."""
    return float(np.percentile(values, percent)) if len(values) else np.nan


def means(groups: Mapping[str, Column]) -> dict[str, float]:
    """Return `<name>_mean` of each group's values; nan for an empty group."""
    return {
        f"{name}_mean": float(values.mean()) if len(values) else np.nan for name, values in groups.items()
    }


PLAIN, TIMED, IMPOSSIBLE = "fct_us_plain_mean", "fct_us_timed_mean", "impossible"
"""Columns: mean FCT of the flows without a deadline, and with one; deadlines shorter than the flow's time in an idle
network."""


def deadline_columns(bundle: Path) -> dict[str, float]:
    """Return FCT with and without a deadline, and the share of the deadlines that no scheme can meet."""
    flows = read_flow_columns(bundle)
    timed = ~np.isnan(flows.deadline_us)
    return {
        PLAIN: float(np.nanmean(flows.fct_us[~timed])),
        TIMED: float(np.nanmean(flows.fct_us[timed])),
        IMPOSSIBLE: float((flows.ideal_us[timed] > flows.deadline_us[timed]).mean()),
    }


def jain_index(shares: Sequence[float]) -> float:
    """Return Jain's index of fairness (Jain, Chiu, Hawe, 1984): 1 for equal shares, 1/n if one flow has all."""
    total, squares = sum(shares), sum(share * share for share in shares)
    return total * total / (len(shares) * squares) if squares else 1.0


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

    @property
    def end_s(self) -> float | None:
        return None if self.fct_s is None else self.start_s + self.fct_s


@dataclass(frozen=True)
class ListedFlows:
    """A run's flows and their samples, both in the order of the scenario."""

    flows: Sequence[ListedFlow]
    samples: Sequence[Sequence[Mapping[str, Any]]]

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
        points = [(s["at_s"], s[name]) for s in self.samples[index] if s[name] is not None]
        times, values = np.asarray(points, dtype=np.float64).reshape(-1, 2).T
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
        [_flow(records[i], table, meta["start_at"]) for i, table in enumerate(tables)], samples
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
    )
