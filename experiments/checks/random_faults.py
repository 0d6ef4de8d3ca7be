# SPDX-License-Identifier: Apache-2.0
"""Traffic under random faults: processes killed, stopped or cut off, and links unplugged.

It checks three things afterwards. Every flow has exactly one record. The rules are those that a
fresh controller installs on empty switches. No fault of the control plane stopped traffic.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.kit import live
from experiments.kit.experiment import Claim, Experiment, Given, Script, option
from sluice.commands.arguments import seconds, seed
from sluice.policy.fabrics import TESTBED
from sluice.policy.wire.records import FINISHED, FlowRecord, ScheduledFlow
from sluice.runs.files import need_root
from sluice.runs.stack import Stack
from sluice.runtime.wait import wait_until
from sluice.store import flows as flow_store
from sluice.terminal import console
from sluice.topologies import processes

Undo = Callable[[], object]

NOWHERE = "tcp:127.0.0.1:1"
"""An address without a controller."""
KINDS = {"kill": 0.35, "stop": 0.35, "disconnect": 0.2, "link": 0.1}
"""The probability of each kind."""
SECONDS = {"kill": (0.0, 0.0), "stop": (0.2, 5.0), "disconnect": (0.2, 5.0), "link": (0.2, 1.0)}
"""The shortest and longest duration of each kind."""
PACKETS_NEED = (("kill", "ovs-vswitchd"), ("stop", "ovs-vswitchd"), ("kill", "ovsdb-server"))
"""Faults that stop packets. Without ovs-vswitchd no packet moves. Its main thread polls the ports
of a userspace datapath, and waits while its database is away. Stopping the database does not break
the connection."""


@dataclass(frozen=True)
class Fault:
    """A fault that was drawn. Times are epoch seconds."""

    kind: str
    target: str
    """The name of a process, a switch or an interface."""
    seconds: float
    at: float

    @property
    def stops_packets(self) -> bool:
        """Whether the fault itself stops packets, independently of the control plane."""
        return self.kind == "link" or (self.kind, self.target) in PACKETS_NEED

    def excuses(self, gap: live.Gap) -> bool:
        """Whether the fault itself stops packets, and the gap is in its time."""
        began_at, excused_until = gap.ended_at - gap.length_s, self.at + self.seconds + EXCUSED_S
        return self.stops_packets and gap.ended_at >= self.at and began_at <= excused_until


def draw(stack: Stack, rng: np.random.Generator) -> Fault:
    kind = str(rng.choice(list(KINDS), p=list(KINDS.values())))
    targets = {
        "kill": process_names(stack),
        "stop": process_names(stack),
        "disconnect": [switch.name for switch in stack.topology.switches],
        "link": [port.interface for port in stack.topology.ports],
    }
    return Fault(kind, str(rng.choice(targets[kind])), float(rng.uniform(*SECONDS[kind])), time.time())


def process_names(stack: Stack) -> list[str]:
    return [*(service.name for service in stack.services.running), *sorted(stack.testbed.pids)]


def inject(stack: Stack, fault: Fault) -> Undo:
    """Make the fault happen. Returns the function that ends it, to be called `fault.seconds` later."""
    match fault.kind:
        case "kill":
            _signal([_pid(stack, fault.target)], signal.SIGKILL)
            return lambda: None
        case "stop":
            pid = _pid(stack, fault.target)
            pids = [pid, *(processes.children(pid) if pid else [])]  # children: workers of the web process
            _signal(pids, signal.SIGSTOP)
            return lambda: _signal(pids, signal.SIGCONT)
        case "disconnect":
            return _disconnect(stack, fault.target)
        case _:
            link = ["ip", "link", "set", fault.target]
            stack.testbed.exec(None, [*link, "down"])
            return lambda: stack.testbed.exec(None, [*link, "up"])


def _pid(stack: Stack, name: str) -> int:
    """Return the process's id; 0 while it restarts."""
    of_testbed = stack.testbed.pids
    if name in of_testbed:
        return of_testbed[name]
    running = [s.process.pid for s in stack.services.running if s.name == name and s.process.poll() is None]
    return running[0] if running else 0


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in filter(None, pids):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _disconnect(stack: Stack, switch: str) -> Undo:
    """Cut the switch off from its controller, which continues to run."""
    ovs = stack.testbed.ovs
    row = ["controller", ovs(["ovs-vsctl", "get", "bridge", switch, "controller"]).strip("[] \n")]
    target = ovs(["ovs-vsctl", "get", *row, "target"]).strip()
    ovs(["ovs-vsctl", "--no-wait", "set", *row, f'target="{NOWHERE}"'])
    return lambda: ovs(["ovs-vsctl", "--no-wait", "set", *row, f"target={target}"])


