# SPDX-License-Identifier: Apache-2.0
"""Random faults of controllers that share the switches of a leaf-spine network, while the policy changes."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from experiments.checks.random_faults.belongings import Belongings
from experiments.checks.random_faults.faults import Fault, Undo
from experiments.checks.random_faults.outcome import Outcome
from experiments.checks.random_faults.policies import Change, Policies
from experiments.checks.random_faults.shared_faults import Draws, Episode, inject
from experiments.checks.random_faults.shared_stack import SharedStack
from experiments.checks.random_faults.traffic import BUSY_PORT, LEAD_S, WELL_S, conclude, document_of
from experiments.checks.random_faults.wire import Event
from experiments.kit.experiment import Given
from experiments.kit.live import run_until
from experiments.kit.port_gaps import PortGaps
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.files import scenario_with
from sluice.runtime.wait import wait_until
from sluice.store import desired, observed, parts
from sluice.store.lease import NOBODY
from sluice.terminal import console

NETWORK = {"topology": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2}
PAUSES_S = (0.5, 8.0)
"""Time from the end of a fault to the next one. Some are long enough for a controller to come back alone."""
SCHEME = {"name": "pias", "queues": 4, "thresholds": ["10KB", "100KB", "400KB"], "mark_at": "20pkt"}
"""The first one. Its thresholds do not adapt."""
WEB = "web"


@dataclass
class SharedOutcome(Outcome):
    controllers: int = 0
    switches: int = 0
    episodes: list[Episode] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    """What controllers and switches have said to each other."""
    changes: list[Change] = field(default_factory=list)
    applied: dict[int, float] = field(default_factory=dict)
    """Policy version → when the coordinator said that all switches have it."""
    late: dict[int, float] = field(default_factory=dict)
    """Policy version → when an event named the switches that lacked it."""
    began_at: float = 0.0
    ended_at: float = 0.0
    """Of the faults."""
    own_ends: int = 0
    """How often a controller ended or hung although no fault hit it, or did not end in order."""


def measure(given: Given) -> SharedOutcome:
    mine = Belongings()
    outcome = run_shared(given, mine)
    outcome.left = mine.left()
    return outcome


def run_shared(given: Given, mine: Belongings) -> SharedOutcome:
    rng = np.random.default_rng(given["seed"])
    scenario, _, topology = scenario_with(document_of(given["seed"], given["seconds"], rng, NETWORK, SCHEME))
    flows = scheduled_flows(scenario, topology, rng, f"random-faults-{int(time.time())}")
    outcome = SharedOutcome(
        scheduled=[flow.id for flow in flows],
        controllers=given["controllers"],
        switches=len(topology.switches),
    )
    shutil.rmtree(given.out / "run", ignore_errors=True)
    with SharedStack.start_shared(scenario, topology, given.out / "run", given["controllers"]) as stack:
        stack.start_background()
        start_at = stack.start_agents(flows)
        wait_until(lambda: _is_fair(stack), "the controllers share the switches", timeout_s=WELL_S)
        run_until(stack, start_at + LEAD_S, mine.look, every_s=1.0)
        with PortGaps(stack.testbed.pid, BUSY_PORT) as port:
            _disturb(stack, start_at + given["seconds"], rng, outcome, mine.look)
        outcome.gaps, outcome.blind_s = port.gaps, port.looks.longest_without_s
        _settle(stack, outcome)
        conclude(stack, flows, start_at, outcome, lambda: stack.bring_up(next(iter(stack.numbers))))
    return outcome


def _is_fair(stack: SharedStack) -> bool:
    """Whether the store gives each controller its part of the switches."""
    stack.check()
    held = [row.holder for part, row in parts.look(stack.engine).parts.items() if part != parts.NETWORK]
    least = len(stack.topology.switches) // len(stack.numbers)
    counts = [held.count(holder) for holder in set(held) - {NOBODY}]
    return (
        len(held) == len(stack.topology.switches)
        and len(counts) == len(stack.numbers)
        and min(counts) >= least
    )


def _disturb(
    stack: SharedStack,
    until: float,
    rng: np.random.Generator,
    outcome: SharedOutcome,
    look: Callable[[], None],
) -> None:
    """Make one fault after the other, and change the policy meanwhile."""
    draws, policies = Draws(stack, rng), Policies(stack, rng)
    outcome.began_at = time.time()
    while time.time() < until:
        fault = draws.next()
        left_s = until - time.time()
        console.print(f"{left_s:5.0f} s left: {fault.kind} {fault.target} for {fault.seconds:.1f} s")
        fault, undo = _begin(stack, fault)
        try:
            # A stopped web process would keep the change, and so this loop, waiting.
            run_until(
                stack, time.time() + fault.seconds, (lambda: None) if fault.target == WEB else policies.tick
            )
        finally:
            undo()
        lasted_s = time.time() - fault.at
        outcome.episodes.append(Episode(dataclasses.replace(fault, seconds=lasted_s), time.time()))
        look()
        run_until(stack, time.time() + float(rng.uniform(*PAUSES_S)), policies.tick)
    outcome.faults = [episode.fault for episode in outcome.episodes]
    outcome.changes = policies.changes


def _begin(stack: SharedStack, fault: Fault) -> tuple[Fault, Undo]:
    """Make a fault happen, and note when. A controller is gone at its signal, all other faults need some commands."""
    began_at = time.time()
    undo = inject(stack, fault)
    return dataclasses.replace(fault, at=began_at if fault.kind in ("kill", "end") else time.time()), undo


def _settle(stack: SharedStack, outcome: SharedOutcome) -> None:
    """Wait until the last policy stands, and note what has been said until now."""
    newest = desired.current_version(stack.engine)
    wait_until(lambda: _is_fair(stack), "the controllers share the switches again", timeout_s=WELL_S)
    stack.wait_applied(newest)
    outcome.ended_at = time.time()
    outcome.events = list(stack.relay.events)
    outcome.own_ends = stack.own_ends + sum(stack.services[name].restarts for name in stack.numbers)
    for kind, into in (("policy-applied", outcome.applied), ("policy-late", outcome.late)):
        for event in observed.events_of(stack.engine, kind, stack.began_at):
            into.setdefault(event["document"]["version"], event["at"])
