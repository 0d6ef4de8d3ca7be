# SPDX-License-Identifier: Apache-2.0
"""DCTCP on our simulator against DCTCP on the ns-2 of PIAS's authors, by flow size.

The scenario is pias-144 at load 0.8, with the flows of the authors' scripts. The first run has our simulator as it
is, which is Linux. The next ones, one for each seed, have all settings as in ns-2. The seed decides when the
connections warm up. Each of the others puts one setting back, to show what it changes, or has other flows.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from experiments.checks.ns2.reference import (
    FLOWS_AT_S,
    FULL,
    ROWS,
    SMALL,
    TAIL_ROWS,
    Reference,
    SizeRow,
    flow_tables,
)
from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Experiment, Given, Script, option
from experiments.kit.runners import NamedPoint, run_all
from sluice.commands.arguments import load_share
from sluice.policy.figures.metrics import Array
from sluice.policy.units import WIRE_PER_PAYLOAD
from sluice.runs.files import SCENARIOS, load_cdf, read_document
from sluice.sweep.points import points

PAYLOAD_BYTES, HEADER_BYTES = 1460, 40
LOAD = 0.8
HERE = Path(__file__).parent
NS2: Mapping[str, Any] = {
    "first_alpha": 1 / 16,
    "cut": "at-once",
    "bounds": "from-first",
    "changes": "by-advance",
    "keep": "threshold",
    "timeout": "fixed",
    "probe_after": 5,
    "ends": "ack",
    "fractions": "keep",
    "alpha_counts": "acks",
    "after_timeout": "spare",
    "busy": "open",
    "sack_option": "2B",
    "payload": f"{PAYLOAD_BYTES}B",
    "headers": f"{HEADER_BYTES}B",
}
TOGETHER = {"timeout": ("timeout", "probe_after"), "payload": ("payload", "headers")}
"""Settings that only make sense together."""
AS_LINUX, AS_NS2 = "Linux", "ns-2"
POISSON, BY_SWITCH = "ns-2 with Poisson flows", "ns-2 without multipath"
MARK_BYTES = 64 * (PAYLOAD_BYTES + HEADER_BYTES)
"""ns-2 marks the packet with which more than 65 wait."""
MEAN_TOLERANCE, TAIL_TOLERANCE, ALL_TOLERANCE = 0.05, 0.10, 0.03


@dataclass(frozen=True)
class Side:
    """A run: the figures of each row, as in the reference."""

    rows: Sequence[SizeRow]
    all_mean_us: float
    reference: Reference = FULL

    def ratios(self, figure: str) -> list[float]:
        """Return ours over ns-2's for each row."""
        return [
            float(getattr(ours, figure)) / float(getattr(theirs, figure))
            for ours, theirs in zip(self.rows, self.reference.rows, strict=True)
        ]

    @property
    def all_ratio(self) -> float:
        return self.all_mean_us / self.reference.all_mean_us


Sides = Mapping[str, Side]


def variants() -> dict[str, dict[str, Any]]:
    """Return the name of each run → its [simulator.tcp]."""
    made: dict[str, dict[str, Any]] = {AS_LINUX: {}, AS_NS2: dict(NS2)}
    for key in NS2:
        if key in ("probe_after", "headers"):
            continue
        gone = TOGETHER.get(key, (key,))
        made[f"ns-2 without {key}"] = {k: v for k, v in NS2.items() if k not in gone}
    return made | {POISSON: dict(NS2), BY_SWITCH: dict(NS2)}


SMALL_NETWORK = option(
    "--small",
    action="store_true",
    help="two racks of eight hosts and 3,000 flows: all runs take a few minutes",
)


def measure(given: Given) -> Sides:
    found = {name: [_point(name, tcp, given)] for name, tcp in variants().items()}
    found[AS_NS2] += [_point(AS_NS2, NS2, given, seed) for seed in given.seeds[1:]]
    found |= {f"{scheme} at {load:g}": [_as_ns2(scheme, load, given)] for scheme, load in given["also"]}
    run_all([point for runs in found.values() for point in runs], given.out, given.jobs)
    return {name: side(given, runs) for name, runs in found.items()}


