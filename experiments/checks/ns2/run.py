# SPDX-License-Identifier: Apache-2.0
"""DCTCP on our simulator against DCTCP on the ns-2 of PIAS's authors, by flow size.

The scenario is pias-144 at load 0.8. The first run has our simulator as it is, which is Linux. The second has
all settings of [simulator.tcp] as in ns-2. Each of the others puts one of them back, to show what it changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from experiments.checks.ns2.reference import ALL_MEAN_US, ROWS, TAIL_ROWS, SizeRow
from experiments.kit.draw import grid
from experiments.kit.experiment import Experiment, Given, Script
from experiments.kit.points import NamedPoint
from experiments.kit.pool import run_all
from experiments.kit.verdict import Claim
from policy.framing import WIRE_PER_PAYLOAD
from sluice.runs.files import SCENARIOS, read_document

PAYLOAD_BYTES, HEADER_BYTES = 1460, 40
LOAD = 0.8
NS2: Mapping[str, Any] = {
    "first_alpha": 0,
    "cut": "at-once",
    "bounds": "from-first",
    "changes": "by-advance",
    "overtaken": "resend",
    "keep": "threshold",
    "timeout": "fixed",
    "probe_after": 5,
    "ends": "ack",
    "payload": f"{PAYLOAD_BYTES}B",
    "headers": f"{HEADER_BYTES}B",
}
TOGETHER = {"timeout": ("timeout", "probe_after"), "payload": ("payload", "headers")}
"""Settings that only make sense together."""
AS_LINUX, AS_NS2 = "Linux", "ns-2"
MARK_BYTES = 64 * (PAYLOAD_BYTES + HEADER_BYTES)
"""ns-2 marks the packet with which more than 65 wait."""
MEAN_TOLERANCE, TAIL_TOLERANCE, ALL_TOLERANCE = 0.05, 0.10, 0.03


@dataclass(frozen=True)
class Side:
    """A run: the figures of each row, as in the reference."""

    rows: Sequence[SizeRow]
    all_mean_us: float

    def ratios(self, figure: str) -> list[float]:
        """Return ours over ns-2's for each row."""
        return [
            float(getattr(ours, figure)) / float(getattr(theirs, figure))
            for ours, theirs in zip(self.rows, ROWS, strict=True)
        ]


Sides = Mapping[str, Side]


def variants() -> dict[str, dict[str, Any]]:
    """Return the name of each run → its [simulator.tcp]."""
    made: dict[str, dict[str, Any]] = {AS_LINUX: {}, AS_NS2: dict(NS2)}
    for key in NS2:
        if key in ("probe_after", "headers"):
            continue
        gone = TOGETHER.get(key, (key,))
        made[f"ns-2 without {key}"] = {k: v for k, v in NS2.items() if k not in gone}
    return made


def measure(given: Given) -> Sides:
    points = {name: _point(name, tcp, given) for name, tcp in variants().items()}
    run_all(list(points.values()), given.out, given.jobs)
    return {name: side(given, point) for name, point in points.items()}


def _point(name: str, tcp: Mapping[str, Any], given: Given) -> NamedPoint:
    document = read_document(SCENARIOS / "pias-144.toml")
    del document["sweep"]
    in_ns2s_frames = "payload" in tcp
    document["scheme"] = {"name": "dctcp", "mark_at": f"{MARK_BYTES}B" if in_ns2s_frames else "65pkt"}
    document["workload"] |= {"flows": given.flows, "load": _load(in_ns2s_frames)}
    document["simulator"]["tcp"] = dict(tcp)
    seed = given.seeds[0]
    document |= {"name": f"ns2-{name}", "seed": seed}
    return NamedPoint(name, LOAD, seed, document, name.replace(" ", "-"))


def _load(in_ns2s_frames: bool) -> float:
    """Return the load that a scenario names, which counts our frames, so that the wire has LOAD."""
    wire = (PAYLOAD_BYTES + HEADER_BYTES) / PAYLOAD_BYTES if in_ns2s_frames else WIRE_PER_PAYLOAD
    return round(LOAD * WIRE_PER_PAYLOAD / wire, 4)


