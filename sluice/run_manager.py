# SPDX-License-Identifier: Apache-2.0
"""The run manager: the process that starts, watches, cancels and reaps the runs of a web process, and lists them.

The web process starts it (`python -m sluice.run_manager`) and calls it over a Unix socket. So runs survive a web
worker, and need no code of it. SIGTERM ends it and its runs, in order. Each run is a `sluice run` or `sluice sweep`
with a folder and a process group of its own. Refused requests are documents.

The functions that check the command line check also what the browser wants to start. A request names a scenario of
sluice/data/scenarios or brings the text of one. It cannot name files of this machine.
"""

import argparse
import json
import logging
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from sluice.policy.errors import FieldError, SluiceError, guess, shortened
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.schema.entries import read
from sluice.policy.wire.runs import RunRequest
from sluice.policy.workload.scenario import Scenario, no_traces
from sluice.policy.workload.sizes import SizeCdf
from sluice.runs import files, folder
from sluice.runs.files import Resolved, check_on
from sluice.runs.folder import Entry
from sluice.runs.obstacle import obstacle
from sluice.runs.progress import ASK_FROM_S, RUNNING, predicted_total_s, predicted_work
from sluice.runtime import logs, plugins
from sluice.runtime.lifecycle import on_end
from sluice.runtime.local_calls import Listener
from sluice.runtime.process import spawn
from sluice.runtime.toml import NotToml, parse_toml
from sluice.sweep.points import AXES, Point, points
from sluice.terminal import about

log = logging.getLogger(__name__)

SWEEP_KEYS = ("schemes", "loads", "seeds")
MOST_POINTS = folder.MOST_COMPARED
"""Points of one sweep, so that one report can have all of them."""