def _point(name: str, tcp: Mapping[str, Any], given: Given, seed: int | None = None) -> NamedPoint:
    point = _as_ns2("dctcp", LOAD, given, seed)
    document: dict[str, Any] = {**point.document, "name": f"ns2-{name}"}
    if "payload" not in tcp:
        document["scheme"] = {**document["scheme"], "mark_at": "65pkt"}
    if name == POISSON:
        document["workload"] = {
            "sizes": "web-search",
            "pattern": "all-to-all",
            "flows": _flows(given),
            "load": round(LOAD * WIRE_PER_PAYLOAD * PAYLOAD_BYTES / (PAYLOAD_BYTES + HEADER_BYTES), 4),
        }
    document["simulator"] = {**document["simulator"], "tcp": dict(tcp)}
    if name in (AS_LINUX, BY_SWITCH):
        document["simulator"]["multipath"] = "per-packet"
    return NamedPoint(name, LOAD, point.seed, document, f"{name.replace(' ', '-')}-{point.seed}")


def _as_ns2(scheme: str, load: float, given: Given, seed: int | None = None) -> NamedPoint:
    """Return a run of pias-144 with a scheme, with the flows of the authors' scripts at this load."""
    seeds = [given.seeds[0] if seed is None else seed]
    (point,) = points(read_document(SCENARIOS / "pias-144.toml"), schemes=[scheme], loads=[load], seeds=seeds)
    document, reference = dict(point.document), _reference(given)
    document["workload"] = {
        "flow": flow_tables(_flows(given), load, load_cdf("web-search"), reference.hosts, point.seed)
    }
    document["fabric"] = {**document["fabric"], **reference.fabric}
    document["simulator"] = {**document["simulator"], "multipath": "per-packet-and-host", "tcp": dict(NS2)}
    if "mark_at" in document["scheme"]:
        document["scheme"] = {**document["scheme"], "mark_at": f"{MARK_BYTES}B"}
    return NamedPoint(scheme, load, point.seed, document, f"{scheme}-{load:g}")


def _reference(given: Given) -> Reference:
    return SMALL if given["small"] else FULL


def _flows(given: Given) -> int:
    return min(given.flows, _reference(given).flows)


def scheme_at_load(text: str) -> tuple[str, float]:
    """Read "pias:0.6". Raises argparse.ArgumentTypeError."""
    scheme, _, load = text.partition(":")
    try:
        return scheme, load_share(load)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"{text!r}: write a scheme of pias-144 and a load below 1, for example pias:0.6"
        ) from None


ALSO = option(
    "--also",
    type=scheme_at_load,
    action="append",
    default=[],
    metavar="SCHEME:LOAD",
    help="another run as ns-2, for example pias:0.6; its ratios are to ns-2's DCTCP at load 0.8; may be repeated",
)


def side(given: Given, runs: Sequence[NamedPoint]) -> Side:
    """Return the figures of all flows of these runs together."""
    size_bytes, fct_us = np.hstack([_measured(given, point) for point in runs])
    packets = -(-size_bytes // PAYLOAD_BYTES)
    rows = []
    for row in ROWS:
        chosen = (packets >= row.least_packets) & (packets <= row.most_packets)
        rows.append(_row(row, fct_us[chosen]))
    return Side(rows, float(fct_us.mean()), _reference(given))


def _measured(given: Given, point: NamedPoint) -> Array:
    """Return size and completion time of the flows after the warm-up."""
    table = pq.read_table(given.out / point.name / "flows.parquet", columns=["started_at", "bytes", "fct_us"])
    started_at, size_bytes, fct_us = (table.column(i).to_numpy() for i in range(3))
    after_warm_up = started_at >= (FLOWS_AT_S if "flow" in point.document["workload"] else 0)
    return np.stack([size_bytes[after_warm_up], fct_us[after_warm_up]])


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
    return [
        *(_close(f"{row.name}: mean", r, MEAN_TOLERANCE) for row, r in zip(ROWS, means, strict=True)),
        *(
            _close(f"{row.name}: p99", r, TAIL_TOLERANCE)
            for row, r in zip(ROWS[:TAIL_ROWS], tails, strict=False)
        ),
        _close("all flows: mean", ours.all_ratio, ALL_TOLERANCE),
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
    every = " | ".join(f"{one.all_ratio:.2f}" for one in found.values())
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
    minutes=50,
    about=__doc__,
    runner=Script(measure, (ALSO, SMALL_NETWORK)),
    seeds=(1, 2, 3),
    flows=100_000,
    quick={"flows": 2000},
    claims=claims,
    numbers=numbers,
    draw=draw,
    table=table,
)
