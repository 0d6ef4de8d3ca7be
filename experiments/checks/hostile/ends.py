# SPDX-License-Identifier: Apache-2.0
"""One host forges FINs, or opens tiny connections, and three honest hosts send flows to the same port of 20 Mb/s.

The thresholds of that port adapt. The check compares them before, during and after each attack, with `robust_ends` off
and on.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from experiments.checks.hostile import attacker
from experiments.checks.hostile.run import HONEST, SINK, start_attacker
from experiments.kit import live
from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table, option, some_of
from sluice.commands.arguments import above_zero, seconds
from sluice.policy import tags
from sluice.policy.fabrics import TESTBED
from sluice.policy.units import format_bytes
from sluice.runs.stack import Stack
from sluice.runtime.process import stop
from sluice.store import observed

PORT = "s1:1"
"""The switch port towards the sink."""
FLOWS_PER_S, LARGE_PART = 25, 0.06
SMALL_KB, LARGE_KB = 10, 1000
WINDOW_S = 2.0
LEAD_S, AFTER_S = 2.0, 3.0
BEFORE_S = 4.0
"""A window and a half from a change of policy to the attack, so that the thresholds have settled."""
POLICIES: dict[str, dict[str, Any]] = {
    "mlfq-adaptive": {"queues": 2, "thresholds": ["10KB"], "percentiles": [50]},
    "sluice": {"queues": 2, "thresholds": ["10KB"], "mark_by": "port", "least_threshold": "1KB"},
}
MOST_EDGES = 1
"""With `robust_ends`, thresholds may move by one edge: a factor of 1.33. Without an attack they do so, too."""


@dataclass(frozen=True)
class Phase:
    """Times are seconds since traffic began."""

    scheme: str
    kind: str
    robust: bool
    begins_s: float
    """When its policy begins."""
    attack_s: float

    @property
    def attacked_s(self) -> tuple[float, float]:
        begin_s = self.begins_s + BEFORE_S
        return begin_s, begin_s + self.attack_s

    @property
    def ends_s(self) -> float:
        return self.attacked_s[1] + AFTER_S

    @property
    def policy(self) -> dict[str, Any]:
        window = {"window_ms": round(WINDOW_S * 1000), "interval_ms": 500}
        return {"scheme": self.scheme, "robust_ends": self.robust, **window, **POLICIES[self.scheme]}


@dataclass(frozen=True)
class Moves:
    """The port's threshold in bytes in one phase."""

    phase: Phase
    before: int
    during: int
    """The one that is farthest from `before`."""
    after: int

    @property
    def edges(self) -> int:
        """How far it moved, in edges of the tag's buckets."""
        return abs(tags.edge_index(self.during) - tags.edge_index(self.before))


def phases_of(schemes: Sequence[str], kinds: Sequence[str], attack_s: float) -> list[Phase]:
    """Return the phases in order. Each attack comes without and with `robust_ends`."""
    phases: list[Phase] = []
    for scheme, kind, robust in product(schemes, kinds, (False, True)):
        begins_s = phases[-1].ends_s if phases else LEAD_S
        phases.append(Phase(scheme, kind, robust, begins_s, attack_s))
    return phases


def scenario_of(seed: int, phases: Sequence[Phase]) -> dict[str, Any]:
    """Return the honest flows of the whole run."""
    rng = np.random.default_rng(seed)
    flows = []
    for start_s in live.poisson_starts_s(rng, FLOWS_PER_S, phases[-1].ends_s):
        source, size_kb = str(rng.choice(HONEST)), LARGE_KB if rng.random() < LARGE_PART else SMALL_KB
        flows.append(live.short_flow(source, SINK, size_kb, start_s))
    return {
        "name": "hostile-ends",
        "seed": seed,
        "grace": "10s",
        "fabric": {"topology": "single", "hosts": 5, "host_rate": "20Mbit"},
        "scheme": live.scheme_table(phases[0].policy),
        "workload": {"flow": flows},
    }