@dataclass(frozen=True)
class Plan:
    """A checked request."""

    request: RunRequest
    scenario: Scenario
    """Of a sweep, that of its first point."""
    settings: tuple[str, ...]
    """All changes, each as `--set` takes it."""
    predicted_s: float | None
    points: tuple[Point, ...] = ()
    """Of a sweep."""

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes that run, or the variants of a sweep."""
        schemes = [point.scheme for point in self.points] or [self.scenario.policy.scheme]
        return tuple(dict.fromkeys(schemes))

    def command(self, source: str, out: str, places: int) -> list[str]:
        """Return the words after `sluice` that carry it out. `places`: points of a sweep at a time."""
        common = ["--on", self.request.on, "--out", out, "--yes"]
        common += [f"--set={setting}" for setting in self.settings]
        if not self.points:
            return ["run", source, *common]
        for key in SWEEP_KEYS:
            values = getattr(self.request, key)
            common += [f"--{key}", *map(str, values)] if values is not None else []
        return ["sweep", source, *common, "--jobs", str(places)]


def plan(document: Any, simulations: int = 1) -> Plan:
    """Return the plan of a request. A sweep on the simulator would run as many points at a time as `simulations`.

    Raises FieldError or SluiceError that names what is wrong.
    """
    request = read(RunRequest, document)
    settings = (*request.settings, *([f"workload.flows={request.flows}"] if request.flows else []))
    given = _given(request)
    changes = dict(files.setting(text, "settings", "workload.load=0.5") for text in settings)
    if not request.sweep:
        for key in SWEEP_KEYS:
            if getattr(request, key) is not None:
                raise FieldError(key, "belongs to a sweep: choose a sweep, or omit it")
        alone = {key: value for key, value in given.items() if key != "sweep"}
        resolved = _checked(files.changed(alone, changes), request.on)
        predicted = predicted_total_s([predicted_work(resolved, request.on)], request.on)
        return Plan(request, resolved.scenario, settings, predicted)
    for key in AXES.keys() & changes.keys():
        raise FieldError(
            "settings", f"{key} is an axis of the sweep; set {AXES[key].removeprefix('--')} instead"
        )
    wanted = points(
        given,
        schemes=request.schemes,
        loads=request.loads,
        seeds=request.seeds,
        settings=changes,
        most=MOST_POINTS,
        on=request.on,
        check=partial(_checked, on=request.on),
    )
    works = [point.work for point in wanted]
    places = simulations if request.on == SIMULATOR else 1
    predicted = predicted_total_s(works, request.on, min(places, len(wanted)))
    first = _checked(wanted[0].document, request.on).scenario
    return Plan(request, first, settings, predicted, tuple(wanted))


def _checked(document: dict[str, Any], on: str) -> Resolved:
    """Return a scenario that this fabric can run. Raises FieldError."""
    resolved = files.resolve(document, _included_cdf, no_traces)
    check_on(resolved.scenario, on)
    return resolved


def _given(request: RunRequest) -> Mapping[str, Any]:
    if (request.scenario is None) == (request.text is None):
        raise FieldError("scenario", "give either the name of a scenario or a text")
    if request.text is not None:
        try:
            return parse_toml(request.text)
        except NotToml as error:
            raise FieldError("text", f"not TOML: {error}") from None
    names, name = files.scenario_names(), str(request.scenario)
    if name not in names:
        raise FieldError(
            "scenario",
            f"there is no scenario {shortened(name)}{guess(name, names)}; the names are {', '.join(names)}",
        )
    return files.read_document(files.SCENARIOS / f"{name}.toml")


def _included_cdf(name: str) -> SizeCdf:
    names = files.known_workloads()
    if name not in names:
        raise FieldError(
            "workload.sizes",
            f"there is no distribution {shortened(name)}{guess(name, names)}; a run from the browser cannot read "
            f"files of the machine, so take one of {', '.join(names)}, or write a mix",
        )
    return files.load_cdf(name)


def need_testbed() -> str | None:
    """Return why the testbed cannot run here now; None if it can."""
    from sluice.commands.inside import running_testbeds

    if lasting := _lasting_obstacle():
        return lasting
    try:
        running = running_testbeds()
    except (OSError, SluiceError):
        running = []
    if running:
        return (
            f"a testbed runs on this machine: {running[0].shown}. Two would take each other's CPU time. End that "
            f"demonstration or run first, or choose the simulator"
        )
    return None


_lasting_obstacle = cache(obstacle)
"""What this machine lacks. It is tried once, because that starts a process."""


class Refusal(SluiceError):
    """A request that is valid but impossible now. `code` is for programs."""

    def __init__(self, code: str, problem: str, **facts: Any) -> None:
        super().__init__(problem)
        self.code, self.problem, self.facts = code, problem, facts


def refused(error: SluiceError) -> dict[str, Any]:
    """Return the answer to a refused request."""
    if isinstance(error, Refusal):
        return _error(409, error.code, error.problem) | error.facts
    if isinstance(error, FieldError):
        return _error(422, "invalid-field", error.problem, error.field)
    return _error(422, "refused", str(error))


def _error(status: int, code: str, problem: str, field: str | None = None) -> dict[str, Any]:
    return {"error": {"status": status, "code": code, "problem": problem, "field": field}}


TURN_S = 0.1
GRACE_S = 60.0
"""The longest time that a run may take to end in order: the testbed stops its processes, the bundle is written."""
START_S = 30.0
LOG, OWN_SCENARIO = "log.txt", "given.toml"


@dataclass
class Child:
    """A run or sweep that this process has started."""

    name: str
    on: str
    process: subprocess.Popen[bytes]
    places: int = 1
    """Runs at a time."""
    kill_at_s: float | None = None
    """When it is killed, once it must end."""

    def interrupt(self) -> None:
        """Ask the run to end in order, as Ctrl-C does. Later calls change nothing."""
        if self.kill_at_s is None:
            self.kill_at_s = time.monotonic() + GRACE_S
            # On a busy machine, a polite run would not write its bundle in time. Only root may change that.
            with suppress(PermissionError, ProcessLookupError):
                os.setpriority(os.PRIO_PGRP, self.process.pid, 0)
            self.process.send_signal(signal.SIGINT)

    def has_ended(self) -> bool:
        """Reap the run if it has ended. One that does not end in time is killed, with its whole process group."""
        if self.process.poll() is None and self.kill_at_s is not None and time.monotonic() > self.kill_at_s:
            self._kill_group()
        if self.process.poll() is None:
            return False
        self._kill_group()  # whatever the run has left behind
        return True

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class RunManager:
    """The runs of one folder. `serve` runs in the main thread: a child dies with the thread that started it."""

    def __init__(self, folder: Path, most_simulations: int) -> None:
        self.folder = folder
        self._most = most_simulations
        self._children: dict[str, Child] = {}
        self._orders: queue.Queue[tuple[Plan, Mapping[str, Any], Future[str]]] = queue.Queue()

    # ── Called by any thread ────────────────────────────────────────────────────────────────────

    def check(self, document: Any) -> dict[str, Any]:
        """Return what a request would start. Raises SluiceError."""
        planned = plan(document, max(1, self._free_places(SIMULATOR)))
        return {
            "scenario": planned.scenario.name,
            "scheme": ", ".join(planned.schemes),
            "points": len(planned.points) or None,
            "on": planned.request.on,
            "predicted_s": planned.predicted_s,
            "asks": planned.predicted_s is not None and planned.predicted_s >= ASK_FROM_S,
            "obstacle": self.obstacle(planned.request.on),
        }

    def start(self, document: Any, who: Mapping[str, Any]) -> dict[str, Any]:
        """Start a run and return its name. Raises SluiceError."""
        planned = plan(document, max(1, self._free_places(SIMULATOR)))
        self._refuse_if_busy(planned.request.on)
        length = planned.predicted_s
        if length is not None and length >= ASK_FROM_S and not planned.request.confirmed:
            raise Refusal("long", f"this takes {about(length)}; confirm it", predicted_s=length)
        started: Future[str] = Future()
        self._orders.put((planned, {**who, "predicted_s": length}, started))
        return {"name": started.result(START_S), "predicted_s": length}

    def _free_places(self, on: str) -> int:
        """Return how many more runs may run there."""
        busy = sum(child.places for child in list(self._children.values()) if child.on == on)
        return (self._most if on == SIMULATOR else 1) - busy

    def cancel(self, name: str) -> dict[str, Any]:
        """End a run in order. Raises Refusal if this process has not started it, or if it has ended."""
        child = self._children.get(name)
        if child is None:
            raise Refusal("not-running", f"no run {name} was started from this page, or it has ended")
        child.interrupt()
        return {"name": name}

    def obstacle(self, on: str) -> str | None:
        """Return why no run can start there now; None if one can."""
        busy = [child for child in list(self._children.values()) if child.on == on]
        if on == SIMULATOR and self._free_places(on) <= 0:
            return f"{self._most} simulations run already, and no more may run at a time; wait or cancel one"
        if on == TESTBED and busy:
            return f"the run {busy[0].name} holds the testbed; wait or cancel it"
        return need_testbed() if on == TESTBED else None

    def _refuse_if_busy(self, on: str) -> None:
        obstacle = self.obstacle(on)
        if obstacle:
            raise Refusal("busy", obstacle)

    def states(self) -> dict[str, str]:
        """Return the runs that this process has started and that have not ended: running or ending."""
        children = list(self._children.values())
        return {child.name: "running" if child.kill_at_s is None else "ending" for child in children}

    # ── The main thread ─────────────────────────────────────────────────────────────────────────

    def serve(self, ended: threading.Event) -> None:
        """Start what is ordered and reap what has ended, until `ended` is set. Then end every run."""
        while not ended.is_set():
            self._reap()
            with suppress(queue.Empty):
                planned, who, started = self._orders.get(timeout=TURN_S)
                try:
                    started.set_result(self._spawn(planned, who))
                except (SluiceError, OSError) as error:
                    problem = error if isinstance(error, SluiceError) else SluiceError(str(error))
                    started.set_exception(problem)
        for child in self._children.values():
            child.interrupt()
        while self._children:
            self._reap()
            time.sleep(TURN_S)

    def _reap(self) -> None:
        self._children = {name: child for name, child in self._children.items() if not child.has_ended()}

    def _spawn(self, planned: Plan, who: Mapping[str, Any]) -> str:
        on = planned.request.on
        self._refuse_if_busy(on)
        kind = "-sweep" if planned.points else ""
        name = self._new_folder(f"{planned.scenario.name}-{on}{kind}")
        out = self.folder / name
        asked = asdict(planned.request) | {"text": None, "scenario": planned.scenario.name}
        (out / folder.REQUEST).write_text(json.dumps({**asked, **who, "at": time.time()}, indent=2) + "\n")
        source = files.SCENARIOS / f"{planned.request.scenario}.toml"
        if planned.request.text is not None:
            source = out / OWN_SCENARIO
            source.write_text(planned.request.text)
        places = min(self._free_places(on), len(planned.points)) if planned.points else 1
        # The testbed needs its CPU time; a simulation leaves it to the web process.
        polite = ["nice", "-n", "10"] if on == SIMULATOR and shutil.which("nice") else []
        argv = [*polite, sys.executable, "-m", "sluice", *planned.command(str(source), str(out), places)]
        self._children[name] = Child(name, on, spawn(argv, log_file=out / LOG), places)
        return name

    def _new_folder(self, stem: str) -> str:
        """Make the run's folder and return its name."""
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")[:80]
        at = time.strftime("%Y%m%d-%H%M%S")
        for number in range(1, 100):
            name = f"{plain}-{at}" + (f"-{number}" if number > 1 else "")
            with suppress(FileExistsError):
                (self.folder / name).mkdir(parents=True)
                return name
        raise SluiceError(f"{self.folder} has too many runs of this second; try again")


