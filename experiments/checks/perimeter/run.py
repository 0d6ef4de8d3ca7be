# SPDX-License-Identifier: Apache-2.0
"""Slow, silent and greedy clients at a web process, while agents report and dashboards watch.

A calm phase, then one phase for each attack of attacks.py. `--demo` attacks the web process of a running demonstration.
"""

import json
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.bench.ingest import TOKEN, web_process
from experiments.bench.measuring import cpu_seconds, memory_bytes, web_answers, with_children
from experiments.checks.perimeter import attacks
from experiments.checks.perimeter.attacks import ATTACKS
from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table, option, some_of
from experiments.kit.heartbeats import flow_records, idle_heartbeat
from experiments.kit.workers import worker_processes
from sluice.commands.arguments import at_least_one, seconds
from sluice.policy.wire.agents import heartbeat_document
from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until

EVERY_S = 1.0
BATCH = 50
TIMEOUT_S = 5.0


@dataclass
class Times:
    """What an agent or a watcher has measured."""

    heartbeat_ages_s: list[float] = field(default_factory=list)
    """Time since the last heartbeat that the web process has taken, at the moment when it takes the next one."""
    record_waits_s: list[float] = field(default_factory=list)
    """From the making of a batch to the answer that it is stored."""
    health_s: list[float] = field(default_factory=list)
    failures: int = 0


