# SPDX-License-Identifier: Apache-2.0
"""200 concurrent flows for ten minutes, while agents, controller and web process are killed at random.

Before that, every BPF program is loaded and unloaded a hundred times. Afterwards it checks that
the kernel has not complained, that nothing is left behind, and that socket storage does not
grow.
"""

import itertools
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit import live
from experiments.kit.draw import grid, legend_below
from experiments.kit.experiment import Claim, Experiment, Given, Script, option
from sluice.commands.arguments import at_least_one, seconds, seed
from sluice.dataplane import build
from sluice.dataplane.inventory import storages
from sluice.dataplane.loader import load
from sluice.policy.fabrics import TESTBED
from sluice.policy.wire.records import BACKGROUND, FINISHED, SCHEDULED, FlowRecord, ScheduledFlow
from sluice.runs.files import need_root
from sluice.runs.stack import Stack
from sluice.runtime.http_client import ServerAway
from sluice.runtime.wait import wait_until
from sluice.store import flows as flow_store
from sluice.terminal import console

HOSTS = 6
RATE = "10Mbit"
"""With acknowledgements this is about 6,000 packets a second, which a small machine can forward."""
SEGMENT_S = 15.0
"""A flow lasts about this long. Then the next one of its chain follows."""
SCHEMES = ("datcp", "d2tcp", "dctcp", "pias")


