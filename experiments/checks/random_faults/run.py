# SPDX-License-Identifier: Apache-2.0
"""Ten minutes of traffic under random faults: every process killed and stopped, switches cut off from their controller,
links unplugged.

Then: has every flow exactly one record, are the rules those that a fresh controller installs on empty switches, and
did a fault of the control plane ever stop traffic?

python -m experiments random_faults [--out DIR] [--seconds 600] [--seed 1]
"""

from __future__ import annotations

import argparse
import collections
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.checks.random_faults.faults import Fault, draw, inject
from experiments.kit.machine import Machine, settled
from experiments.kit.port_gaps import Gap, PortGaps
from experiments.kit.verdict import Claim, conclude
from policy.records import FINISHED, FlowRecord
from policy.scenario import scheduled_flows
from policy.workload import Flow
from runtime.wait import wait_until
from sluice.runs.fabrics import need_root
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.terminal import console, end_in_order
from store import flows as flow_store
from topologies import build_topology

FLOWS_PER_S = 6.0
SIZES_KB = (5, 20, 100, 300)
PAUSE_S = (0.5, 5.0)
"""From the end of a fault to the next one: it may come before all is well again."""
BUSY_PORT = "s1-eth1"
"""Of h1, to which iperf sends from the other switch as long as the run lasts."""
GAP_S = 1.0
EXCUSED_S = 5.0
"""After the end of what stops packets by itself: a switch starts anew, and TCP tries again ever more rarely."""
WELL_S = 60.0
STILL_S = 2.0
LEAD_S = 3.0


@dataclass
class Outcome:
    """What was done, and what was found."""

    faults: list[Fault] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    """In the traffic of the busy port."""
    blind_s: float = 0.0
    """The longest time between two looks at it."""
    records: list[FlowRecord] = field(default_factory=list)
    scheduled: list[str] = field(default_factory=list)
    """Ids of the flows."""
    rules: dict[str, set[str]] = field(default_factory=dict)
    """By switch, after all faults."""
    fresh: dict[str, set[str]] = field(default_factory=dict)
    """Those that a new controller installs on empty switches."""


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    end_in_order()
    need_root()
    before = Machine.look()
    outcome = run_faults(arguments)
    return conclude(arguments.out, "random_faults", claims_of(outcome, settled(before)), _numbers(outcome))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/random_faults"))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    return parser


# -- the run


def run_faults(arguments: argparse.Namespace) -> Outcome:
    rng = np.random.default_rng(arguments.seed)
    scenario, _ = scenario_with(document_of(arguments.seed, arguments.seconds, rng))
    topology = build_topology(scenario)
    flows = scheduled_flows(scenario, topology, rng, f"random-faults-{int(time.time())}")
    outcome = Outcome(scheduled=[flow.id for flow in flows])
    shutil.rmtree(arguments.out / "run", ignore_errors=True)
    with Stack.start(scenario, topology, arguments.out / "run") as stack:
        stack.start_background()
        start_at = stack.start_agents(flows)
        _wait_until(stack, start_at + LEAD_S)
        with PortGaps(stack.testbed.pid, BUSY_PORT) as port:
            _disturb(stack, start_at + arguments.seconds, rng, outcome)
        outcome.gaps, outcome.blind_s = port.gaps, port.looks.longest_without_s
        wait_until(stack.is_well, "all is well after the faults", timeout_s=WELL_S)
        _wait_for_records(stack, flows, start_at)
        stack.stop_agents()
        outcome.records = flow_store.all_flows(stack.engine)
        stack.stop_background()
        outcome.rules = _settled_rules(stack)
        outcome.fresh = _fresh_rules(stack)
    return outcome


def document_of(seed: int, seconds: float, rng: np.random.Generator) -> dict[str, Any]:
    """Short flows between all hosts, and iperf through both switches."""
    starts_s = np.cumsum(rng.exponential(1 / FLOWS_PER_S, int(seconds * FLOWS_PER_S)))
    return {
        "name": "random-faults",
        "seed": seed,
        "grace": "30s",
        "fabric": {"topology": "dumbbell", "host_rate": "20Mbit", "core_rate": "20Mbit", "buffer": "200KB"},
        "scheme": {"name": "mlfq-adaptive", "queues": 4, "mark_at": "20pkt"},
        "transport": {"rto_min": "50ms"},
        "background": [{"from": "h3", "to": "h1"}],
        "workload": {"flow": [_flow(rng, start_s) for start_s in starts_s if start_s < seconds]},
    }


def _flow(rng: np.random.Generator, start_s: float) -> dict[str, Any]:
    source, to = rng.choice(4, 2, replace=False) + 1
    size_kb = rng.choice(SIZES_KB)
    return {
        "from": f"h{source}",
        "to": f"h{to}",
        "bytes": f"{size_kb}KB",
        "start": f"{round(start_s * 1e6)}us",
    }


def _disturb(stack: Stack, until: float, rng: np.random.Generator, outcome: Outcome) -> None:
    """One fault after the other: what waits for a stopped process must not wait for us to let it go on."""
    while time.time() < until:
        fault = draw(stack, rng)
        console.print(
            f"{until - time.time():5.0f} s left: {fault.kind} {fault.target} for {fault.seconds:.1f} s"
        )
        outcome.faults.append(fault)
        undo = inject(stack, fault)
        try:
            _wait_until(stack, time.time() + fault.seconds)
        finally:
            undo()
        _wait_until(stack, time.time() + float(rng.uniform(*PAUSE_S)))