def side(given: Given, point: NamedPoint) -> Side:
    table = pq.read_table(given.out / point.name / "flows.parquet", columns=["bytes", "fct_us"])
    size_bytes, fct_us = (table.column(i).to_numpy() for i in range(2))
    packets = -(-size_bytes // PAYLOAD_BYTES)
    rows = []
    for row in ROWS:
        chosen = (packets >= row.least_packets) & (packets <= row.most_packets)
        rows.append(_row(row, fct_us[chosen]))
    return Side(rows, float(fct_us.mean()))


def _row(like: SizeRow, fct_us: np.ndarray[Any, Any]) -> SizeRow:
    if not len(fct_us):
        return like._replace(flows=0, mean_us=np.nan, p50_us=np.nan, p99_us=np.nan)
    p50_us, p99_us = np.percentile(fct_us, (50, 99))
    return like._replace(
        flows=len(fct_us),
        mean_us=float(fct_us.mean()),
        p50_us=float(p50_us),
        p99_us=float(p99_us),
    )


def claims(found: Sides) -> list[Claim]:
    ours = found[AS_NS2]
    means, tails = ours.ratios("mean_us"), ours.ratios("p99_us")
    every = ours.all_mean_us / ALL_MEAN_US
    return [
        *(_close(f"{row.name}: mean", r, MEAN_TOLERANCE) for row, r in zip(ROWS, means, strict=True)),
        *(
            _close(f"{row.name}: p99", r, TAIL_TOLERANCE)
            for row, r in zip(ROWS[:TAIL_ROWS], tails, strict=False)
        ),
        _close("all flows: mean", every, ALL_TOLERANCE),
    ]


def _close(what: str, ratio: float, tolerance: float) -> Claim:
    return Claim(f"{what}, ours/ns-2", f"1 ± {tolerance:g}", f"{ratio:.2f}", abs(ratio - 1) <= tolerance)


def numbers(found: Sides) -> dict[str, Any]:
    return {
        name: {"all_mean_us": one.all_mean_us, "rows": [row._asdict() for row in one.rows]}
        for name, one in found.items()
    }


def table(found: Sides) -> str:
    """Return the ratio of the means, ours over ns-2's: a row for each size, a column for each run."""
    ratios = {name: one.ratios("mean_us") for name, one in found.items()}
    lines = [f"| packets | {' | '.join(ratios)} |", "| --- |" + " --- |" * len(ratios)]
    for i, row in enumerate(ROWS):
        cells = " | ".join(f"{of[i]:.2f}" for of in ratios.values())
        lines.append(f"| {row.least_packets:,}–{row.most_packets:,} | {cells} |")
    every = " | ".join(f"{one.all_mean_us / ALL_MEAN_US:.2f}" for one in found.values())
    return "\n".join([*lines, f"| all | {every} |"]) + "\n"


def draw(found: Sides) -> Figure:
    """Draw the ratio of mean and p99 over the size of the flow, for both TCPs."""
    figure, rows = grid(1, 2, width=4.5, height=3.2, sharey=True)
    at = [np.sqrt(row.least_packets * row.most_packets) for row in ROWS]
    for axes, (label, key) in zip(rows[0], (("mean", "mean_us"), ("p99", "p99_us")), strict=True):
        for name, colour in ((AS_LINUX, "#0b6e99"), (AS_NS2, "#d9730d")):
            axes.plot(at, found[name].ratios(key), "o-", color=colour, label=f"our simulator as {name}")
        axes.axhline(1, color="0.4", linewidth=0.8)
        axes.set(xscale="log", xlabel="size of the flow (packets)", title=f"FCT, {label}")
    rows[0][0].set_ylabel("ours / ns-2")
    rows[0][0].legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    name="ns2_check",
    claim="With ns-2's TCP, our simulator gives the FCTs of PIAS's authors' ns-2 at each flow size.",
    figure="",
    minutes=45,
    about=__doc__,
    runner=Script(measure),
    seeds=(1234,),
    flows=100_000,
    quick={"flows": 2000},
    claims=claims,
    numbers=numbers,
    draw=draw,
    table=table,
)
