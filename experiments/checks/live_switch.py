# SPDX-License-Identifier: Apache-2.0
"""Applies every scheme, one after the other, by PUT /api/v1/policy while flows run.

It checks that no flow fails, that no port with packets stops sending, and how soon every component
has applied a policy.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from experiments.checks import scheme_tour
from experiments.kit import live
from experiments.kit.experiment import Claim, Experiment, Given, Script, option
from sluice.commands.arguments import at_least_one, seconds
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.policy.wire.records import FINISHED, FlowRecord
from sluice.runs.files import read_document, scenario_with
from sluice.runs.stack import Stack
from sluice.runs.testbed_run import complete
from sluice.runs.validity import RunWatch, loss_reasons
from sluice.store import desired, observed
from sluice.store import flows as flow_store
from sluice.sweep.points import points
from sluice.terminal import console

FLOWS_PER_S = 8
SIZES_KB = (10, 50, 200)


def policies_of(schemes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return a policy document for each scheme, with the settings of scheme_tour."""
    return {
        point.scheme: scenario_with(point.document)[0].policy.to_document()
        for point in points(read_document(scheme_tour.SCENARIO), schemes=schemes)
    }


def scenario_of(seed: int, ends_s: float, policy: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return a scenario of two endless flows to h1 and short flows of all kinds."""
    endless = [{"from": host, "to": "h1", "until": live.microseconds(ends_s)} for host in ("h2", "h3")]
    short = []
    for start_s in live.poisson_starts_s(rng, FLOWS_PER_S, ends_s):
        flow = live.short_flow(f"h{rng.integers(2, 5)}", "h1", rng.choice(SIZES_KB), start_s)
        kind = rng.random()  # of ten flows, three have a deadline and three a known size
        if kind < 0.3:
            flow["deadline"] = f"{int(rng.integers(200, 1000))}ms"
        elif kind < 0.6:
            flow["size_known"] = True
        short.append(flow)
    return {
        "name": "live-switch",
        "seed": seed,
        "grace": "30s",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "50Mbit", "buffer": "200KB"},
        "scheme": {key: value for key, value in live.scheme_table(policy).items() if value not in (None, [])},
        "transport": {"rto_min": "40ms"},
        "workload": {"flow": [*endless, *short]},
    }


BUSY_PORT = "s1-eth1"
"""The port to h1. Two endless flows keep packets waiting there at all times."""
LEAD_S = 2.0
"""Seconds under the first scheme, before the first change."""
TAKES_S = 5.0
"""Every component must apply a policy within this time. Agents ask for it once a second."""
GAP_S = 0.25
"""The longest accepted gap of service: a retransmission timeout of 40 ms, doubled twice."""


@dataclass
class Switch:
    """One change of policy. Times are seconds since its PUT."""

    scheme: str
    version: int
    at_s: float
    """Seconds since traffic began."""
    switches_s: float | None = None
    ports_s: float | None = None
    hosts_s: float | None = None

    @property
    def stands(self) -> bool:
        return None not in (self.switches_s, self.ports_s, self.hosts_s)

    @property
    def took_s(self) -> float:
        """Seconds until every component has applied it; infinite if that never happens."""
        times = (self.switches_s, self.ports_s, self.hosts_s)
        return max(float("inf") if value is None else value for value in times)


@dataclass
class Outcome:
    """What one seed's run showed."""

    switches: list[Switch] = field(default_factory=list)
    records: list[FlowRecord] = field(default_factory=list)
    longest_gap_s: float = 0.0
    blind_s: float = 0.0
    """The longest time between two readings of the port."""
    gaps: list[dict[str, float]] = field(default_factory=list)
    """The longer gaps: when they ended, in seconds since traffic began."""
    reasons: list[str] = field(default_factory=list)
    """Why the run is not valid."""
    losses: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcomes:
    """What the runs of all seeds showed."""

    schemes: Sequence[str]
    by_seed: Mapping[int, Outcome]


# -- the runs


def measure(given: Given) -> Outcomes:
    return Outcomes(given["schemes"], {seed: run_seed(given, seed) for seed in given.seeds})


def run_seed(given: Given, seed: int) -> Outcome:
    """Apply all schemes in an order that the seed draws."""
    rng = np.random.default_rng(seed)
    order = [str(scheme) for _ in range(given["rounds"]) for scheme in rng.permutation(given["schemes"])]
    policies = policies_of(given["schemes"])
    ends_s = LEAD_S + given["every"] * len(order)
    document = scenario_of(seed, ends_s, policies[order[-1]], rng)
    out, outcome = given.out / f"seed-{seed:02d}", Outcome()
    with live.running(document, np.random.default_rng(seed), out / "run") as (stack, flows):
        finite = [flow for flow in flows if flow.until_s is None]
        start_at = stack.start_agents(flows)
        losses = stack.testbed.losses()
        with RunWatch(stack.testbed) as watch:
            live.run_until(stack, start_at + LEAD_S / 2)
            _switch_through(stack, [(s, policies[s]) for s in order], given["every"], start_at, outcome)
            live.wait_for_records(stack, len(finite), start_at + ends_s + stack.scenario.grace_s)
        outcome.reasons += watch.reasons()
        if outcome.blind_s >= GAP_S:  # the run cannot show short gaps
            blind = f"the machine was busy: no reading of the port for {outcome.blind_s:.2f} s"
            outcome.reasons.append(blind)
        outcome.losses = loss_reasons([(losses, stack.testbed.losses())])
        stack.stop_agents()
        records = flow_store.all_flows(stack.engine)
        outcome.records = complete(records, finite, stack.scenario, start_at)
    (out / "switches.json").write_text(json.dumps([asdict(s) for s in outcome.switches], indent=1) + "\n")
    return outcome


def _switch_through(
    stack: Stack,
    policies: Sequence[tuple[str, dict[str, Any]]],
    every_s: float,
    start_at: float,
    outcome: Outcome,
) -> None:
    """Make one PUT after the other. Record when each is applied, and the gaps at the busy port."""
    pid = stack.testbed.pids["ovs-vswitchd"]
    look: partial[None] = partial(_look, stack, outcome.switches, start_at)
    with live.PortGaps(pid, BUSY_PORT) as port:
        for number, (scheme, policy) in enumerate(policies):
            live.run_until(stack, start_at + LEAD_S + every_s * number, look)
            at_s = time.time() - start_at
            answer = stack.put_policy(policy)
            if not answer.ok:
                raise SluiceError(f"scheme {scheme} was refused: {answer.body.decode(errors='replace')}")
            outcome.switches.append(Switch(scheme, answer.json()["version"], at_s))
            console.print(f"{at_s:6.1f} s  {scheme}")
        live.run_until(stack, start_at + LEAD_S + every_s * len(policies), look)
    outcome.longest_gap_s, outcome.blind_s = port.longest_gap_s, port.longest_without_s
    outcome.gaps = [{"at_s": g.ended_at - start_at, "ms": g.length_s * 1000} for g in port.gaps]


def _look(stack: Stack, switches: Sequence[Switch], start_at: float) -> None:
    """Record which components have applied the last policy by now."""
    if not switches or switches[-1].stands:
        return
    switch = switches[-1]
    elapsed_s = time.time() - start_at - switch.at_s
    newest = desired.current_policy(stack.engine)
    if switch.switches_s is None and newest and newest.version >= switch.version and newest.applied_at:
        switch.switches_s = elapsed_s
    ports = stack.testbed.port_agent_state()
    if switch.ports_s is None and ports.policy_version >= switch.version and ports.shares_stand:
        switch.ports_s = elapsed_s
    hosts = observed.host_heartbeats(stack.engine).values()
    if switch.hosts_s is None and all(beat.policy_version >= switch.version for beat in hosts):
        switch.hosts_s = elapsed_s


# -- the verdict


def claims(outcomes: Outcomes) -> list[Claim]:
    each = list(outcomes.by_seed.values())
    switches = [switch for outcome in each for switch in outcome.switches]
    reasons = "; ".join(reason for outcome in each for reason in outcome.reasons)
    losses = "; ".join(loss for outcome in each for loss in outcome.losses)
    slowest_s = max((switch.took_s for switch in switches), default=0.0)
    gap_s = max(outcome.longest_gap_s for outcome in each)
    all_schemes = {switch.scheme for switch in switches} == set(outcomes.schemes)
    records = [record for outcome in each for record in outcome.records]
    failed = sum(record.status != FINISHED for record in records)
    return [
        Claim("schemes switched to", str(len(outcomes.schemes)), f"{len(switches)} switches", all_schemes),
        Claim("failed flows", "0", f"{failed} of {len(records)}", failed == 0),
        Claim(
            "switches, ports and hosts have applied a policy",
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
        Claim("packets lost outside the emulated queues", "0", losses or "0", not losses),
        Claim("runs that are valid", "all", reasons or "all", not reasons),
    ]


def numbers(outcomes: Outcomes) -> dict[int, Any]:
    return {
        seed: {
            "switches": [asdict(switch) for switch in outcome.switches],
            "flows": len(outcome.records),
            "failed": [record.reason for record in outcome.records if record.status != FINISHED],
            "retransmissions": sum(record.retransmissions or 0 for record in outcome.records),
            "longest_gap_ms": outcome.longest_gap_s * 1000,
            "longest_without_look_ms": outcome.blind_s * 1000,
            "gaps": outcome.gaps,
            "valid": not outcome.reasons,
        }
        for seed, outcome in outcomes.by_seed.items()
    }


QUICK = {"seeds": (1,), "schemes": ["pias", "fish", "dctcp", "sluice", "karuna", "tcp"]}
EXPERIMENT = Experiment(
    claim="The scheme changes while flows run: no flow fails, and no port with packets stops sending.",
    minutes=5,
    runner=Script(measure),
    on=(TESTBED,),
    seeds=(1, 2, 3),
    options=(
        option("--every", "seconds between two changes", type=seconds, default=5.0),
        option("--rounds", "rounds through all schemes", type=at_least_one, default=1),
        scheme_tour.SCHEMES,
    ),
    quick=QUICK,
    claims=claims,
    numbers=numbers,
)