GAP_S = 1.0
EXCUSED_S = 5.0
"""Time after a fault that stops packets by itself, because a switch restarts and TCP backs off."""


@dataclass
class Outcome:
    """What was done, and what was observed."""

    faults: list[Fault] = field(default_factory=list)
    gaps: list[live.Gap] = field(default_factory=list)
    """Gaps in the traffic of the busy port."""
    blind_s: float = 0.0
    """The longest time between two readings of the busy port."""
    records: list[FlowRecord] = field(default_factory=list)
    scheduled: list[str] = field(default_factory=list)
    """Ids of the flows."""
    rules: dict[str, set[str]] = field(default_factory=dict)
    """Switch → its rules after all faults."""
    fresh: dict[str, set[str]] = field(default_factory=dict)
    """The rules that a new controller installs on empty switches."""
    left: list[str] = field(default_factory=list)
    """What the run left behind on the machine."""


def claims(outcome: Outcome) -> list[Claim]:
    counted = Counter(fault.kind for fault in outcome.faults)
    words = ", ".join(f"{n} {kind}" for kind, n in counted.items())
    gaps = unexcused(outcome.gaps, outcome.faults)
    longest_s = max((gap.length_s for gap in gaps), default=0.0)
    wrong = [rule for name in outcome.rules for rule in outcome.rules[name] ^ outcome.fresh[name]]
    rules = sum(map(len, outcome.fresh.values()))
    return [
        Claim("faults", "of each kind", words, set(counted) == set(KINDS)),
        live.one_record_each(outcome.scheduled, outcome.records),
        Claim(
            "rules afterwards",
            "those of a fresh controller",
            f"{len(wrong)} differ of {rules}",
            rules > 0 and not wrong,
        ),
        Claim(
            "a fault of the control plane stops traffic",
            f"for {GAP_S:g} s at most",
            f"{longest_s * 1000:.0f} ms at most",
            longest_s <= GAP_S,
        ),
        live.nothing_left(outcome.left),
    ]


def unexcused(gaps: Sequence[live.Gap], faults: Sequence[Fault]) -> list[live.Gap]:
    """Return the gaps that begin outside the time of a fault that stops packets by itself."""
    return [gap for gap in gaps if not any(fault.excuses(gap) for fault in faults)]


def numbers(outcome: Outcome) -> dict[str, Any]:
    gaps = sorted(unexcused(outcome.gaps, outcome.faults), key=lambda gap: -gap.length_s)
    return {
        "faults": [[f.kind, f.target, round(f.seconds, 2), round(f.at, 2)] for f in outcome.faults],
        "flows": len(outcome.scheduled),
        "finished": sum(record.status == FINISHED for record in outcome.records),
        "longest_gaps": [_described(gap, outcome.faults) for gap in gaps[:20]],
        "longest_without_look_ms": outcome.blind_s * 1000,
    }


def _described(gap: live.Gap, faults: Sequence[Fault]) -> dict[str, Any]:
    """Return a gap, the fault before it, and the time between the two."""
    began_at = gap.ended_at - gap.length_s
    before = [fault for fault in faults if fault.at <= gap.ended_at]
    described: dict[str, Any] = {"ms": round(gap.length_s * 1000)}
    if before:
        last = before[-1]
        described["fault"] = f"{last.kind} {last.target}"
        described["begins_s_after_it"] = round(began_at - last.at, 2)
        described["fault_lasts_s"] = round(last.seconds, 2)
    return described


