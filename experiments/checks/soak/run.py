# SPDX-License-Identifier: Apache-2.0
"""Ten minutes of 200 concurrent flows of all kinds, with agents, controller and web process killed at random.

Then: has the kernel complained, has anything stayed behind, does socket storage pile up? Before that, every BPF program
is loaded and unloaded a hundred times.

python -m experiments soak [--out DIR] [--seconds 600] [--concurrent 200] [--loads 100] [--seed 1]
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dataplane import build
from dataplane.inventory import storages
from dataplane.loader import load
from experiments.checks.soak.machine import Machine, kernel_complaints, settled
from experiments.kit.verdict import Claim, conclude
from policy.records import FINISHED, FlowRecord
from policy.scenario import scheduled_flows
from policy.schedule import ScheduledFlow
from runtime.wait import wait_until
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.runs.testbed_run import complete
from sluice.terminal import console, end_in_order
from store import flows as flow_store
from topologies import build_topology

HOSTS = 6
RATE = "10Mbit"
"""So that the switch has some 6,000 packets a second, acknowledgements included: what a small machine can forward."""
SEGMENT_S = 15.0
"""A flow lasts about this long; then the next one takes its place."""
KILL_EVERY_S = 5.0
SCHEMES = ("datcp", "d2tcp", "dctcp", "pias")
SCHEME_EVERY_S = 30.0
STORAGE = "sluice_flow_1"


@dataclass
class Events:
    """What was done to the system, and what was seen."""

    kills: list[str] = field(default_factory=list)
    schemes: list[str] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    """Flows under way, by the schedule, at each look."""
    storages: list[int] = field(default_factory=list)


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    end_in_order()
    complaints_before, before = kernel_complaints(), Machine.look()
    loads = _load_and_unload(arguments.loads)
    events, records, storages_after = _soak(arguments)
    left = settled(before)
    complaints = kernel_complaints()[len(complaints_before) :]
    claims = _claims(loads, events, records, storages_after, left, complaints)
    numbers = {
        "kills": events.kills,
        "schemes": events.schemes,
        "active": [min(events.active), int(np.median(events.active)), max(events.active)],
        "storages": [min(events.storages), max(events.storages), storages_after],
        "records": len(records),
        "finished": sum(record.status == FINISHED for record in records),
    }
    return conclude(arguments.out, "soak", claims, numbers)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/soak"))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--concurrent", type=int, default=200, help="flows at any time")
    parser.add_argument("--loads", type=int, default=100, help="of each BPF program")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _load_and_unload(times: int) -> int:
    """Every BPF program, `times` times; how many loads that were."""
    names = build.names()
    for number, name in itertools.product(range(times), names):
        load(name).close()
        if name == names[-1] and (number + 1) % 10 == 0:
            console.print(f"every program loaded and unloaded {number + 1} times")
    return times * len(names)


# -- the flows


def _document(arguments: argparse.Namespace, rng: np.random.Generator) -> dict[str, Any]:
    return {
        "name": "soak",
        "seed": arguments.seed,
        "fabric": {"topology": "single", "hosts": HOSTS, "host_rate": RATE, "buffer": "200KB"},
        "scheme": {"name": SCHEMES[0]},
        "transport": {"rto_min": "50ms"},
        "workload": {"flow": _flows(arguments, rng)},
    }


def _flows(arguments: argparse.Namespace, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Chains of flows, one after the other: as many chains as flows shall be under way."""
    return [
        _flow(rng, start_s)
        for _ in range(arguments.concurrent)
        for start_s in np.arange(rng.uniform(0, SEGMENT_S), arguments.seconds, SEGMENT_S)
    ]


def _flow(rng: np.random.Generator, start_s: float) -> dict[str, Any]:
    source, to = rng.choice(HOSTS, 2, replace=False) + 1
    flow: dict[str, Any] = {"from": f"h{source}", "to": f"h{to}", "start": f"{round(start_s * 1e6)}us"}
    kind = rng.random()
    if kind < 0.4:
        flow["until"] = f"{round((start_s + SEGMENT_S) * 1e6)}us"
        return flow
    flow["bytes"] = f"{int(rng.integers(50_000, 1_000_000))}B"
    if kind < 0.5:
        return flow
    flow["deadline"] = f"{int(rng.integers(500, 20_000))}ms"
    flow["quench"] = str(rng.choice(["never", "kill", "suspend"]))
    if kind < 0.7:
        flow["importance"], flow["importance_share"] = float(rng.integers(1, 8)), 0.5
    return flow


