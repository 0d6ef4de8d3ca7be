# SPDX-License-Identifier: Apache-2.0
"""The traffic under faults, its records, and the rules of the switches afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.checks.random_faults.outcome import Outcome
from experiments.kit.live import poisson_starts_s, run_until, short_flow, wait_for_records
from sluice.policy.wire.records import ScheduledFlow
from sluice.runs.stack import Stack
from sluice.runtime.wait import wait_until
from sluice.store import flows as flow_store

FLOWS_PER_S = 6.0
SIZES_KB = (5, 20, 100, 300)
PAUSE_S = (0.5, 5.0)
"""Time from the end of a fault to the next one. Components may still be recovering."""
BUSY_PORT = "s1-eth1"
"""The port of h1, to which iperf sends from another switch during the whole run."""
WELL_S = 60.0
STILL_S = 2.0
LEAD_S = 3.0
DUMBBELL = {"topology": "dumbbell"}
ADAPTIVE = {"name": "mlfq-adaptive", "queues": 4, "mark_at": "20pkt"}


def document_of(
    seed: int,
    seconds: float,
    rng: np.random.Generator,
    topology: Mapping[str, Any] = DUMBBELL,
    scheme: Mapping[str, Any] = ADAPTIVE,
) -> dict[str, Any]:
    """Return a scenario of short flows between all hosts, with iperf from one switch to another."""
    starts_s = poisson_starts_s(rng, FLOWS_PER_S, seconds)
    return {
        "name": "random-faults",
        "seed": seed,
        "grace": "30s",
        "fabric": {**topology, "host_rate": "20Mbit", "core_rate": "20Mbit", "buffer": "200KB"},
        "scheme": dict(scheme),
        "transport": {"rto_min": "50ms"},
        "background": [{"from": "h3", "to": "h1"}],
        "workload": {"flow": [_flow(rng, start_s) for start_s in starts_s]},
    }


def _flow(rng: np.random.Generator, start_s: float) -> dict[str, Any]:
    source, to = rng.choice(4, 2, replace=False) + 1
    return short_flow(f"h{source}", f"h{to}", rng.choice(SIZES_KB), start_s)


def conclude(
    stack: Stack,
    flows: Sequence[ScheduledFlow],
    start_at: float,
    outcome: Outcome,
    restart: Callable[[], None],
) -> None:
    """Wait until everything works again. Then note the records, and the rules before and after `restart`.

    `restart` starts a controller, while none runs and no switch has a rule.
    """
    wait_until(stack.is_well, "all components work again after the faults", timeout_s=WELL_S)
    # A killed agent delivers some records only when it stops, so some may be missing here.
    wait_for_records(stack, len(flows), start_at + flows[-1].start_s + stack.scenario.grace_s)
    stack.stop_agents()
    outcome.records = flow_store.all_flows(stack.engine)
    stack.stop_background()
    outcome.rules = _settled_rules(stack)
    outcome.fresh = _fresh_rules(stack, restart)


def _rules(stack: Stack) -> dict[str, set[str]]:
    """Return the rules by switch, without counters."""
    dump = ["ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows"]
    return {
        switch.name: {
            line.strip()
            for line in stack.testbed.ovs([*dump, switch.name]).splitlines()
            if "priority" in line or "actions" in line
        }
        for switch in stack.topology.switches
    }


def _fresh_rules(stack: Stack, restart: Callable[[], None]) -> dict[str, set[str]]:
    """Stop the controllers, empty the switches, and start a new controller. Returns its rules."""
    stack.services.stop("controller")
    for switch in stack.topology.switches:
        stack.testbed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "del-flows", switch.name])
    assert not any(_rules(stack).values())
    restart()
    return _settled_rules(stack)


def _settled_rules(stack: Stack) -> dict[str, set[str]]:
    """Return the rules of idle switches once none has changed for STILL_S."""

    def settled() -> dict[str, set[str]] | None:
        first = _rules(stack)
        run_until(stack, time.time() + STILL_S)
        return first if all(first.values()) and _rules(stack) == first else None

    found = wait_until(settled, "the rules no longer change", timeout_s=WELL_S)
    assert found is not None
    return found
