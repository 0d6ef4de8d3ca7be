# SPDX-License-Identifier: Apache-2.0
"""What the experiments datcp_fig08 … datcp_fig14 share: set-up, runs, series.

Zhang et al., section 4.1, table 1: one switch, buffer 200 KB, RED variant 80 KB / 120 KB / 1.0 on the instantaneous
queue, minimum RTO 10 ms, maximum window 50 packets. On the simulator all is as there: 1 Gb/s, 75 µs a link, flows of
100 MB. The testbed has a tenth of the paper's rate and sizes, so that the deadlines are the same seconds, and no
propagation delay: the queue's 6 to 10 ms dwarf it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.kit.verdict import Claim
from policy.fabrics import SIMULATOR, TESTBED
from policy.framing import WIRE_PER_PAYLOAD
from policy.units import format_bytes, time_ns
from sluice.runs.bundle import is_complete, read_flows, read_samples
from sluice.runs.fabrics import runner
from sluice.runs.files import scenario_with
from sluice.terminal import end_in_order, progress_bar

PAPER_MBPS = 1000.0
SAMPLE_S = 0.1
"""The paper computes throughput at intervals of 0.1 s."""
JITTER_S = 0.02
"""Flows that start together start within this time, drawn by seed: else every repetition begins in lockstep."""
GRACE_S = 40.0
"""For 400 MB that start at once: the link carries them in 34 s."""
RECEIVER = "h1"

DATCP: Mapping[str, Any] = {"name": "datcp", "mark_min": "80KB", "mark_max": "120KB"}
TCP: Mapping[str, Any] = {"name": "tcp"}


@dataclass(frozen=True)
class Setup:
    """Where the experiments run, and at what rate; sizes are to the paper's as the rate is."""

    on: str
    link_mbps: float
    links: Mapping[str, Any]
    """Further keys of [fabric]."""
    results: Path

    @property
    def goodput_mbps(self) -> float:
        """Payload that the link carries when it is full: 95.6 % of its rate."""
        return self.link_mbps / WIRE_PER_PAYLOAD

    def size_bytes(self, paper_bytes: int) -> int:
        return round(paper_bytes * self.link_mbps / PAPER_MBPS)


SMALL = Setup(TESTBED, 100.0, {}, Path("results"))
FULL = Setup(SIMULATOR, PAPER_MBPS, {"link_delay": "75us"}, Path("results/datcp_full"))

Series = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Sent:
    """One flow of the document and what became of it. Seconds; `start_s` from the start of the run."""

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


@dataclass(frozen=True)
class Run:
    """A finished run: flows and their samples, both in the order of the document's flows."""

    name: str
    seed: int
    flows: list[Sent]
    samples: list[list[Mapping[str, Any]]]
    invalid: list[str]
    """Why the run is not valid; empty when it is."""
    retransmissions: int
    timeouts: int

    @property
    def valid(self) -> bool:
        return not self.invalid

    def labelled(self, label: str) -> list[int]:
        """Places of the flows of that label."""
        return [i for i, flow in enumerate(self.flows) if flow.label == label]


