# SPDX-License-Identifier: Apache-2.0
"""One host floods another with 1,500 full frames a second on a switch of 20 Mb/s, and ignores all marks and losses.

Small and large flows of honest hosts share the port. Each kind of flood runs with `urgent_first` off and on. The check
compares the flows' completion times with those without any flood.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.checks.hostile import flood
from experiments.kit.experiment import Experiment, Given, Script, option
from experiments.kit.live import poisson_starts_s, run_until, short_flow, wait_for_records
from experiments.kit.verdict import Claim
from policy.fabrics import TESTBED
from policy.records import FINISHED, FlowRecord
from policy.scenario import scheduled_flows
from runtime.process import stop
from sluice.runs.fabrics import need_root
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from store import flows as flow_store
from topologies import build_topology

SINK, ATTACKER = "h1", "h5"
HONEST = ("h2", "h3", "h4")
FRAMES_PER_S = 1500
SMALL_PER_S, SMALL_KB = 20, (5, 10, 20, 40)
LARGE_EVERY_S, LARGE_KB = 1.0, 1000
LEAD_S, SETTLE_S = 2.0, 2.5
"""Seconds before the first phase, and from a change of policy to the flood."""
MEAN_RATIO, P99_RATIO, LARGE_RATIO = 1.2, 1.5, 1.2
POLICY = {"scheme": "pias", "queues": 4, "thresholds": ["50KB", "100KB", "300KB"], "mark_at": "20pkt"}


@dataclass(frozen=True)
class Phase:
    """Some seconds with one kind of flood. Times are seconds since traffic began."""

    kind: str
    """Of flood.py; empty: no flood."""
    urgent_first: bool
    begins_s: float
    ends_s: float


@dataclass(frozen=True)
class Figures:
    """What honest flows had in one phase. A flow that did not finish counts as infinitely long."""

    phase: Phase
    flows: int
    mean_ms: float
    p99_ms: float
    large_ms: float

    def ratios(self, alone: Figures) -> tuple[float, float, float]:
        """Return mean and 99th percentile of small flows and the mean of large flows, relative to no flood."""
        return (
            self.mean_ms / alone.mean_ms,
            self.p99_ms / alone.p99_ms,
            self.large_ms / alone.large_ms,
        )


@dataclass(frozen=True)
class Outcome:
    alone: Figures
    floods: Sequence[Figures]


# -- the run


def phases_of(kinds: Sequence[str], phase_s: float) -> list[Phase]:
    """Return the phases in order: without a flood, then each kind without and with the order of drops."""
    wanted = [("", True), *product(kinds, (False, True))]
    return [
        Phase(kind, urgent, begins, begins + phase_s)
        for at, (kind, urgent) in enumerate(wanted)
        for begins in [LEAD_S + SETTLE_S + at * (phase_s + SETTLE_S)]
    ]


def scenario_of(seed: int, phases: Sequence[Phase]) -> dict[str, Any]:
    """Return the honest flows of all phases. Each phase has the same."""
    flows = []
    for phase in phases:
        rng = np.random.default_rng(seed)
        for start_s in poisson_starts_s(rng, SMALL_PER_S, phase.ends_s - phase.begins_s):
            source, size_kb = rng.choice(HONEST), rng.choice(SMALL_KB)
            flows.append(short_flow(str(source), SINK, size_kb, phase.begins_s + start_s))
        for start_s in np.arange(0.0, phase.ends_s - phase.begins_s, LARGE_EVERY_S):
            flows.append(short_flow(HONEST[0], SINK, LARGE_KB, phase.begins_s + float(start_s)))
    return {
        "name": "hostile",
        "seed": seed,
        "grace": "20s",
        "fabric": {"topology": "single", "hosts": 5, "host_rate": "20Mbit"},
        "scheme": {"name" if key == "scheme" else key: value for key, value in POLICY.items()},
        "transport": {"rto_min": "10ms"},
        "workload": {"flow": sorted(flows, key=lambda flow: float(flow["start"][:-2]))},
    }


def measure(given: Given) -> Outcome:
    need_root()
    phases = phases_of(given["kinds"], given["phase"])
    scenario, _ = scenario_with(scenario_of(given.seeds[0], phases))
    topology = build_topology(scenario)
    flows = scheduled_flows(scenario, topology, np.random.default_rng(1), f"hostile-{int(time.time())}")
    shutil.rmtree(given.out / "run", ignore_errors=True)
    with Stack.start(scenario, topology, given.out / "run") as stack:
        start_at = stack.start_agents(flows)
        for phase in phases:
            stack.put_policy({**POLICY, "urgent_first": phase.urgent_first})
            run_until(stack, start_at + phase.begins_s - SETTLE_S / 5)
            _run_phase(stack, phase, start_at)
        wait_for_records(stack, len(flows), start_at + phases[-1].ends_s + 10)
        stack.stop_agents()
        records = list(flow_store.all_flows(stack.engine))
    found = [figures(phase, records, start_at) for phase in phases]
    return Outcome(found[0], found[1:])


def _run_phase(stack: Stack, phase: Phase, start_at: float) -> None:
    """Flood the sink until the phase has ended."""
    if not phase.kind:
        return run_until(stack, start_at + phase.ends_s)
    ends = [stack.topology.host_by_name[name] for name in (ATTACKER, SINK)]
    places = [f"{host.mac},{host.ipv4}" for host in ends]
    argv = [sys.executable, str(Path(flood.__file__)), phase.kind, f"{ATTACKER}-eth0", *places]
    sender = stack.testbed.spawn(ATTACKER, [*argv, str(FRAMES_PER_S)])
    try:
        run_until(stack, start_at + phase.ends_s)
    finally:
        stop(sender)


def figures(phase: Phase, records: Sequence[FlowRecord], start_at: float) -> Figures:
    """Evaluate the flows that began in a phase."""
    begun = [r for r in records if phase.begins_s <= r.started_at - start_at < phase.ends_s]
    by_size: Mapping[bool, list[float]] = {False: [], True: []}
    for record in begun:
        is_done = record.status == FINISHED and record.fct_us is not None
        by_size[record.bytes >= LARGE_KB * 1000].append((record.fct_us or 0) / 1000 if is_done else np.inf)
    small, large = (np.asarray(by_size[is_large] or [np.inf]) for is_large in (False, True))
    p99_ms = float(np.percentile(small, 99, method="higher"))
    return Figures(phase, len(begun), float(small.mean()), p99_ms, float(large.mean()))


# -- the verdict


def claims(outcome: Outcome) -> list[Claim]:
    goal = f"mean up to {MEAN_RATIO}, p99 up to {P99_RATIO}, large up to {LARGE_RATIO} times"
    found = []
    for each in outcome.floods:
        mean, p99, large = each.ratios(outcome.alone)
        holds = mean <= MEAN_RATIO and p99 <= P99_RATIO and large <= LARGE_RATIO
        if each.phase.urgent_first:
            found.append(
                Claim(f"flood: {each.phase.kind}", goal, f"{mean:.2f}, {p99:.2f}, {large:.2f}", holds)
            )
    return found


def table(outcome: Outcome) -> str:
    """Return all phases as Markdown."""
    lines = [
        "| flood | urgent_first | flows | small: mean | small: p99 | 1 MB: mean | ratios |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in (outcome.alone, *outcome.floods):
        ratios = ", ".join(f"{ratio:.2f}" for ratio in each.ratios(outcome.alone))
        switch = "on" if each.phase.urgent_first else "off"
        times = " | ".join(f"{ms:.1f} ms" for ms in (each.mean_ms, each.p99_ms, each.large_ms))
        lines.append(f"| {each.phase.kind or 'none'} | {switch} | {each.flows} | {times} | {ratios} |")
    return "\n".join(lines)


def numbers(outcome: Outcome) -> list[dict[str, Any]]:
    return [
        {**vars(each.phase), "mean_ms": each.mean_ms, "p99_ms": each.p99_ms, "large_ms": each.large_ms}
        for each in (outcome.alone, *outcome.floods)
    ]


KINDS = [*flood.KINDS, *flood.FRAMES]
EXPERIMENT = Experiment(
    name="hostile",
    claim="A host that ignores marks leaves small flows their completion times, and large flows their share.",
    figure="",
    minutes=4,
    about=__doc__,
    runner=Script(measure),
    on=(TESTBED,),
    seeds=(1,),
    options=(
        option("--kinds", nargs="+", choices=KINDS, default=KINDS, help="floods (default: all)"),
        option("--phase", type=float, default=10.0, help="seconds of each flood (default: %(default)s)"),
    ),
    quick={"kinds": ["background", "no-ports", "frames"], "phase": 6.0},
    claims=claims,
    numbers=numbers,
    table=table,
)
