# SPDX-License-Identifier: Apache-2.0
"""One host floods another with 1,500 full frames a second on a switch of 20 Mb/s, and ignores all marks and losses.

Small and large flows of honest hosts share the port. Each attack runs without and with what protects from it. The check
compares the flows' completion times with those without any flood under the same scheme.
"""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from experiments.checks.hostile import attacker
from experiments.kit import live
from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table, option, some_of
from sluice.commands.arguments import seconds
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.policy.wire.records import FINISHED, FlowRecord
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


@dataclass(frozen=True)
class Outcome:
    alone: Mapping[str, Figures]
    """By scheme, without a flood."""
    floods: Sequence[Figures]

    def ratios(self, each: Figures) -> tuple[float, float, float]:
        """Return mean and 99th percentile of small flows and the mean of large flows, relative to no flood."""
        alone = self.alone[each.phase.scheme]
        return (
            each.mean_ms / alone.mean_ms,
            each.p99_ms / alone.p99_ms,
            each.large_ms / alone.large_ms,
        )


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
        for start_s in live.poisson_starts_s(rng, SMALL_PER_S, phase.ends_s - phase.begins_s):
            source, size_kb = rng.choice(HONEST), rng.choice(SMALL_KB)
            flows.append(live.short_flow(str(source), SINK, size_kb, phase.begins_s + start_s))
        for start_s in np.arange(0.0, phase.ends_s - phase.begins_s, LARGE_EVERY_S):
            flows.append(live.short_flow(HONEST[0], SINK, LARGE_KB, phase.begins_s + float(start_s)))
    return {
        "name": "hostile",
        "seed": seed,
        "grace": "20s",
        "fabric": {"topology": "single", "hosts": 5, "host_rate": "20Mbit"},
        "scheme": live.scheme_table(phases[0].policy),
        "transport": {"rto_min": "10ms"},
        "workload": {"flow": sorted(flows, key=lambda flow: float(flow["start"][:-2]))},
    }


def measure(given: Given) -> Outcome:
    phases = phases_of(given["kinds"], given["phase"])
    document = scenario_of(given.seeds[0], phases)
    with live.running(document, np.random.default_rng(1), given.out / "run") as (stack, flows):
        start_at = stack.start_agents(flows)
        named_s = {phase: _run_phase(stack, phase, start_at) for phase in phases}
        live.wait_for_records(stack, len(flows), start_at + phases[-1].ends_s + 10)
        stack.stop_agents()
        records = list(flow_store.all_flows(stack.engine))
    measured = [replace(figures(phase, records, start_at), named_s=named_s[phase]) for phase in phases]
    alone = {each.phase.scheme: each for each in measured if each.phase.attack not in ATTACKS}
    return Outcome(alone, measured[len(alone) :])


def _run_phase(stack: Stack, phase: Phase, start_at: float) -> float | None:
    """Flood the sink until the phase has ended. Returns how long after the first frame the sender was demoted."""
    from_s = start_at + phase.begins_s - phase.lead_s
    # Every host is restored, and its offences are forgotten.
    stack.put_policy({**phase.policy, "tag_burst": 0})
    live.run_until(stack, from_s - SETTLE_S / 2)
    stack.put_policy(phase.policy)
    live.run_until(stack, from_s - SETTLE_S / 5)
    if phase.attack not in ATTACKS:
        live.run_until(stack, start_at + phase.ends_s)
        return None
    sender = start_attacker(stack, attack_of(phase.attack).frames, FRAMES_PER_S)
    first_frame_at = time.time()
    try:
        live.run_until(stack, start_at + phase.begins_s)
        rows = [row for row in all_sanctions(stack.engine) if row.host == ATTACKER]
        live.run_until(stack, start_at + phase.ends_s)
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
    times_of = ("small: mean", "small: p99", "1 MB: mean")
    headings = ("flood", "protection", "demoted after", "flows", *times_of, "ratios")
    rows = []
    for each in (*outcome.alone.values(), *outcome.floods):
        name = each.phase.attack if each.phase.attack in ATTACKS else f"none ({each.phase.scheme})"
        switch = "on" if each.phase.protected else "off"
        named = "–" if each.named_s is None else f"{each.named_s:.1f} s"
        times = (f"{ms:.1f} ms" for ms in (each.mean_ms, each.p99_ms, each.large_ms))
        ratios = ", ".join(f"{ratio:.2f}" for ratio in outcome.ratios(each))
        rows.append((name, switch, named, str(each.flows), *times, ratios))
    return markdown_table(headings, rows, " --- ")


def numbers(outcome: Outcome) -> list[dict[str, Any]]:
    columns = ("mean_ms", "p99_ms", "large_ms", "named_s")
    return [
        {**vars(each.phase), **{column: getattr(each, column) for column in columns}}
        for each in (*outcome.alone.values(), *outcome.floods)
    ]


EXPERIMENT = Experiment(
    claim="A host that ignores marks leaves small flows their completion times, and large flows their share.",
    minutes=8,
    runner=Script(measure),
    on=(TESTBED,),
    seeds=(1,),
    options=(
        some_of("--kinds", ATTACKS, "floods"),
        option("--phase", "seconds of each flood", type=seconds, default=10.0),
    ),
    quick={"kinds": ["background", "no-ports", "frames"], "phase": 6.0},
    claims=claims,
    numbers=numbers,
    table=table,
)