def parser(
    name: str, description: str | None, seeds: Sequence[int] = (1, 2, 3), setup: Setup = SMALL
) -> argparse.ArgumentParser:
    """The command line of an experiment."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, default=setup.results / name)
    made.add_argument(
        "--seeds", type=int, nargs="+", default=list(seeds), help="one run each (default: %(default)s)"
    )
    end_in_order()
    return made


def endless(until_s: float, label: str = "background", **keys: Any) -> dict[str, Any]:
    return {"until": f"{until_s:g}s", "label": label, **keys}


def sized(size_bytes: int, label: str, deadline_s: float | None = None, **keys: Any) -> dict[str, Any]:
    flow = {"bytes": f"{size_bytes}B", "label": label, **keys}
    return flow if deadline_s is None else flow | {"deadline": f"{deadline_s:g}s"}


def in_time(size_bytes: int, deadline_s: float) -> str:
    """Label of a flow with a deadline: 100 MB in 4 s."""
    return f"{format_bytes(size_bytes)} in {deadline_s:g} s"


def document(
    name: str,
    seed: int,
    flows: Sequence[Mapping[str, Any]],
    scheme: Mapping[str, Any],
    setup: Setup = SMALL,
) -> dict[str, Any]:
    """A scenario in which each flow comes from a host of its own, unless it says another, and goes to the same one.

    `flows` have their `start_s` (0 by default) as a number; the jitter comes on top.
    """
    jitter = np.random.default_rng(seed).uniform(0, JITTER_S, len(flows))
    placed = [_placed(i, flow, shift) for i, (flow, shift) in enumerate(zip(flows, jitter, strict=True))]
    return {
        "name": name,
        "seed": seed,
        "sample": f"{round(SAMPLE_S * 1000)}ms",
        "grace": f"{GRACE_S:g}s",
        "fabric": {
            "topology": "single",
            "hosts": max(int(flow["from"][1:]) for flow in placed),
            "host_rate": f"{setup.link_mbps:g}Mbit",
            "buffer": "200KB",
            **setup.links,
        },
        "scheme": dict(scheme),
        "transport": {"rto_min": "10ms", "max_window": 50},
        "workload": {"flow": placed},
    }


def _placed(index: int, flow: Mapping[str, Any], jitter_s: float) -> dict[str, Any]:
    keys = {key: value for key, value in flow.items() if key not in ("start_s", "from")}
    start_us = round((flow.get("start_s", 0.0) + jitter_s) * 1e6)
    return {"from": flow.get("from", f"h{index + 2}"), "to": RECEIVER, "start": f"{start_us}us", **keys}


def run(out: Path, scenario_document: Mapping[str, Any], setup: Setup = SMALL) -> Run:
    """Run a scenario into `out`/its name, unless an earlier, interrupted call has finished that very run."""
    name = scenario_document["name"]
    scenario, resolved = scenario_with(scenario_document)
    bundle = out / name
    if not is_complete(bundle, resolved):
        with progress_bar(name) as report:
            runner(setup.on)(scenario, resolved, bundle, report)
    outcome = read_run(bundle)
    if not outcome.valid:
        print(f"{name}: not valid: {'; '.join(outcome.invalid)}", file=sys.stderr)
    return outcome


def read_run(bundle: Path) -> Run:
    """A run from its bundle."""
    summary = json.loads((bundle / "summary.json").read_text())
    meta = json.loads((bundle / "meta.json").read_text())
    scenario = json.loads((bundle / "scenario.json").read_text())
    tables = scenario["workload"]["flow"]
    rows = read_flows(bundle)
    place = places(rows, tables)
    records = {place[row["id"]]: row for row in rows}
    samples: list[list[Mapping[str, Any]]] = [[] for _ in tables]
    for sample in read_samples(bundle):
        samples[place[sample["flow"]]].append(sample)
    return Run(
        name=bundle.name,
        seed=scenario["seed"],
        flows=[_sent(records[i], table, meta["start_at"]) for i, table in enumerate(tables)],
        samples=samples,
        invalid=summary["valid"]["reasons"],
        retransmissions=sum(row["retransmissions"] for row in records.values()),
        timeouts=meta["tcp"]["retransmission_timeouts"],
    )


def places(rows: Sequence[Mapping[str, Any]], tables: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Place in the document of each flow of a bundle, by its id: a run numbers its flows by their starts."""
    recorded = sorted(rows, key=lambda row: (row["src"], row["started_at"], int(row["id"].rsplit("/", 1)[1])))
    starts_ns = [time_ns("start", table.get("start", "0s")) for table in tables]
    written = sorted(range(len(tables)), key=lambda i: (tables[i]["from"], starts_ns[i]))
    return {row["id"]: place for row, place in zip(recorded, written, strict=True)}


def _sent(row: Mapping[str, Any], table: Mapping[str, Any], start_at: float) -> Sent:
    seconds = {key: None if row[key] is None else row[key] / 1e6 for key in ("fct_us", "deadline_us")}
    return Sent(
        label=table["label"],
        bytes=row["bytes"],
        start_s=row["started_at"] - start_at,
        fct_s=seconds["fct_us"],
        deadline_s=seconds["deadline_us"],
        met=row["met"],
        reason=row["reason"],
    )


def rates(run: Run, index: int) -> Series:
    """A flow's throughput: middles of the intervals between samples (seconds of the run), and Mb/s in them."""
    points = [(run.flows[index].start_s, 0)]
    points += [(sample["at_s"], sample["acked_bytes"]) for sample in run.samples[index]]
    times, acked = np.asarray(points, dtype=np.float64).T
    spans = np.diff(times)
    keep = spans > SAMPLE_S / 10
    return ((times[1:] + times[:-1]) / 2)[keep], (np.diff(acked)[keep] * 8e-6 / spans[keep])


def mean_rate_mbps(run: Run, index: int, from_s: float, to_s: float) -> float:
    """Mean throughput between two times of the run, from the samples at its ends; 0 before the flow's start."""
    points = [(run.flows[index].start_s, 0)]
    points += [(sample["at_s"], sample["acked_bytes"]) for sample in run.samples[index]]
    times, acked = np.asarray(points, dtype=np.float64).T
    ends = np.interp([from_s, to_s], times, acked)
    return float((ends[1] - ends[0]) * 8e-6 / (to_s - from_s))


def column(run: Run, index: int, name: str) -> Series:
    """A sampled quantity of one flow over the run's seconds; only where it is known."""
    known = [(s["at_s"], s[name]) for s in run.samples[index] if s[name] is not None]
    times, values = np.asarray(known, dtype=np.float64).reshape(-1, 2).T
    return times, values


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 for equal shares, 1/n when one has all."""
    total, squares = sum(values), sum(v * v for v in values)
    return total * total / (len(values) * squares) if squares else 1.0


def validity(runs: Iterable[Run]) -> Claim:
    """The first thing to look at: a claim cannot hold by a run that is not valid."""
    outcomes = list(runs)
    valid = sum(outcome.valid for outcome in outcomes)
    return Claim("valid runs", f"{len(outcomes)}", f"{valid}", valid == len(outcomes))


def describe(flow: Sent) -> str:
    """A flow for people: 10 MB in 3.4 s."""
    return f"{format_bytes(flow.bytes)} {f'in {flow.fct_s:.2f} s' if flow.fct_s is not None else flow.reason}"
