# SPDX-License-Identifier: Apache-2.0
"""Every scheme after the other by PUT /api/v1/policy while flows run: does one fail, does the port ever stand still?

python -m experiments live_switch [--out DIR] [--seeds 1 2 3] [--every 5] [--rounds 1] [--schemes …]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kit.attempts import schemes_of_testbed
from experiments.kit.port_gaps import PortGaps
from experiments.kit.verdict import Claim, conclude
from policy.records import FINISHED, FlowRecord
from policy.scenario import scheduled_flows
from policy.workload import Flow
from sluice.runs.fabrics import need_root
from sluice.runs.files import read_document, scenario_with
from sluice.runs.stack import Stack
from sluice.runs.testbed_run import complete, loss_reasons
from sluice.runs.validity import RunWatch
from sluice.sweep.points import points
from sluice.terminal import console, end_in_order
from store import desired, observed
from store import flows as flow_store
from topologies import build_topology

TOUR = Path(__file__).parents[1] / "scheme_tour" / "tour.toml"
BUSY_PORT = "s1-eth1"
"""To h1: two endless flows see to it that something always waits there."""
FLOWS_PER_S = 8
SIZES_KB = (10, 50, 200)
LEAD_S = 2.0
"""Under the first scheme, before the first switch."""
LOOK_S = 0.05
TAKES_S = 5.0
"""A policy has to stand everywhere within this time: agents ask once a second."""
GAP_S = 0.25
"""What passes for service without a gap: a retransmission timeout of 40 ms, doubled twice."""


@dataclass
class Switch:
    """One change of policy; seconds from the PUT on."""

    scheme: str
    version: int
    at_s: float
    """Since traffic began."""
    switches_s: float | None = None
    ports_s: float | None = None
    hosts_s: float | None = None

    @property
    def stands(self) -> bool:
        return None not in (self.switches_s, self.ports_s, self.hosts_s)


@dataclass
class Outcome:
    """Of one seed."""

    switches: list[Switch] = field(default_factory=list)
    records: list[FlowRecord] = field(default_factory=list)
    longest_gap_s: float = 0.0
    blind_s: float = 0.0
    """The longest time between two looks at the port."""
    gaps: list[dict[str, float]] = field(default_factory=list)
    """The longer ones: when they ended, since traffic began."""
    reasons: list[str] = field(default_factory=list)
    """What makes the run not valid."""
    losses: list[str] = field(default_factory=list)


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    end_in_order()
    need_root()
    outcomes = {seed: run_seed(arguments, seed) for seed in arguments.seeds}
    return conclude(
        arguments.out,
        "live_switch",
        claims_of(list(outcomes.values()), arguments.schemes),
        {seed: _numbers(outcome) for seed, outcome in outcomes.items()},
    )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", type=Path, default=Path("results/live_switch"))
    made.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    made.add_argument("--every", type=float, default=5.0, help="seconds between two changes (%(default)s)")
    made.add_argument("--rounds", type=int, default=1, help="through all schemes (%(default)s)")
    made.add_argument(
        "--schemes", nargs="+", choices=schemes_of_testbed(), default=list(schemes_of_testbed())
    )
    return made


# -- one seed


def run_seed(arguments: argparse.Namespace, seed: int) -> Outcome:
    """Through all schemes in an order that the seed draws."""
    rng = np.random.default_rng(seed)
    order = [str(scheme) for _ in range(arguments.rounds) for scheme in rng.permutation(arguments.schemes)]
    policies = policies_of(arguments.schemes)
    ends_s = LEAD_S + arguments.every * len(order)
    scenario, _ = scenario_with(scenario_of(seed, ends_s, policies[order[-1]], rng))
    topology = build_topology(scenario)
    flows = scheduled_flows(
        scenario, topology, np.random.default_rng(seed), f"live-switch-{seed}-{int(time.time())}"
    )
    out = arguments.out / f"seed-{seed:02d}"
    shutil.rmtree(out, ignore_errors=True)
    with Stack.start(scenario, topology, out / "run") as stack:
        start_at = stack.start_agents(flows)
        losses = stack.testbed.losses()
        pid = stack.testbed.pids["ovs-vswitchd"]
        with RunWatch.of(stack.testbed) as watch:
            _look_until(stack, [], start_at, start_at + LEAD_S / 2)
            with PortGaps(pid, BUSY_PORT) as port:
                outcome = Outcome(_switch_through(stack, order, policies, arguments.every, start_at))
            outcome.longest_gap_s = port.looks.longest_gap_s
            outcome.blind_s = port.looks.longest_without_s
            outcome.gaps = [{"at_s": g.ended_at - start_at, "ms": g.length_s * 1000} for g in port.gaps]
            _wait_for_records(stack, flows, start_at, ends_s)
        outcome.reasons = [*watch.reasons(), *_blind(outcome.blind_s)]
        outcome.losses = loss_reasons(losses, stack.testbed.losses())
        stack.stop_agents()
        outcome.records = complete(flow_store.all_flows(stack.engine), _finite(flows), scenario, start_at)
    (out / "switches.json").write_text(json.dumps([asdict(s) for s in outcome.switches], indent=1) + "\n")
    return outcome


def _blind(blind_s: float) -> list[str]:
    """Why the run says nothing about short gaps, if it does not."""
    return (
        [f"nobody looked at the port for {blind_s:.2f} s: the machine stood still"]
        if blind_s >= GAP_S
        else []
    )


def policies_of(schemes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A policy document for each scheme, with the settings of scheme_tour."""
    found = points(read_document(TOUR), schemes=schemes)
    return {point.scheme: scenario_with(point.document)[0].policy.to_document() for point in found}


