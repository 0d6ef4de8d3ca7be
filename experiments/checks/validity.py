# SPDX-License-Identifier: Apache-2.0
"""The default demonstration's flows on a machine that is disturbed in a known way.

A run that the verdict calls valid must have the FCT of a quiet run. A run that it calls not valid must name what was
done to it. All runs have the same flows.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table
from sluice.policy.fabrics import TESTBED
from sluice.policy.figures.validity import share_late
from sluice.runs import validity
from sluice.runs.files import need_root, scenario_from_file, scenario_with
from sluice.runs.stack import Stack
from sluice.runs.testbed_run import run_on_testbed
from sluice.runs.validity import SWITCH
from sluice.runtime.process import stop

RATE_BPS = 2_500_000
"""A rate at which a quiet machine has room to spare."""
AGREES = 0.15
"""A valid run's mean FCT of small flows differs by at most this share from a quiet run's."""
Beside = Callable[[Stack], Any]


@contextmanager
def quiet(stack: Stack) -> Iterator[None]:
    yield


@contextmanager
def busy(stack: Stack) -> Iterator[None]:
    """Two ordinary processes that compute all the time."""
    argv = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(argv) for _ in range(2)]
    try:
        yield
    finally:
        for process in processes:
            stop(process)


@contextmanager
def _meanwhile(disturb: Callable[[threading.Event], None]) -> Iterator[None]:
    """Disturb the run in a thread, until the event that it gets."""
    ended = threading.Event()
    thread = threading.Thread(target=disturb, args=(ended,), name="disturbance")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def stopping(pids: Callable[[Stack], Sequence[int]], stopped_s: float, every_s: float) -> Beside:
    """Return a disturbance that stops processes again and again, as a machine does that gives them no CPU."""

    def beside(stack: Stack) -> AbstractContextManager[None]:
        chosen = pids(stack)

        def stop_and_continue(ended: threading.Event) -> None:
            while not ended.wait(every_s - stopped_s):
                for pid in chosen:
                    os.kill(pid, signal.SIGSTOP)
                time.sleep(stopped_s)
                for pid in chosen:
                    os.kill(pid, signal.SIGCONT)

        return _meanwhile(stop_and_continue)

    return beside


def loose_cable(stack: Stack) -> AbstractContextManager[None]:
    """The cable of h1 has no contact for a moment, ten times."""
    link = [*stack.testbed.enter(None), "ip", "link", "set", stack.topology.edge_port("h1").interface]

    def unplug(ended: threading.Event) -> None:
        for _ in range(10):
            if ended.wait(1.0):
                return
            for state in ("down", "up"):
                subprocess.run([*link, state], check=True)
                time.sleep(0.05)

    return _meanwhile(unplug)


def switch(stack: Stack) -> list[int]:
    return [stack.testbed.pids[SWITCH]]


def agents(stack: Stack) -> list[int]:
    return [service.process.pid for service in stack.services.running if service.name.startswith("agent-")]


@dataclass(frozen=True)
class Case:
    """One way to disturb a run."""

    about: str
    beside: Beside
    names: str | None = None
    """Words of the reason that must be given; None: the run stays valid."""


CASES: Mapping[str, Case] = {
    "quiet": Case("nothing", quiet),
    "again": Case("nothing, once more", quiet),
    "busy": Case("two busy processes on the machine", busy),
    "switch-1ms": Case("the switch stands still for 1 ms every 100 ms", stopping(switch, 0.001, 0.1)),
    "switch-20ms": Case(
        "the switch stands still for 20 ms every 100 ms", stopping(switch, 0.02, 0.1), "the switch forwarded"
    ),
    "senders": Case(
        "the hosts' agents stand still for 200 ms every 500 ms", stopping(agents, 0.2, 0.5), "hosts started"
    ),
    "cable": Case("the cable of a host is loose", loose_cable, "lost outside the emulated queues"),
}


@dataclass(frozen=True)
class Result:
    """What a run shows."""

    small_ms: float
    """Mean FCT of small flows."""
    small_p99_ms: float
    reasons: Sequence[str]
    figures: Mapping[str, Any]
    """Those behind the verdict, as in meta.json."""


Results = Mapping[str, Result]


def measure(given: Given) -> Results:
    need_root()
    _, document, _ = scenario_from_file(Path("demo"))
    results = {}
    for name, case in CASES.items():
        tables = {**validity.at_rate(document, RATE_BPS), "workload": {"flows": given.flows}}
        changed = scenario_with(document, **tables, seed=given.seeds[0])
        summary = run_on_testbed(changed, given.out / name, beside=case.beside)
        small = summary["fct_us"]["small"]
        figures = json.loads((given.out / name / "meta.json").read_text())["cpu"]
        reasons = summary["valid"]["reasons"]
        results[name] = Result(small["mean"] / 1000, small["p99"] / 1000, reasons, figures)
    return results


def claims(results: Results) -> list[Claim]:
    reference = results["quiet"].small_ms
    verdict = []
    for name, result in results.items():
        wanted, reasons = CASES[name].names, "; ".join(result.reasons)
        ratio = result.small_ms / reference
        if wanted is None:
            holds = not result.reasons and abs(ratio - 1) <= AGREES
            measured = f"{ratio:.2f} of quiet's small flows; {reasons or 'valid'}"
            verdict.append(Claim(f"{name}: valid, and as quiet", f"within {AGREES:.0%}", measured, holds))
        else:
            measured = f"{ratio:.2f}; {reasons or 'valid'}"
            verdict.append(Claim(f"{name}: not valid, with the cause", wanted, measured, wanted in reasons))
    return verdict


def table(results: Results) -> str:
    """Return the figures as Markdown."""
    late = ("forwarded late", "started late", "answered late")
    rows = []
    for name, result in results.items():
        figures = result.figures
        shares = (
            figures["forwarded_late"],
            *(share_late(figures[f"{of}_delays"]) for of in ("start", "answer")),
        )
        verdict = "; ".join(reason.partition(";")[0] for reason in result.reasons) or "valid"
        fcts = (f"{result.small_ms:.1f} ms", f"{result.small_p99_ms:.0f} ms")
        cells = (*fcts, *(f"{share:.1%}" for share in shares), f"{figures['machine_cpu_mean']:.0%}", verdict)
        rows.append((CASES[name].about, *cells))
    return markdown_table(("disturbance", "small mean", "small p99", *late, "CPU", "verdict"), rows, " --- ")


def numbers(results: Results) -> dict[str, Any]:
    return {name: vars(result) for name, result in results.items()}


EXPERIMENT = Experiment(
    claim="A valid run has the FCTs of a quiet machine, and a run that is not valid names what disturbed it.",
    minutes=6,
    runner=Script(measure),
    on=(TESTBED,),
    seeds=(1,),
    flows=1500,
    quick={"flows": 600},
    claims=claims,
    numbers=numbers,
    table=table,
)
