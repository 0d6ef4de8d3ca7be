# SPDX-License-Identifier: Apache-2.0
"""Traffic under random faults: processes killed, stopped or cut off, and links unplugged.

It checks three things afterwards. Every flow has exactly one record. The rules are those that a
fresh controller installs on empty switches. No fault of the control plane stopped traffic.
"""

from __future__ import annotations

import shutil
import time

import numpy as np

from experiments.checks.random_faults.faults import draw, inject
from experiments.checks.random_faults.outcome import Outcome, claims, numbers
from experiments.checks.random_faults.traffic import BUSY_PORT, LEAD_S, PAUSE_S, conclude, document_of
from experiments.kit.experiment import Experiment, Given, Script, option
from experiments.kit.live import run_until
from experiments.kit.machine import Machine, left_over
from experiments.kit.port_gaps import PortGaps
from sluice.commands.arguments import seconds, seed
from sluice.policy.fabrics import TESTBED
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.fabrics import need_root
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.terminal import console


def measure(given: Given) -> Outcome:
    need_root()
    before = Machine.look()
    outcome = run_faults(given)
    outcome.left = left_over(before)
    return outcome


def run_faults(given: Given) -> Outcome:
    rng = np.random.default_rng(given["seed"])
    scenario, _, topology = scenario_with(document_of(given["seed"], given["seconds"], rng))
    flows = scheduled_flows(scenario, topology, rng, f"random-faults-{int(time.time())}")
    outcome = Outcome(scheduled=[flow.id for flow in flows])
    shutil.rmtree(given.out / "run", ignore_errors=True)
    with Stack.start(scenario, topology, given.out / "run") as stack:
        stack.start_background()
        start_at = stack.start_agents(flows)
        run_until(stack, start_at + LEAD_S)
        with PortGaps(stack.testbed.pid, BUSY_PORT) as port:
            _disturb(stack, start_at + given["seconds"], rng, outcome)
        outcome.gaps, outcome.blind_s = port.gaps, port.looks.longest_without_s
        conclude(stack, flows, start_at, outcome, stack.start_controller)
    return outcome


def _disturb(stack: Stack, until: float, rng: np.random.Generator, outcome: Outcome) -> None:
    """Make one fault after the other. Each ends before the next one begins."""
    while time.time() < until:
        fault = draw(stack, rng)
        left_s = until - time.time()
        console.print(f"{left_s:5.0f} s left: {fault.kind} {fault.target} for {fault.seconds:.1f} s")
        outcome.faults.append(fault)
        undo = inject(stack, fault)
        try:
            run_until(stack, time.time() + fault.seconds)
        finally:
            undo()
        run_until(stack, time.time() + float(rng.uniform(*PAUSE_S)))


EXPERIMENT = Experiment(
    name="random_faults",
    claim="Random faults lose no flow's record and no rule, and faults of the control plane stop no traffic.",
    figure="",
    minutes=12,
    about=__doc__,
    runner=Script(measure),
    on=(TESTBED,),
    options=(
        option("--seconds", type=seconds, default=600.0, help="seconds of traffic (default: %(default)s)"),
        option("--seed", type=seed, default=1, help="seed of flows and faults (default: %(default)s)"),
    ),
    quick={"seconds": 120.0},
    claims=claims,
    numbers=numbers,
)