def scenario_of(seed: int, ends_s: float, policy: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Two endless flows to h1, and short ones of all kinds beside them."""
    endless = [{"from": host, "to": "h1", "until": f"{round(ends_s * 1e6)}us"} for host in ("h2", "h3")]
    starts_s = np.cumsum(rng.exponential(1 / FLOWS_PER_S, int(ends_s * FLOWS_PER_S)))
    short = [_short(rng, start_s) for start_s in starts_s if start_s < ends_s]
    scheme = {"name" if key == "scheme" else key: value for key, value in policy.items()}
    return {
        "name": "live-switch",
        "seed": seed,
        "grace": "30s",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "50Mbit", "buffer": "200KB"},
        "scheme": {key: value for key, value in scheme.items() if value not in (None, [])},
        "transport": {"rto_min": "40ms"},
        "workload": {"flow": [*endless, *short]},
    }


def _short(rng: np.random.Generator, start_s: float) -> dict[str, Any]:
    flow: dict[str, Any] = {
        "from": f"h{rng.integers(2, 5)}",
        "to": "h1",
        "bytes": f"{rng.choice(SIZES_KB)}KB",
        "start": f"{round(start_s * 1e6)}us",
    }
    kind = rng.random()
    if kind < 0.3:
        flow["deadline"] = f"{int(rng.integers(200, 1000))}ms"
    elif kind < 0.6:
        flow["size_known"] = True
    return flow


def _switch_through(
    stack: Stack, order: Sequence[str], policies: dict[str, dict[str, Any]], every_s: float, start_at: float
) -> list[Switch]:
    """One PUT after the other; how soon each stands at switches, ports and hosts."""
    done: list[Switch] = []
    for number, scheme in enumerate(order):
        due = start_at + LEAD_S + every_s * number
        _look_until(stack, done, start_at, due)
        at_s = time.time() - start_at
        answer = stack.put_policy(policies[scheme])
        answer.raise_for_status()
        done.append(Switch(scheme, answer.json()["version"], at_s))
        console.print(f"{done[-1].at_s:6.1f} s  {scheme}")
    _look_until(stack, done, start_at, start_at + LEAD_S + every_s * len(order))
    return done


def _look_until(stack: Stack, switches: list[Switch], start_at: float, due: float) -> None:
    """Watch the last change until then."""
    while time.time() < due:
        stack.check()
        if switches and not switches[-1].stands:
            _look(stack, switches[-1], time.time() - start_at - switches[-1].at_s)
        time.sleep(max(0.0, min(LOOK_S, due - time.time())))


def _look(stack: Stack, switch: Switch, elapsed_s: float) -> None:
    newest = desired.current_policy(stack.engine)
    if switch.switches_s is None and newest and newest.version >= switch.version and newest.applied_at:
        switch.switches_s = elapsed_s
    ports = stack.testbed.port_agent_state()
    if switch.ports_s is None and ports["policy_version"] >= switch.version and ports["shares_stand"]:
        switch.ports_s = elapsed_s
    hosts = [agent for agent in observed.all_agents(stack.engine) if agent["kind"] == "host"]
    if switch.hosts_s is None and all(a["status"].get("policy_version", 0) >= switch.version for a in hosts):
        switch.hosts_s = elapsed_s


def _wait_for_records(stack: Stack, flows: Sequence[Flow], start_at: float, ends_s: float) -> None:
    wanted = len(_finite(flows))
    while time.time() < start_at + ends_s + stack.scenario.grace_s:
        stack.check()
        if flow_store.count_flows(stack.engine) >= wanted:
            return
        time.sleep(LOOK_S)


def _finite(flows: Sequence[Flow]) -> list[Flow]:
    return [flow for flow in flows if flow.until_s is None]


# -- what it came to


def claims_of(outcomes: Sequence[Outcome], schemes: Sequence[str]) -> list[Claim]:
    flows = [record for outcome in outcomes for record in outcome.records]
    failed = sum(record.status != FINISHED for record in flows)
    switches = [switch for outcome in outcomes for switch in outcome.switches]
    slowest_s = max((_slowest_s(switch) for switch in switches), default=0.0)
    gap_s = max(outcome.longest_gap_s for outcome in outcomes)
    reasons = [reason for outcome in outcomes for reason in outcome.reasons]
    losses = [loss for outcome in outcomes for loss in outcome.losses]
    each = len({switch.scheme for switch in switches}) == len(schemes)
    return [
        Claim("schemes switched to", str(len(schemes)), f"{len(switches)} switches", each),
        Claim("failed flows", "0", f"{failed} of {len(flows)}", failed == 0),
        Claim(
            "a policy stands at switches, ports and hosts",
            f"within {TAKES_S:g} s",
            f"{slowest_s:.1f} s at most",
            slowest_s <= TAKES_S,
        ),
        Claim(
            "longest gap of service of the busy port",
            f"below {GAP_S * 1000:g} ms",
            f"{gap_s * 1000:.0f} ms",
            gap_s < GAP_S,
        ),
        Claim("packets lost outside the emulated queues", "0", "; ".join(losses) or "0", not losses),
        Claim("runs that are valid", "all", "; ".join(reasons) or "all", not reasons),
    ]


def _slowest_s(switch: Switch) -> float:
    times = (switch.switches_s, switch.ports_s, switch.hosts_s)
    return max(float("inf") if value is None else value for value in times)


def _numbers(outcome: Outcome) -> dict[str, Any]:
    return {
        "switches": [asdict(switch) for switch in outcome.switches],
        "flows": len(outcome.records),
        "failed": [record.reason for record in outcome.records if record.status != FINISHED],
        "retransmissions": sum(record.retransmissions or 0 for record in outcome.records),
        "longest_gap_ms": outcome.longest_gap_s * 1000,
        "longest_without_look_ms": outcome.blind_s * 1000,
        "gaps": outcome.gaps,
        "valid": not outcome.reasons,
    }


if __name__ == "__main__":
    sys.exit(main())
