# SPDX-License-Identifier: Apache-2.0
"""Slow, silent and greedy clients at a web process, while agents report and dashboards watch.

Two phases of equal length: without an attack, and with 70 slow bodies, 70 half headers, 300 event streams without a
token and 1,200 silent connections at once. `--tree` measures the web process of another checkout.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.checks.perimeter.agents import Agent, HealthWatcher, Times
from experiments.kit.experiment import Experiment, Given, Script, option
from experiments.kit.verdict import Claim
from runtime.http_client import HttpClient, ServerAway
from runtime.process import spawn, stop
from runtime.wait import wait_until
from sluice.commands.arguments import at_least_one, existing_folder, seconds

HEARTBEAT_S, HEALTH_S, RECORD_S = 2.0, 1.0, 5.0
"""The goals: the oldest heartbeat, the slowest /health, the longest wait of a record."""
LEAST_SNAPSHOTS = 0.5
"""The share of its snapshots, one a second, that each dashboard must get."""
TOKEN = "perimeter"
_ROOT = Path(__file__).resolve().parents[3]
PHASES = ("calm", "attacked")


@dataclass(frozen=True)
class Phase:
    """What one phase has measured."""

    seconds: float
    times: Times
    dashboards: dict[str, Any]
    answers: dict[str, int]
    """Answers to the attack by status."""


def measure(given: Given) -> dict[str, Phase]:
    """Return the phases by name."""
    with TemporaryDirectory(prefix="sluice-perimeter-") as name:
        folder = Path(name)
        port = _free_port()
        process = _serve(folder, port, given["tree"] or _ROOT)
        try:
            return {name: _phase(folder, port, given, name == "attacked") for name in PHASES}
        finally:
            stop(process, grace_s=10)


def _serve(folder: Path, port: int, tree: Path) -> subprocess.Popen[bytes]:
    (folder / "token").write_text(TOKEN)
    argv = [sys.executable, "-P", "-m", "sluice", "web", "--store", f"sqlite:///{folder}/store.db"]
    argv += [
        "--listen",
        f"127.0.0.1:{port}",
        "--unix",
        str(folder / "web.sock"),
        "--token-file",
        str(folder / "token"),
    ]
    process = spawn(argv, log_file=folder / "web.log", env={"PYTHONPATH": str(tree)})

    def answers() -> bool:
        try:
            return HttpClient(f"http://127.0.0.1:{port}", 5).get("/api/v1/health").ok
        except ServerAway:
            return False

    wait_until(answers, "the web process answers", timeout_s=60)
    return process


def _phase(folder: Path, port: int, given: Given, attacked: bool) -> Phase:
    seconds = float(given["seconds"])
    attack = _module("attacks", port, seconds + 5) if attacked else None
    dashboards = _module("dashboards", port, TOKEN, given["dashboards"], seconds)
    until, times = time.monotonic() + seconds, Times()
    threads = [Agent(f"h{n + 1}", folder / "web.sock", until, times) for n in range(given["agents"])]
    watcher = HealthWatcher(f"http://127.0.0.1:{port}", until, times)
    for thread in (*threads, watcher):
        thread.start()
    for thread in (*threads, watcher):
        thread.join()
    return Phase(seconds, times, _result(dashboards), _result(attack) if attack else {})


def _module(name: str, *arguments: object) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", f"experiments.checks.perimeter.{name}", *map(str, arguments)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


def _result(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    output, _ = process.communicate(timeout=120)
    found: dict[str, Any] = json.loads(output)
    return found


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def claims(phases: dict[str, Phase]) -> Sequence[Claim]:
    found = phases["attacked"]
    limits = (
        ("oldest heartbeat", found.times.heartbeat_ages_s, HEARTBEAT_S),
        ("slowest /health", found.times.health_s, HEALTH_S),
        ("longest wait of a record", found.times.record_waits_s, RECORD_S),
    )
    fewest, due = found.dashboards["fewest"], LEAST_SNAPSHOTS * found.seconds
    return [
        *(_limit(what, values, limit_s) for what, values, limit_s in limits),
        Claim("snapshots of the worst dashboard", f"at least {due:.0f}", str(fewest), fewest >= due),
    ]


def _limit(what: str, values: Sequence[float], limit_s: float) -> Claim:
    longest = max(values, default=float("inf"))
    return Claim(what, f"below {limit_s:.0f} s", f"{longest:.2f} s", longest < limit_s)


def numbers(phases: dict[str, Phase]) -> dict[str, Any]:
    return {name: {**_summary(phase), "answers": phase.answers} for name, phase in phases.items()}


def _summary(phase: Phase) -> dict[str, Any]:
    measured = {
        "heartbeat age": phase.times.heartbeat_ages_s,
        "/health": phase.times.health_s,
        "wait of a record": phase.times.record_waits_s,
        "lag of a snapshot": phase.dashboards["lags_s"],
    }
    tails = {name: [_tail(values, q) for q in (50, 99, 100)] for name, values in measured.items()}
    statuses, fewest = phase.dashboards["statuses"], phase.dashboards["fewest"]
    return {**tails, "fewest snapshots": fewest, "statuses": statuses, "failures": phase.times.failures}


def _tail(values: Sequence[float], percentile: float) -> float | None:
    return round(float(np.percentile(values, percentile)), 3) if len(values) else None


def table(phases: dict[str, Phase]) -> str:
    """Return median, 99th percentile and maximum of each time, in seconds."""
    lines = ["| time (s): p50 / p99 / max | " + " | ".join(phases) + " |", "|---|" + "---|" * len(phases)]
    summaries = [_summary(phase) for phase in phases.values()]
    for name in ("heartbeat age", "/health", "wait of a record", "lag of a snapshot"):
        cells = [
            " / ".join("–" if value is None else f"{value:.2f}" for value in found[name])
            for found in summaries
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append(
        f"| fewest snapshots | {' | '.join(str(found['fewest snapshots']) for found in summaries)} |"
    )
    lines.append(f"| failed requests | {' | '.join(str(found['failures']) for found in summaries)} |")
    return "\n".join(lines) + "\n"


EXPERIMENT = Experiment(
    name="perimeter",
    claim="Slow, silent and greedy clients hold up no agent, no dashboard with a token, and not /health.",
    figure="",
    minutes=3,
    about=__doc__,
    runner=Script(measure),
    options=(
        option("--seconds", type=seconds, default=60.0, help="seconds of each phase (default: %(default)s)"),
        option("--agents", type=at_least_one, default=16, help="honest agents (default: %(default)s)"),
        option(
            "--dashboards", type=at_least_one, default=500, help="honest dashboards (default: %(default)s)"
        ),
        option(
            "--tree",
            type=existing_folder,
            default=None,
            help="checkout whose web process to measure (default: this one)",
        ),
    ),
    quick={"seconds": 20.0, "dashboards": 100},
    claims=claims,
    numbers=numbers,
    table=table,
)