# -- ten minutes


def _soak(arguments: argparse.Namespace) -> tuple[Events, list[FlowRecord], int]:
    """Events, one record for each flow, and the socket storage that is left when all flows have gone."""
    rng = np.random.default_rng(arguments.seed)
    scenario, _ = scenario_with(_document(arguments, rng))
    topology = build_topology(scenario)
    flows = scheduled_flows(scenario, topology, rng, f"soak-{int(time.time())}")
    events = Events()
    with Stack.start(scenario, topology, arguments.out / "run") as stack:
        start_at = stack.start_agents(flows)
        _disturb(stack, flows, start_at, arguments, rng, events)
        stack.stop_agents()
        records = complete(flow_store.all_flows(stack.engine), flows, scenario, start_at)
        stack.testbed.stop()
        storages_after = _storages_after()
    return events, records, storages_after


def _storages_after() -> int:
    """The congestion controls are still registered, so the map is there: with the sockets, their storage must go."""
    try:
        wait_until(lambda: storages(STORAGE) == 0, "all socket storage has gone", timeout_s=20)
    except TimeoutError:
        return storages(STORAGE)
    return 0


def _disturb(
    stack: Stack,
    flows: Sequence[ScheduledFlow],
    start_at: float,
    arguments: argparse.Namespace,
    rng: np.random.Generator,
    events: Events,
) -> None:
    timetable: tuple[tuple[float, Callable[[], None]], ...] = (
        (KILL_EVERY_S, partial(_kill_one, stack, rng, events)),
        (SCHEME_EVERY_S, partial(_change_scheme, stack, rng, events)),
        (10.0, partial(_look, flows, start_at, events)),
    )
    due = [start_at + every_s for every_s, _ in timetable]
    while time.time() < start_at + arguments.seconds:
        stack.check()
        for number, (every_s, action) in enumerate(timetable):
            if time.time() >= due[number]:
                action()
                due[number] += every_s
        time.sleep(0.1)


def _kill_one(stack: Stack, rng: np.random.Generator, events: Events) -> None:
    service = stack.services.running[int(rng.integers(len(stack.services.running)))]
    if service.process.poll() is None:
        service.process.send_signal(signal.SIGKILL)
        events.kills.append(service.name)


def _change_scheme(stack: Stack, rng: np.random.Generator, events: Events) -> None:
    """As an operator does it; the web process may have been killed a moment ago."""
    name = str(rng.choice(SCHEMES))
    document = {"scheme": name, "buffer": 200_000}
    wait_until(partial(_put, stack, document), f"the web process takes scheme {name}", timeout_s=30)
    events.schemes.append(name)


def _put(stack: Stack, document: dict[str, Any]) -> bool:
    stack.check()
    try:
        return stack.put_policy(document).ok
    except OSError:
        return False


def _look(flows: Sequence[ScheduledFlow], start_at: float, events: Events) -> None:
    now_s = time.time() - start_at
    active = sum(flow.start_s <= now_s < flow.start_s + SEGMENT_S for flow in flows)
    events.active.append(active)
    events.storages.append(storages(STORAGE))
    console.print(
        f"{now_s:.0f} s: {active} flows by the schedule, {events.storages[-1]} sockets with storage, "
        f"{len(events.kills)} processes killed, scheme {events.schemes[-1] if events.schemes else SCHEMES[0]}"
    )


# -- the verdict


def _claims(
    loads: int,
    events: Events,
    records: Sequence[FlowRecord],
    storages_after: int,
    left: Sequence[str],
    complaints: Sequence[str],
) -> list[Claim]:
    ids = {record.id for record in records}
    return [
        Claim("programs load and unload", "100 times each", f"{loads} loads", loads > 0),
        Claim(
            "flows under way", "200", f"{min(events.active)} … {max(events.active)}", len(events.active) > 0
        ),
        Claim("processes killed", "at random", str(len(events.kills)), len(events.kills) > 0),
        Claim(
            "every flow has one record",
            "none lost, none doubled",
            f"{len(records)} records, {len(ids)} flows",
            len(ids) == len(records),
        ),
        Claim("the kernel complains", "never", "; ".join(complaints) or "never", not complaints),
        Claim("socket storage afterwards", "none", f"{storages_after} sockets", storages_after == 0),
        Claim("left behind", "nothing", ", ".join(left) or "nothing", not left),
    ]


if __name__ == "__main__":
    sys.exit(main())
