# SPDX-License-Identifier: Apache-2.0
"""One host floods another with 1,500 full frames a second on a switch of 20 Mb/s, and ignores all marks and losses.

Small and large flows of honest hosts share the port. Each attack runs without and with what protects from it. The check
compares the flows' completion times with those without any flood under the same scheme.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from experiments.checks.hostile import attacker
from experiments.kit.experiment import Claim, Experiment, Given, Script, option
from experiments.kit.live import poisson_starts_s, run_until, short_flow, wait_for_records
from sluice.commands.arguments import seconds
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.policy.wire.records import FINISHED, FlowRecord
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.fabrics import need_root
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.runtime.process import stop
from sluice.store import flows as flow_store
from sluice.store.observed import all_sanctions

_THRESHOLDS = {"thresholds": ["50KB", "100KB", "300KB"], "mark_at": "20pkt"}
PIAS = {"scheme": "pias", "queues": 4, **_THRESHOLDS}
AEMON = {"scheme": "aemon", "queues": 8, **_THRESHOLDS}
SLUICE = {"scheme": "sluice", "queues": 4, **_THRESHOLDS}


@dataclass(frozen=True)
class Attack:
    """A flood, and the policy that it meets."""

    frames: str
    """Kind of attacker.py; empty: no flood."""
    policy: Mapping[str, Any]
    protection: Mapping[str, Any] = field(default_factory=dict)
    """Settings with what protects from the flood …"""
    without: Mapping[str, Any] = field(default_factory=dict)
    """… and without it."""
    waits_for_name: bool = False
    """The flows begin when the controller has had the time to demote the sender."""


_ORDER: Any = {"protection": {"urgent_first": True}, "without": {"urgent_first": False}}
_CHECKED: Any = {"without": {"tag_burst": 0}, "waits_for_name": True}
ATTACKS: Mapping[str, Attack] = {
    **{kind: Attack(kind, PIAS, **_ORDER) for kind in (*attacker.FLOODS, *attacker.FRAMES)},
    "urgent-aemon": Attack("urgent", AEMON, **_CHECKED),
    "urgent-sluice": Attack("urgent", SLUICE, **_CHECKED),
    "after-demotion": Attack("first-tag", PIAS, without={"demoted_share": 1}, waits_for_name=True),
    "last-tag-sluice": Attack("last-tag", SLUICE, without={"urgent_first": False}),
    "background-sluice": Attack("background", SLUICE, without={"urgent_first": False}),
}
"""By name. A kind of attacker.py meets PIAS, and the order of drops protects from it."""
_SCHEMES = {str(policy["scheme"]): policy for policy in (PIAS, AEMON, SLUICE)}


def attack_of(name: str) -> Attack:
    """Return an attack by its name, or the policy of a scheme without a flood."""
    return ATTACKS[name] if name in ATTACKS else Attack("", _SCHEMES[name])


SINK, ATTACKER = "h1", "h5"
HONEST = ("h2", "h3", "h4")
FRAMES_PER_S = 1500
SMALL_PER_S, SMALL_KB = 20, (5, 10, 20, 40)
LARGE_EVERY_S, LARGE_KB = 1.0, 1000
LEAD_S, SETTLE_S = 2.0, 2.5
"""Seconds before the first phase, and from a change of policy to the flood."""
MEAN_RATIO, P99_RATIO, LARGE_RATIO = 1.2, 1.5, 1.2
RECOVER_S = 6.0
"""After a flood without protection, so that the flows which it held up do not count against the next one."""
NAMED_WITHIN_S = 12.0
"""From the first frame until the controller must have demoted the sender, where the flows wait for that."""


@dataclass(frozen=True)
class Phase:
    """Some seconds with one kind of flood. Times are seconds since traffic began."""

    attack: str
    """Name of the attack, or of a scheme without a flood."""
    protected: bool
    begins_s: float
    ends_s: float
    lead_s: float = 0.0
    """So long before the flows, the flood begins."""

    @property
    def scheme(self) -> str:
        return str(attack_of(self.attack).policy["scheme"])

    @property
    def policy(self) -> Mapping[str, Any]:
        attack = attack_of(self.attack)
        return {**attack.policy, **(attack.protection if self.protected else attack.without)}


@dataclass(frozen=True)
class Figures:
    """What honest flows had in one phase. A flow that did not finish counts as infinitely long."""

    phase: Phase
    flows: int
    mean_ms: float
    p99_ms: float
    large_ms: float
    named_s: float | None = None
    """Seconds from the first frame to the sender's demotion; None if it was not demoted before the flows began."""

    def ratios(self, alone: Figures) -> tuple[float, float, float]:
        """Return mean and 99th percentile of small flows and the mean of large flows, relative to no flood."""
        return (
            self.mean_ms / alone.mean_ms,
            self.p99_ms / alone.p99_ms,
            self.large_ms / alone.large_ms,
        )


@dataclass(frozen=True)
class Outcome:
    alone: Mapping[str, Figures]
    """By scheme, without a flood."""
    floods: Sequence[Figures]

    def ratios(self, each: Figures) -> tuple[float, float, float]:
        """Return the figures of one flood, relative to those without a flood."""
        return each.ratios(self.alone[each.phase.scheme])


# -- the run