def document_of(seed: int, seconds: float, concurrent: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return a scenario with one chain for each concurrent flow."""
    flows = [
        _flow(rng, start_s)
        for _ in range(concurrent)
        for start_s in np.arange(rng.uniform(0, SEGMENT_S), seconds, SEGMENT_S)
    ]
    return {
        "name": "soak",
        "seed": seed,
        "fabric": {"topology": "single", "hosts": HOSTS, "host_rate": RATE, "buffer": "200KB"},
        "scheme": {"name": SCHEMES[0]},
        "transport": {"rto_min": "50ms"},
        "workload": {"flow": flows},
    }


def _flow(rng: np.random.Generator, start_s: float) -> dict[str, Any]:
    """Return a flow: endless, sized, with a deadline, or with a deadline and importance."""
    source, to = rng.choice(HOSTS, 2, replace=False) + 1
    flow: dict[str, Any] = {"from": f"h{source}", "to": f"h{to}", "start": live.microseconds(start_s)}
    kind = rng.random()
    if kind < 0.4:
        return {**flow, "until": live.microseconds(start_s + SEGMENT_S)}
    flow["bytes"] = f"{int(rng.integers(50_000, 1_000_000))}B"
    if kind < 0.5:
        return flow
    flow["deadline"] = f"{int(rng.integers(500, 20_000))}ms"
    flow["quench"] = str(rng.choice(["never", "kill", "suspend"]))
    if kind < 0.7:
        flow["importance"], flow["importance_share"] = float(rng.integers(1, 8)), 0.5
    return flow


FEWEST = 12
"""Readings of a kind of process, below which nothing is said about its growth."""
GROWTH = 1.5
"""The last third of the readings may have this much more memory than the first, in the median."""


@dataclass(frozen=True)
class Reading:
    """At one moment: kB of resident memory and open descriptors by process, and flow records."""

    at_s: float
    memory_kb: Mapping[str, int]
    descriptors: Mapping[str, int]
    records: int


def read_process(pid: int) -> tuple[int, int] | None:
    """Return a process's resident memory in kB and its number of descriptors; None if it has ended."""
    process = Path(f"/proc/{pid}")
    try:
        status = (process / "status").read_text()
        descriptors = len(list((process / "fd").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return None
    resident = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return (int(resident[0]), descriptors) if resident else None


def growth(values: Sequence[float]) -> float:
    """Return by which factor the last third exceeds the first, in the median."""
    third = len(values) // 3
    return median(values[-third:]) / max(1.0, median(values[:third]))


def growing(readings: Sequence[Reading]) -> list[str]:
    """Name the processes whose memory or descriptors grow by more than GROWTH."""
    names = []
    for what in ("memory_kb", "descriptors"):
        series: dict[str, list[float]] = {}
        for reading in readings:
            for name, value in getattr(reading, what).items():
                series.setdefault(name, []).append(value)
        for name, values in series.items():
            if len(values) >= FEWEST and growth(values) > GROWTH:
                names.append(f"{name}: {what} × {growth(values):.2f}")
    return names


def draw(readings: Sequence[Reading]) -> Figure:
    """Draw memory, descriptors and records over time."""
    figure, ((memory, descriptors, records),) = grid(1, 3, width=4.0)
    for name in sorted({name for reading in readings for name in reading.memory_kb}):
        seen = [reading for reading in readings if name in reading.memory_kb]
        hours = [reading.at_s / 3600 for reading in seen]
        memory.plot(hours, [r.memory_kb[name] / 1000 for r in seen], linewidth=1, label=name)
        descriptors.plot(hours, [r.descriptors[name] for r in seen], linewidth=1)
    records.plot([r.at_s / 3600 for r in readings], [r.records for r in readings], color="black", linewidth=1)
    for axes, title in (
        (memory, "resident memory (MB)"),
        (descriptors, "descriptors"),
        (records, "flow records"),
    ):
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("hours")
        axes.set_ylim(bottom=0)
    legend_below(figure, memory)
    return figure


SCHEME_EVERY_S = 30.0
LOOK_EVERY_S = 10.0
OF_SCHEDULE = (SCHEDULED, BACKGROUND)
"""Sources of the records of flows of the schedule; those without end are background."""
TICK_S = 0.1
STORAGE = "sluice_flow_2"


@dataclass
class Outcome:
    """What was done to the system, and what was observed."""

    loads: int = 0
    kills: list[str] = field(default_factory=list)
    schemes: list[str] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    """Active flows by the schedule, at each reading."""
    storages: list[int] = field(default_factory=list)
    """Sockets with storage, at each reading."""
    readings: list[Reading] = field(default_factory=list)
    scheduled: list[str] = field(default_factory=list)
    """Ids of all flows of the schedule."""
    records: list[FlowRecord] = field(default_factory=list)
    storages_after: int = 0
    left: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Complaints in the kernel's log."""


def measure(given: Given) -> Outcome:
    need_root()
    complaints_before, before = live.kernel_complaints(), live.Machine.look()
    outcome, names = Outcome(), build.names()
    for number, name in itertools.product(range(given["program_loads"]), names):
        load(name).close()
        outcome.loads += 1
        if name == names[-1] and (number + 1) % 10 == 0:
            console.print(f"every program loaded and unloaded {number + 1} times")
    _soak(given, outcome)
    outcome.left = live.left_over(before)
    outcome.complaints = live.kernel_complaints()[len(complaints_before) :]
    return outcome


# -- the traffic


def _soak(given: Given, outcome: Outcome) -> None:
    """Run the flows and disturb them. Then check what their sockets leave."""
    rng = np.random.default_rng(given["seed"])
    document = document_of(given["seed"], given["seconds"], given["concurrent"], rng)
    with live.running(document, rng, given.out / "run") as (stack, flows):
        start_at = stack.start_agents(flows)
        actions: tuple[tuple[float, Callable[[], None]], ...] = (
            (given["kill_every"], partial(_kill_one, stack, rng, outcome)),
            (SCHEME_EVERY_S, partial(change_scheme, stack, rng, outcome)),
            (LOOK_EVERY_S, partial(_look, stack, flows, start_at, outcome)),
        )
        due = [start_at + every_s for every_s, _ in actions]

        def act() -> None:
            """Do what is due."""
            for number, (every_s, action) in enumerate(actions):
                if time.time() >= due[number]:
                    action()
                    due[number] += every_s

        live.run_until(stack, start_at + given["seconds"], act, TICK_S)
        stack.stop_agents()
        outcome.scheduled = [flow.id for flow in flows]
        for source in OF_SCHEDULE:
            outcome.records += flow_store.all_flows(stack.engine, source)
        stack.testbed.stop()
        outcome.storages_after = _storages_after()


def _kill_one(stack: Stack, rng: np.random.Generator, outcome: Outcome) -> None:
    service = stack.services.running[int(rng.integers(len(stack.services.running)))]
    if service.process.poll() is None:
        service.process.send_signal(signal.SIGKILL)
        outcome.kills.append(service.name)


def change_scheme(stack: Stack, rng: np.random.Generator, outcome: Outcome) -> None:
    """Change the scheme by the API, as an operator does. The web process may have been killed a moment ago."""
    name = str(rng.choice(SCHEMES))
    document = {"scheme": name, "buffer": 200_000}
    wait_until(partial(_put, stack, document), f"the web process accepts scheme {name}", timeout_s=30)
    outcome.schemes.append(name)


def _put(stack: Stack, document: dict[str, Any]) -> bool:
    stack.check()
    try:
        return stack.put_policy(document).ok
    except ServerAway:
        return False


def _look(stack: Stack, flows: Sequence[ScheduledFlow], start_at: float, outcome: Outcome) -> None:
    now_s = time.time() - start_at
    active = sum(flow.start_s <= now_s < flow.start_s + SEGMENT_S for flow in flows)
    outcome.active.append(active)
    outcome.storages.append(storages(STORAGE))
    pids = {service.name: service.process.pid for service in stack.services.running}
    records = sum(flow_store.count_flows(stack.engine, kind) for kind in OF_SCHEDULE)
    used = {name: usage for name, pid in pids.items() if (usage := read_process(pid)) is not None}
    memory_kb, descriptors = ({name: usage[i] for name, usage in used.items()} for i in (0, 1))
    outcome.readings.append(Reading(now_s, memory_kb, descriptors, records))
    scheme = outcome.schemes[-1] if outcome.schemes else SCHEMES[0]
    console.print(
        f"{now_s:.0f} s: {active} flows by the schedule, {outcome.storages[-1]} sockets with storage, "
        f"{len(outcome.kills)} processes killed, scheme {scheme}"
    )


def _storages_after() -> int:
    """Return the sockets with storage after all have closed. The congestion controls keep the map alive."""
    try:
        wait_until(lambda: storages(STORAGE) == 0, "all socket storage is released", timeout_s=20)
    except TimeoutError:
        return storages(STORAGE)
    return 0


# -- the verdict


def claims(outcome: Outcome) -> list[Claim]:
    active, kills = outcome.active, len(outcome.kills)
    complaints = "; ".join(outcome.complaints) or "never"
    storages_after, grown = outcome.storages_after, growing(outcome.readings)
    return [
        Claim("programs load and unload", "100 times each", f"{outcome.loads} loads", outcome.loads > 0),
        Claim("active flows", "200", f"{min(active)} … {max(active)}", len(active) > 0),
        Claim("processes killed", "at random", str(kills), kills > 0),
        live.one_record_each(outcome.scheduled, outcome.records),
        Claim("the kernel complains", "never", complaints, not outcome.complaints),
        Claim("socket storage afterwards", "none", f"{storages_after} sockets", storages_after == 0),
        live.nothing_left(outcome.left),
        Claim(
            "memory and descriptors grow",
            f"by less than × {GROWTH}",
            "; ".join(grown) or "by less",
            not grown,
        ),
    ]


def numbers(outcome: Outcome) -> dict[str, Any]:
    active, seen = outcome.active, outcome.storages
    return {
        "kills": outcome.kills,
        "schemes": outcome.schemes,
        "active": [min(active), int(np.median(active)), max(active)],
        "storages": [min(seen), max(seen), outcome.storages_after],
        "usage": [vars(reading) for reading in outcome.readings],
        "records": len(outcome.records),
        "finished": sum(record.status == FINISHED for record in outcome.records),
    }


EXPERIMENT = Experiment(
    claim="Ten minutes of mixed flows with processes killed at random leave nothing behind.",
    minutes=13,
    runner=Script(measure),
    on=(TESTBED,),
    options=(
        option("--seconds", "seconds of traffic", type=seconds, default=600.0),
        option("--concurrent", "flows at any time", type=at_least_one, default=200),
        option("--loads", "loads of each BPF program", dest="program_loads", type=at_least_one, default=100),
        option("--kill-every", "seconds between two kills", type=seconds, default=5.0),
        option("--seed", "seed of flows and kills", type=seed, default=1),
    ),
    quick={"seconds": 60.0, "concurrent": 60, "program_loads": 10},
    claims=claims,
    numbers=numbers,
    draw=lambda outcome: draw(outcome.readings),
)