# ── Listing ──────────────────────────────────────────────────────────────────────────────────────────


REPORT_S = 120.0
LAST_BYTES = 2000


class Listing:
    """Reads the folder of runs. Finished runs and sweeps do not change, so their descriptions are kept."""

    def __init__(self, manager: RunManager) -> None:
        self._manager = manager
        self._known: dict[Entry, dict[str, Any]] = {}
        self._reading, self._reporting = threading.Lock(), threading.Lock()

    def document(self) -> dict[str, Any]:
        """Return all runs, and what can be started."""
        with self._reading:
            listed = folder.entries(self._manager.folder)
            documents = [self._described(entry) for entry in listed]
            self._known = {entry: self._known[entry] for entry in listed if entry in self._known}
        fabrics = [{"name": on, "problem": self._manager.obstacle(on)} for on in (SIMULATOR, TESTBED)]
        return {"runs": documents, "scenarios": files.scenario_names(), "fabrics": fabrics}

    def _described(self, entry: Entry) -> dict[str, Any]:
        own = self._manager.states().get(entry.name)
        kept = self._known.get(entry)
        if kept and own is None:
            return kept
        document = {**folder.describe(entry), "own": own is not None}
        if own:
            document["state"] = own
        elif document["state"] == folder.LOST and not document["reason"]:
            document["reason"] = _last_line(entry.path / LOG)
        if own is None and document["state"] != RUNNING:
            self._known[entry] = document
        return document

    def report(self, names: Sequence[str], baseline: str | None) -> str:
        """Return the HTML page that compares runs. Raises SluiceError; Refusal while another report is made."""
        chosen = [
            bundle for name in names for bundle in folder.bundles(folder.entry_of(self._manager.folder, name))
        ]
        if not chosen:
            raise FieldError("run", "these runs have no finished bundle; choose runs that are done")
        if len(chosen) > folder.MOST_COMPARED:
            raise FieldError(
                "run", f"{len(chosen)} bundles are too many for one report; at most {folder.MOST_COMPARED}"
            )
        if not self._reporting.acquire(blocking=False):
            raise Refusal("busy", "another report is being made; try again in some seconds")
        try:
            return _compared(chosen, baseline)
        finally:
            self._reporting.release()