def act_as_agent(name: str, url: str, until: float, times: Times) -> None:
    """Send a heartbeat and a batch of records each second, until a monotonic time."""
    web, beat = HttpClient(url, TIMEOUT_S), json.dumps(heartbeat_document(idle_heartbeat())).encode()
    number = time.time_ns()  # each run has ids of its own
    waiting: deque[tuple[float, bytes]] = deque()

    def post(path: str, body: bytes) -> bool:
        with suppress(ServerAway):
            if web.post(path, body).ok:
                return True
        times.failures += 1
        return False

    taken_at = due = time.monotonic()
    while (now := time.monotonic()) < until:
        number += BATCH
        waiting.append((now, flow_records(name, number, BATCH)))
        if post(f"/api/v1/agents/{name}", beat):
            times.heartbeat_ages_s.append(time.monotonic() - taken_at)
            taken_at = time.monotonic()
        while waiting and time.monotonic() < until and post("/api/v1/flows", waiting[0][1]):
            times.record_waits_s.append(time.monotonic() - waiting.popleft()[0])
        due = max(due + EVERY_S, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    times.heartbeat_ages_s.append(time.monotonic() - taken_at)
    times.record_waits_s += [time.monotonic() - made_at for made_at, _ in waiting]


def watch_health(url: str, until: float, times: Times) -> None:
    """Ask /health on a new connection twice a second, as a load balancer does."""
    while time.monotonic() < until:
        began = time.monotonic()
        with closing(HttpClient(url, 2 * TIMEOUT_S)) as client:
            try:
                client.get("/api/v1/health")
            except ServerAway:
                times.failures += 1
        times.health_s.append(time.monotonic() - began)
        time.sleep(EVERY_S / 2)


HEARTBEAT_S, HEALTH_S, RECORD_S = 2.0, 1.0, 5.0
"""The goals: the oldest heartbeat, the slowest /health, the longest wait of a record."""
LEAST_SNAPSHOTS = 0.5
"""The share of its snapshots, one a second, that each dashboard must get."""
MOST_CORES, MOST_BYTES = 1 / 3, 300_000_000
"""The goals for the web process: CPU time for each second, and memory."""
CALM = "calm"


@dataclass(frozen=True)
class Web:
    """The web process that is measured."""

    port: int
    pid: int
    agents: str
    """Where agents reach it."""

    def usage(self) -> tuple[float, int]:
        """Return the CPU time of the process and its workers so far, in seconds, and their memory in bytes."""
        pids = with_children(self.pid)
        return sum(map(cpu_seconds, pids)), memory_bytes(pids)


@dataclass(frozen=True)
class Phase:
    """What one phase has measured."""

    seconds: float
    times: Times
    dashboards: Mapping[str, Any]
    answers: Mapping[str, int]
    """Answers to the attack by status."""
    cores: float
    memory_bytes: int
    """At the end of the phase."""


def measure(given: Given) -> dict[str, Phase]:
    """Return the phases by name."""
    with (
        TemporaryDirectory(prefix="sluice-perimeter-") as folder,
        worker_processes(2) as helpers,
        _serving(Path(folder), given) as web,
    ):
        return {name: _phase(web, helpers, given, name) for name in (CALM, *given["attack"])}


@contextmanager
def _serving(folder: Path, given: Given) -> Iterator[Web]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    address, log = f"127.0.0.1:{port}", folder / "demo.log"
    if not given["demo"]:
        with web_process(folder, f"sqlite:///{folder}/store.db", "--listen", address) as process:
            yield Web(port, process.pid, f"unix:{folder}/web.sock")
        return
    argv = [sys.executable, "-m", "sluice", "demo", "--out", str(folder / "demo"), "--listen", address]
    process = spawn(argv, log_file=log, env={"SLUICE_TOKEN": TOKEN})
    try:
        wait_until(
            lambda: web_answers(f"http://{address}", process, log), "the web process answers", timeout_s=120
        )
        with closing(HttpClient(f"http://{address}", TIMEOUT_S)) as web:
            wait_until(lambda: web.get("/api/v1/flows?limit=1").json()["flows"], "flows end", timeout_s=120)
        yield Web(port, _child_that_listens(address), f"http://{address}")
    finally:
        stop(process, grace_s=60)


def _child_that_listens(address: str) -> int:
    """Return the first of the processes that have `web` and the address in their command lines."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # a process that ends meanwhile
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if address.encode() in words and b"web" in words:
                pids.append(int(folder.name))
    return min(pids)


def _phase(web: Web, helpers: Executor, given: Given, name: str) -> Phase:
    seconds = float(given["seconds"])
    cpu_s, _ = web.usage()
    attack = None if name == CALM else helpers.submit(attacks.attack, name, web.port, seconds + 1)
    dashboards = helpers.submit(attacks.watch, web.port, TOKEN, given["dashboards"], seconds)
    until, times = time.monotonic() + seconds, Times()
    with ThreadPoolExecutor(given["agents"] + 1) as threads:
        ended = [
            threads.submit(act_as_agent, f"x{n + 1}", web.agents, until, times)
            for n in range(given["agents"])
        ]
        ended.append(threads.submit(watch_health, f"http://127.0.0.1:{web.port}", until, times))
        for each in ended:
            each.result()
    used_s, memory = web.usage()
    answers = attack.result(120) if attack else {}
    return Phase(seconds, times, dashboards.result(120), answers, (used_s - cpu_s) / seconds, memory)


def claims(phases: dict[str, Phase]) -> Sequence[Claim]:
    """Return the claims about each attack."""
    verdict = []
    for name, phase in phases.items():
        if name == CALM:
            continue
        for what, values, limit_s in (
            ("oldest heartbeat", phase.times.heartbeat_ages_s, HEARTBEAT_S),
            ("slowest /health", phase.times.health_s, HEALTH_S),
            ("longest wait of a record", phase.times.record_waits_s, RECORD_S),
        ):
            longest = max(values, default=float("inf"))
            measured = f"{longest:.2f} s"
            verdict.append(Claim(f"{name}: {what}", f"below {limit_s:.0f} s", measured, longest < limit_s))
        if phase.dashboards["lags_s"]:
            fewest, due = phase.dashboards["fewest"], LEAST_SNAPSHOTS * phase.seconds
            what = f"{name}: snapshots of the worst dashboard"
            verdict.append(Claim(what, f"at least {due:.0f}", str(fewest), fewest >= due))
        cores, megabytes, most = phase.cores, phase.memory_bytes / 1e6, MOST_BYTES / 1e6
        limit, measured = f"below {MOST_CORES:.2f} cores", f"{cores:.2f} cores"
        verdict += [
            Claim(f"{name}: CPU time", limit, measured, cores < MOST_CORES),
            Claim(f"{name}: memory", f"below {most:.0f} MB", f"{megabytes:.0f} MB", megabytes < most),
        ]
    return verdict


def numbers(phases: dict[str, Phase]) -> dict[str, Any]:
    return {name: {**_summary(phase), "answers": phase.answers} for name, phase in phases.items()}


def _summary(phase: Phase) -> dict[str, Any]:
    measured = {
        "heartbeat age": phase.times.heartbeat_ages_s,
        "/health": phase.times.health_s,
        "wait of a record": phase.times.record_waits_s,
        "lag of a snapshot": phase.dashboards["lags_s"],
    }
    tails = {
        name: [round(float(np.percentile(values, q)), 3) if values else None for q in (50, 99, 100)]
        for name, values in measured.items()
    }
    return {
        **tails,
        "fewest snapshots": phase.dashboards["fewest"],
        "statuses": phase.dashboards["statuses"],
        "failures": phase.times.failures,
        "cores": round(phase.cores, 2),
        "memory (MB)": round(phase.memory_bytes / 1e6),
    }


def table(phases: dict[str, Phase]) -> str:
    """Return the largest value of each time in seconds, and what the web process needs."""
    times = ("heartbeat age", "/health", "wait of a record", "lag of a snapshot")
    columns = (*times, "cores", "memory (MB)", "failures")
    rows = []
    for name, phase in phases.items():
        summary = _summary(phase)
        cells = [summary[column][2] if column in times else summary[column] for column in columns]
        rows.append((name, *("–" if cell is None else f"{cell:g}" for cell in cells)))
    return markdown_table(("phase", *columns), rows) + "\n"


EXPERIMENT = Experiment(
    claim="Slow, silent and greedy clients hold up no agent, no dashboard with a token, and not /health.",
    minutes=4,
    runner=Script(measure),
    options=(
        option("--seconds", "seconds of each phase", type=seconds, default=20.0),
        option("--agents", "honest agents", type=at_least_one, default=16),
        option("--dashboards", "honest dashboards", type=at_least_one, default=500),
        some_of("--attack", ATTACKS, "attacks to try"),
        option(
            "--demo", "attack the web process of a running demonstration (needs root)", action="store_true"
        ),
    ),
    quick={"seconds": 10.0, "dashboards": 20, "attack": ["slow", "unread"]},
    claims=claims,
    numbers=numbers,
    table=table,
)