def _wait_until(stack: Stack, due: float) -> None:
    while time.time() < due:
        stack.check()
        time.sleep(max(0.0, min(0.05, due - time.time())))


def _wait_for_records(stack: Stack, flows: Sequence[Flow], start_at: float) -> None:
    """Those of the flows that an agent lost with its life come when the agent stops."""
    end = start_at + flows[-1].start_s + stack.scenario.grace_s
    while stack.recorded() < len(flows) and time.time() < end:
        _wait_until(stack, time.time() + 0.2)


def _rules(stack: Stack) -> dict[str, set[str]]:
    """By switch; without counters."""
    dump = ["ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows"]
    return {
        switch.name: {
            line.strip()
            for line in stack.testbed.ovs([*dump, switch.name]).splitlines()
            if "priority" in line or "actions" in line
        }
        for switch in stack.topology.switches
    }


def _fresh_rules(stack: Stack) -> dict[str, set[str]]:
    """End the controller, empty the switches, and let a new controller find them so."""
    stack.services.stop("controller")
    for switch in stack.topology.switches:
        stack.testbed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "del-flows", switch.name])
    assert not any(_rules(stack).values())
    stack.start_controller()
    return _settled_rules(stack)


def _settled_rules(stack: Stack) -> dict[str, set[str]]:
    """Of switches without traffic: when thresholds have come to rest and nothing is left to do."""

    def settled() -> dict[str, set[str]] | None:
        first = _rules(stack)
        _wait_until(stack, time.time() + STILL_S)
        return first if all(first.values()) and _rules(stack) == first else None

    found = wait_until(settled, "the rules stand", timeout_s=WELL_S)
    assert found is not None
    return found


# -- what it came to


def claims_of(outcome: Outcome, left: Sequence[str]) -> list[Claim]:
    counted = collections.Counter(record.id for record in outcome.records)
    lost, doubled = set(outcome.scheduled) - set(counted), [i for i, n in counted.items() if n > 1]
    wrong = [rule for name in outcome.rules for rule in outcome.rules[name] ^ outcome.fresh[name]]
    rules = sum(map(len, outcome.fresh.values()))
    gaps = unexcused(outcome.gaps, outcome.faults)
    longest_s = max((gap.length_s for gap in gaps), default=0.0)
    kinds = collections.Counter(fault.kind for fault in outcome.faults)
    return [
        Claim(
            "faults", "of each kind", ", ".join(f"{n} {kind}" for kind, n in kinds.items()), len(kinds) == 4
        ),
        Claim(
            "every flow has one record",
            "none lost, none doubled",
            f"{len(lost)} lost, {len(doubled)} doubled of {len(outcome.scheduled)}",
            not lost and not doubled,
        ),
        Claim(
            "rules afterwards",
            "those of a fresh controller",
            f"{len(wrong)} differ of {rules}",
            rules > 0 and not wrong,
        ),
        Claim(
            "traffic stands still by a fault of the control plane",
            f"for {GAP_S:g} s at most",
            f"{longest_s * 1000:.0f} ms at most",
            longest_s <= GAP_S,
        ),
        Claim("left behind", "nothing", ", ".join(left) or "nothing", not left),
    ]


def unexcused(gaps: Sequence[Gap], faults: Sequence[Fault]) -> list[Gap]:
    """Those that begin outside the time of a fault that stops packets by itself."""
    return [gap for gap in gaps if not any(_excuses(fault, gap) for fault in faults)]


def _excuses(fault: Fault, gap: Gap) -> bool:
    began_at = gap.ended_at - gap.length_s
    return (
        fault.stops_packets and gap.ended_at >= fault.at and began_at <= fault.at + fault.seconds + EXCUSED_S
    )


def _numbers(outcome: Outcome) -> dict[str, Any]:
    finished = sum(record.status == FINISHED for record in outcome.records)
    gaps = sorted(unexcused(outcome.gaps, outcome.faults), key=lambda gap: -gap.length_s)
    return {
        "faults": [[f.kind, f.target, round(f.seconds, 2), round(f.at, 2)] for f in outcome.faults],
        "flows": len(outcome.scheduled),
        "finished": finished,
        "longest_gaps": [_told(gap, outcome.faults) for gap in gaps[:20]],
        "longest_without_look_ms": outcome.blind_s * 1000,
    }


def _told(gap: Gap, faults: Sequence[Fault]) -> dict[str, Any]:
    """A gap, and the fault before it with the time from the one to the other."""
    began_at = gap.ended_at - gap.length_s
    before = [fault for fault in faults if fault.at <= gap.ended_at]
    told: dict[str, Any] = {"ms": round(gap.length_s * 1000)}
    if before:
        last = before[-1]
        told |= {"fault": f"{last.kind} {last.target}", "begins_s_after_it": round(began_at - last.at, 2)}
        told |= {"fault_lasts_s": round(last.seconds, 2)}
    return told


if __name__ == "__main__":
    sys.exit(main())