def _compared(chosen: Sequence[Path], baseline: str | None) -> str:
    """Return the report of a process of its own, so that it cannot take the manager's memory or time."""
    with tempfile.TemporaryDirectory(prefix="sluice-report-") as folder:
        out = Path(folder) / "report.html"
        argv = [sys.executable, "-m", "sluice", "compare", *map(str, chosen), "--out", str(out)]
        argv += [f"--baseline={baseline}"] if baseline else []
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=REPORT_S)
        except subprocess.TimeoutExpired:
            raise SluiceError(f"the report takes longer than {REPORT_S:.0f} s: choose fewer runs") from None
        if done.returncode:
            raise SluiceError((done.stderr.strip() or "no report").splitlines()[-1])
        return out.read_text()


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LAST_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:400] if lines else ""


# ── The process ──────────────────────────────────────────────────────────────────────────────────────


def answerer(manager: RunManager) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return the function that answers the web process's calls."""
    listing = Listing(manager)

    def do(request: Mapping[str, Any]) -> Mapping[str, Any]:
        match request["do"]:
            case "list":
                return listing.document()
            case "check":
                return manager.check(request["run"])
            case "start":
                return manager.start(request["run"], request["who"])
            case "cancel":
                return manager.cancel(request["name"])
            case "report":
                return {"html": listing.report(request["names"], request["baseline"])}
            case other:
                raise SluiceError(f"no such call: {other}")

    def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return do(request)
        except SluiceError as error:
            return refused(error)
        except Exception:
            log.exception("a call failed: %s", request.get("do"))
            return _error(500, "internal", "see the log")

    return answer


def main() -> int:
    """Serve until a signal. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="sluice.run_manager", description=__doc__)
    parser.add_argument("--folder", required=True, type=Path, metavar="DIR")
    parser.add_argument("--socket", required=True, type=Path, metavar="FILE")
    parser.add_argument("--simulations", required=True, type=int, metavar="N")
    given = parser.parse_args()
    logs.start()
    ended = threading.Event()
    on_end(ended.set)
    plugins.load()
    given.folder.mkdir(parents=True, exist_ok=True)
    manager = RunManager(given.folder.resolve(), given.simulations)
    given.socket.unlink(missing_ok=True)
    listener = Listener(given.socket, answerer(manager))
    listener.start()
    manager.serve(ended)
    listener.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