def phases_of(kinds: Sequence[str], phase_s: float) -> list[Phase]:
    """Return the phases in order: each scheme without a flood, then each attack without and with protection."""
    schemes = dict.fromkeys(str(ATTACKS[kind].policy["scheme"]) for kind in kinds)
    phases, at_s = [], LEAD_S
    for name, protected in (*product(schemes, (True,)), *product(kinds, (False, True))):
        lead_s = NAMED_WITHIN_S if attack_of(name).waits_for_name else 0.0
        begins_s = at_s + SETTLE_S + lead_s
        phases.append(Phase(name, protected, begins_s, begins_s + phase_s, lead_s))
        at_s = begins_s + phase_s + (0.0 if protected else RECOVER_S)
    return phases


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
        "scheme": {"name" if key == "scheme" else key: value for key, value in phases[0].policy.items()},
        "transport": {"rto_min": "10ms"},
        "workload": {"flow": sorted(flows, key=lambda flow: float(flow["start"][:-2]))},
    }


def measure(given: Given) -> Outcome:
    need_root()
    phases = phases_of(given["kinds"], given["phase"])
    scenario, _, topology = scenario_with(scenario_of(given.seeds[0], phases))
    flows = scheduled_flows(scenario, topology, np.random.default_rng(1), f"hostile-{int(time.time())}")
    shutil.rmtree(given.out / "run", ignore_errors=True)
    with Stack.start(scenario, topology, given.out / "run") as stack:
        start_at = stack.start_agents(flows)
        named_s = {phase: _run_phase(stack, phase, start_at) for phase in phases}
        wait_for_records(stack, len(flows), start_at + phases[-1].ends_s + 10)
        stack.stop_agents()
        records = list(flow_store.all_flows(stack.engine))
    measured = [replace(figures(phase, records, start_at), named_s=named_s[phase]) for phase in phases]
    alone = {each.phase.scheme: each for each in measured if each.phase.attack not in ATTACKS}
    return Outcome(alone, measured[len(alone) :])


def _run_phase(stack: Stack, phase: Phase, start_at: float) -> float | None:
    """Flood the sink until the phase has ended. Returns how long after the first frame the sender was demoted."""
    from_s = start_at + phase.begins_s - phase.lead_s
    stack.put_policy(
        {**phase.policy, "tag_burst": 0}
    )  # every host is restored, and its offences are forgotten
    run_until(stack, from_s - SETTLE_S / 2)
    stack.put_policy(phase.policy)
    run_until(stack, from_s - SETTLE_S / 5)
    if phase.attack not in ATTACKS:
        run_until(stack, start_at + phase.ends_s)
        return None
    sender = start_attacker(stack, attack_of(phase.attack).frames, FRAMES_PER_S)
    first_frame_at = time.time()
    try:
        run_until(stack, start_at + phase.begins_s)
        rows = [row for row in all_sanctions(stack.engine) if row.host == ATTACKER]
        run_until(stack, start_at + phase.ends_s)
        if sender.poll() is not None:
            raise SluiceError(
                f"the flood {phase.attack} ended by itself: the figures would be those of no flood"
            )
    finally:
        stop(sender)
    return rows[0].since - first_frame_at if rows else None


def start_attacker(stack: Stack, kind: str, per_s: float) -> subprocess.Popen[bytes]:
    """Start attacker.py of that kind, from the attacker to the sink."""
    ends = [stack.topology.host_by_name[name] for name in (ATTACKER, SINK)]
    places = [f"{host.mac},{host.ipv4}" for host in ends]
    argv = [sys.executable, attacker.__file__, kind, f"{ATTACKER}-eth0", *places, str(per_s)]
    return stack.testbed.spawn(ATTACKER, argv)


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
    protected = []
    for each in outcome.floods:
        mean, p99, large = outcome.ratios(each)
        holds = mean <= MEAN_RATIO and p99 <= P99_RATIO and large <= LARGE_RATIO
        if attack_of(each.phase.attack).waits_for_name:
            holds = holds and each.named_s is not None
        if each.phase.protected:
            measured = f"{mean:.2f}, {p99:.2f}, {large:.2f}"
            protected.append(Claim(f"flood: {each.phase.attack}", goal, measured, holds))
    return protected


def table(outcome: Outcome) -> str:
    """Return all phases as Markdown."""
    lines = [
        "| flood | protection | demoted after | flows | small: mean | small: p99 | 1 MB: mean | ratios |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in (*outcome.alone.values(), *outcome.floods):
        ratios = ", ".join(f"{ratio:.2f}" for ratio in outcome.ratios(each))
        switch = "on" if each.phase.protected else "off"
        named = "–" if each.named_s is None else f"{each.named_s:.1f} s"
        times = " | ".join(f"{ms:.1f} ms" for ms in (each.mean_ms, each.p99_ms, each.large_ms))
        name = each.phase.attack if each.phase.attack in ATTACKS else f"none ({each.phase.scheme})"
        lines.append(f"| {name} | {switch} | {named} | {each.flows} | {times} | {ratios} |")
    return "\n".join(lines)


def numbers(outcome: Outcome) -> list[dict[str, Any]]:
    return [
        {
            **vars(each.phase),
            "mean_ms": each.mean_ms,
            "p99_ms": each.p99_ms,
            "large_ms": each.large_ms,
            "named_s": each.named_s,
        }
        for each in (*outcome.alone.values(), *outcome.floods)
    ]


KINDS = list(ATTACKS)
EXPERIMENT = Experiment(
    name="hostile",
    claim="A host that ignores marks leaves small flows their completion times, and large flows their share.",
    figure="",
    minutes=8,
    about=__doc__,
    runner=Script(measure),
    on=(TESTBED,),
    seeds=(1,),
    options=(
        option("--kinds", nargs="+", choices=KINDS, default=KINDS, help="floods (default: all)"),
        option("--phase", type=seconds, default=10.0, help="seconds of each flood (default: %(default)s)"),
    ),
    quick={"kinds": ["background", "no-ports", "frames"], "phase": 6.0},
    claims=claims,
    numbers=numbers,
    table=table,
)