FLOWS_PER_S = 6.0
SIZES_KB = (5, 20, 100, 300)
PAUSE_S = (0.5, 5.0)
"""Time from the end of a fault to the next one. Components may still be recovering."""
BUSY_PORT = "s1-eth1"
"""The port of h1, to which iperf sends from another switch during the whole run."""
WELL_S = 60.0
STILL_S = 2.0
LEAD_S = 3.0


def document_of(seed: int, seconds: float, rng: np.random.Generator) -> dict[str, Any]:
    """Return a scenario of short flows between all hosts, with iperf from one switch to another."""
    flows = []
    for start_s in live.poisson_starts_s(rng, FLOWS_PER_S, seconds):
        source, to = rng.choice(4, 2, replace=False) + 1
        flows.append(live.short_flow(f"h{source}", f"h{to}", rng.choice(SIZES_KB), start_s))
    return {
        "name": "random-faults",
        "seed": seed,
        "grace": "30s",
        "fabric": {"topology": "dumbbell", "host_rate": "20Mbit", "core_rate": "20Mbit", "buffer": "200KB"},
        "scheme": {"name": "mlfq-adaptive", "queues": 4, "mark_at": "20pkt"},
        "transport": {"rto_min": "50ms"},
        "background": [{"from": "h3", "to": "h1"}],
        "workload": {"flow": flows},
    }


def conclude(stack: Stack, flows: Sequence[ScheduledFlow], start_at: float, outcome: Outcome) -> None:
    """Wait until everything works again. Then note the records, and the rules before and after a new controller starts.

    It starts while no other runs and no switch has a rule.
    """
    wait_until(stack.is_well, "all components work again after the faults", timeout_s=WELL_S)
    # A killed agent delivers some records only when it stops, so some may be missing here.
    live.wait_for_records(stack, len(flows), start_at + flows[-1].start_s + stack.scenario.grace_s)
    stack.stop_agents()
    outcome.records = flow_store.all_flows(stack.engine)
    stack.stop_background()
    outcome.rules = _settled_rules(stack)
    stack.services.stop("controller")
    for switch in stack.topology.switches:
        stack.testbed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "del-flows", switch.name])
    assert not any(_rules(stack).values())
    stack.start_controller()
    outcome.fresh = _settled_rules(stack)


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


def _settled_rules(stack: Stack) -> dict[str, set[str]]:
    """Return the rules of idle switches once none has changed for STILL_S."""

    def settled() -> dict[str, set[str]] | None:
        first = _rules(stack)
        live.run_until(stack, time.time() + STILL_S)
        return first if all(first.values()) and _rules(stack) == first else None

    rules = wait_until(settled, "the rules no longer change", timeout_s=WELL_S)
    assert rules is not None
    return rules


def measure(given: Given) -> Outcome:
    need_root()
    before = live.Machine.look()
    rng = np.random.default_rng(given["seed"])
    document = document_of(given["seed"], given["seconds"], rng)
    with live.running(document, rng, given.out / "run") as (stack, flows):
        outcome = Outcome(scheduled=[flow.id for flow in flows])
        stack.start_background()
        start_at = stack.start_agents(flows)
        live.run_until(stack, start_at + LEAD_S)
        with live.PortGaps(stack.testbed.pid, BUSY_PORT) as port:
            _disturb(stack, start_at + given["seconds"], rng, outcome)
        outcome.gaps, outcome.blind_s = port.gaps, port.longest_without_s
        conclude(stack, flows, start_at, outcome)
    outcome.left = live.left_over(before)
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
            live.run_until(stack, time.time() + fault.seconds)
        finally:
            undo()
        live.run_until(stack, time.time() + float(rng.uniform(*PAUSE_S)))


EXPERIMENT = Experiment(
    claim="Random faults lose no flow's record and no rule, and faults of the control plane stop no traffic.",
    minutes=12,
    runner=Script(measure),
    on=(TESTBED,),
    options=(
        option("--seconds", "seconds of traffic", type=seconds, default=600.0),
        option("--seed", "seed of flows and faults", type=seed, default=1),
    ),
    quick={"seconds": 120.0},
    claims=claims,
    numbers=numbers,
)