def measure(given: Given) -> list[Moves]:
    phases = phases_of(given["schemes"], given["kinds"], given["phase"])
    document = scenario_of(given.seeds[0], phases)
    with live.running(document, np.random.default_rng(1), given.out / "run") as (stack, flows):
        listener = [sys.executable, attacker.__file__, "sink", stack.topology.host_by_name[SINK].ipv4]
        sink = stack.testbed.spawn(SINK, listener)
        start_at = stack.start_agents(flows)
        try:
            for phase in phases:
                _run_phase(stack, phase, start_at, given["rate"])
        finally:
            stop(sink)
        stack.stop_agents()
        history = observed.threshold_history(stack.engine, start_at - 60, [PORT])
    return [moves(phase, history, start_at) for phase in phases]


def _run_phase(stack: Stack, phase: Phase, start_at: float, rate_per_s: float) -> None:
    live.run_until(stack, start_at + phase.begins_s)
    stack.put_policy(phase.policy)
    begin_s, end_s = phase.attacked_s
    live.run_until(stack, start_at + begin_s)
    sender = start_attacker(stack, phase.kind, rate_per_s)
    try:
        live.run_until(stack, start_at + end_s)
    finally:
        stop(sender)
    live.run_until(stack, start_at + phase.ends_s)


def moves(phase: Phase, history: Iterable[observed.ThresholdChange], start_at: float) -> Moves:
    """Evaluate the thresholds of a phase. Those of the attack include a window after it."""
    changes = [(change.at - start_at, change.thresholds_bytes[0]) for change in history]
    begin_s, end_s = phase.attacked_s

    def at(time_s: float) -> int:
        return next(size for at_s, size in reversed(changes) if at_s <= time_s)

    before = at(begin_s)
    within = [before, *(size for at_s, size in changes if begin_s < at_s <= end_s)]
    farthest = max(within, key=lambda size: abs(tags.edge_index(size) - tags.edge_index(before)))
    return Moves(phase, before, farthest, at(phase.ends_s))


# -- the verdict


def claims(outcome: Sequence[Moves]) -> list[Claim]:
    return [
        Claim(
            f"{each.phase.scheme}: {each.phase.kind}",
            f"moves by at most {MOST_EDGES} edge",
            f"{format_bytes(each.before)} → {format_bytes(each.during)}",
            each.edges <= MOST_EDGES,
        )
        for each in outcome
        if each.phase.robust
    ]


def table(outcome: Sequence[Moves]) -> str:
    """Return all phases as Markdown."""
    headings = ("scheme", "attack", "robust_ends", "threshold before", "during", "after")
    rows = []
    for each in outcome:
        sizes = map(format_bytes, (each.before, each.during, each.after))
        rows.append((each.phase.scheme, each.phase.kind, "on" if each.phase.robust else "off", *sizes))
    return markdown_table(headings, rows, " --- ")


def numbers(outcome: Sequence[Moves]) -> list[dict[str, Any]]:
    return [
        {**vars(each.phase), "before": each.before, "during": each.during, "after": each.after}
        for each in outcome
    ]


EXPERIMENT = Experiment(
    claim="A host that forges FINs or opens tiny connections moves no port's threshold by an edge.",
    minutes=4,
    runner=Script(measure),
    on=(TESTBED,),
    seeds=(1,),
    options=(
        some_of("--schemes", POLICIES, "schemes"),
        some_of("--kinds", attacker.FALSE_ENDS, "attacks"),
        option("--phase", "seconds of each attack", type=seconds, default=6.0),
        option("--rate", "false ends in a second", type=above_zero, default=60.0),
    ),
    quick={"schemes": ["mlfq-adaptive"], "kinds": ["small-fins", "large-fins"]},
    claims=claims,
    numbers=numbers,
    table=table,
)
