# SPDX-License-Identifier: Apache-2.0
"""A tour: several schemes one after the other in one network, with the same offered flows for each.

Every stage puts its scheme in force, waits until switches and hosts follow it, offers the schedule of the scenario's
seed, and lets its flows end. So all flows of a stage live wholly under its version of the policy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sluice.policy.figures.scoreboard import SETTLE_S
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.fitting import Surroundings, fitted, path_of
from sluice.policy.wire.agents import HostHeartbeat, PortHeartbeat
from sluice.policy.workload.scenario import Scenario, scheduled_flows, traffic_of
from sluice.report.page import write_report
from sluice.runs.demo_traffic import show
from sluice.runs.live.stack import NETWORK, SimulatedStack
from sluice.runs.scores import bundle_scoreboard
from sluice.runs.stack import READY_TIMEOUT_S, Stack
from sluice.runs.versions import VersionOf, by_run, replaced_by_others
from sluice.runtime.wait import wait_until
from sluice.scoreboard_view import print_scoreboard, write_picture
from sluice.store import desired, observed
from sluice.store.desired import PolicyVersion
from sluice.terminal import console

SCHEMES = ("tcp", "dctcp", "pias", "mlfq-adaptive", "sluice")
BASE = "dctcp"
"""The scheme with which the table compares the others."""
STAGE_S = 40.0
AUTHOR = "tour"
"""Who puts the tour's versions of the policy in force."""
SLOWEST = 6.0
"""A simulated stage ends at the latest after so many times its length."""


@dataclass(frozen=True)
class Stage:
    """One scheme of a tour."""

    version: int
    run_id: str
    """The first part of the ids of its flows."""


def tour_policies(scenario: Scenario, topology: Topology, schemes: Sequence[str] = SCHEMES) -> list[Policy]:
    """Return the policy of each stage: fair in the scenario's network and for its traffic.

    The scenario's own scheme keeps the scenario's values, but adaptive thresholds begin at the scheme's: a scenario
    may begin far away from good ones to show the adaptation.
    """
    around = Surroundings(
        path_of(topology), (scenario.policy,), traffic_of(scenario.workload), fits_thresholds=True
    )
    return [fitted(_document(scenario.policy, scheme), around).policy for scheme in schemes]


def _document(own: Policy, scheme: str) -> dict[str, Any]:
    if scheme != own.scheme:
        return {"scheme": scheme}
    document = own.to_document()
    if own.definition.threshold_rule.adapts:
        del document["thresholds"]
    return document


def by_stage(stages: Sequence[Stage], versions: Sequence[PolicyVersion]) -> VersionOf:
    """Each flow lived under the version of its stage, unless someone else changed the policy before it ended."""
    own = {stage.run_id: stage.version for stage in stages}
    return by_run(own, replaced_by_others(versions, AUTHOR))


def run_tour(stack: Stack, policies: Sequence[Policy], stage_s: float) -> Iterator[Stage]:
    """Run the stages, and yield each one when its flows have ended."""
    for number, policy in enumerate(policies, start=1):
        title = policy.definition.title
        console.print(f"[bold]{number} of {len(policies)}: {title}[/], {stage_s:.0f} s of traffic")
        run_id = f"{stack.scenario.name}-{int(time.time())}-{number}"
        if isinstance(stack, SimulatedStack):
            yield _simulated_stage(stack, policy, run_id, stage_s)
        else:
            yield _testbed_stage(stack, policy, run_id, stage_s)


def finish_tour(bundle: Path) -> None:
    """Print the table and the plot of a tour, and write them and a report into its bundle."""
    board = bundle_scoreboard(bundle, BASE)
    (bundle / "scoreboard.json").write_text(json.dumps(board, indent=2) + "\n")
    write_picture(board, bundle / "scoreboard.png")
    print_scoreboard(board)
    if board["versions"]:
        report = bundle / "report.html"
        write_report([bundle], report, baseline=str(board["against"]) if len(board["versions"]) > 1 else None)
        console.print(f"report: {report}")


# ── Testbed ─────────────────────────────────────────────────────────────────────────────────────


def _testbed_stage(stack: Stack, policy: Policy, run_id: str, stage_s: float) -> Stage:
    stack.scenario = scenario = replace(stack.scenario, policy=policy)
    version = _put_in_force(stack, policy)
    rng = np.random.default_rng(scenario.seed)
    flows = scheduled_flows(scenario, stack.topology, rng, run_id, until_s=stage_s)
    before = stack.recorded()
    lead_s = stack.start_agents(flows) - time.time()
    end = time.monotonic() + lead_s + stage_s + scenario.grace_s
    show(stack, end, lambda: stack.recorded() - before >= len(flows))
    stack.stop_agents()
    return Stage(version, run_id)


def _put_in_force(stack: Stack, policy: Policy) -> int:
    """Return the version once all switches and ports have followed it for SETTLE_S."""
    version = desired.put_policy(stack.engine, policy, AUTHOR)
    stack.wait_applied(version)
    _wait(stack, lambda: _ports_follow(stack, version), f"the ports follow policy version {version}")
    settled = time.monotonic() + SETTLE_S
    _wait(stack, lambda: time.monotonic() >= settled, "the hosts follow")
    return version


def _ports_follow(stack: Stack, version: int) -> bool:
    beats = [agent.heartbeat for agent in observed.all_agents(stack.engine)]
    ports = [beat for beat in beats if isinstance(beat, PortHeartbeat)]
    return bool(ports) and all(beat.policy_version >= version for beat in ports)


def _wait(stack: Stack, ready: Callable[[], bool], what: str) -> None:
    def checked() -> bool:
        stack.check()
        return ready()

    wait_until(checked, what, timeout_s=READY_TIMEOUT_S)


# ── Simulator ───────────────────────────────────────────────────────────────────────────────────


def _simulated_stage(stack: SimulatedStack, policy: Policy, run_id: str, stage_s: float) -> Stage:
    """Run a stage in a network of its own, so that every stage begins with empty queues at the same flow."""
    stack.services.stop(NETWORK)
    stack.document = {**stack.document, "scheme": scheme_table(policy)}
    stack.run_id, stack.hold_s = run_id, stage_s
    version = desired.put_policy(stack.engine, policy, AUTHOR)
    stack.start_network()
    stack.wait_applied(version)
    settled = time.monotonic() + SETTLE_S
    _wait(stack, lambda: time.monotonic() >= settled, "the network settles")
    began_s = stack.heartbeat().simulated_s
    stack.begin_traffic()
    end = time.monotonic() + SLOWEST * stage_s + stack.scenario.grace_s
    show(stack, end, lambda: _has_ended(stack, began_s + stage_s + SETTLE_S))
    stack.stop_agents()
    return Stage(version, run_id)


def scheme_table(policy: Policy) -> dict[str, Any]:
    """Return a policy as the [scheme] table of a scenario."""
    document = policy.to_document()
    return {"name": document.pop("scheme"), **document}


def _has_ended(stack: SimulatedStack, simulated_s: float) -> bool:
    """Return whether the simulation is past this time and no flow is active."""
    if stack.heartbeat().simulated_s < simulated_s:
        return False
    beats = [agent.heartbeat for agent in observed.all_agents(stack.engine)]
    return not any(beat.flows_active for beat in beats if isinstance(beat, HostHeartbeat))
