# SPDX-License-Identifier: Apache-2.0
"""Runs: the process that starts and lists them, as the web process starts and calls it, and its endpoints."""

import logging
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from flask import Response, jsonify, make_response
from pydantic import Field

from sluice.policy.schema import entries
from sluice.policy.schema.entries import entry, read, schema
from sluice.policy.schema.kinds import Text
from sluice.runtime.local_calls import CallFailed, call
from sluice.runtime.process import spawn, stop
from sluice.store.desired import add_act
from sluice.webui.api import Api, ApiError, Model, read_json
from sluice.webui.auth import require_token
from sluice.webui.services import services

log = logging.getLogger(__name__)


class RunClassModel(Model):
    n: int = Field(description="finished flows")
    mean_us: float | None
    p99_us: float | None = Field(description="while the run lasts, within 1 %")


class RunFiguresModel(Model):
    """The figures of a run, or those so far while it lasts."""

    classes: dict[str, RunClassModel] = Field(description="small, medium, large, all")
    deadlines: int
    missed: int
    unfinished: int


class RunProgressModel(Model):
    share: float = Field(description="the part of the run that is over, 0 to 1")
    elapsed_s: float
    remaining_s: float | None = Field(description="null while it is unknown")
    recorded: int = Field(description="flows that have ended; of a sweep, points with a result")
    scheduled: int = Field(description="all flows, or all points")


class RunModel(Model):
    name: str = Field(description="path in the folder of runs")
    kind: Literal["run", "sweep"]
    state: Literal["running", "ending", "done", "interrupted", "failed", "lost", "partial"] = Field(
        description="`lost`: its process ended without a result; `partial`: a sweep that lacks points"
    )
    reason: str = Field(description="why it failed, or why a sweep lacks points; may be empty")
    changed_at: float
    scenario: str
    schemes: list[str]
    on: str = Field(description="testbed or simulator")
    load: float | None
    by: str | None = Field(description="the token that started it here; null for runs of the command line")
    own: bool = Field(description="this process has started it and can cancel it")
    progress: RunProgressModel | None
    figures: RunFiguresModel | None
    valid: bool | None
    points: int | None = Field(description="of a sweep; null until it has begun")
    finished: int | None = Field(description="points of a sweep with a result")


class RunFabricModel(Model):
    name: str
    problem: str | None = Field(description="why no run can start there now")


class RunsAnswer(Model):
    available: bool = Field(description="whether the web process has a folder of runs")
    runs: list[RunModel] = Field(description="the newest first, at most 500")
    scenarios: list[str] = Field(description="scenarios that Sluice includes")
    fabrics: list[RunFabricModel]


class RunPlanModel(Model):
    scenario: str
    scheme: str = Field(description="of a sweep, all schemes with commas between them")
    points: int | None = Field(description="of a sweep; null for a run")
    on: str
    predicted_s: float | None = Field(description="from the usual pace of one core; null if unknown")
    asks: bool = Field(description="it takes an hour or longer, so its start needs `confirmed`")
    obstacle: str | None = Field(description="why it cannot start now")


class StartedRunModel(Model):
    name: str
    predicted_s: float | None


class CancelledRunModel(Model):
    name: str


class ReportQuery(Model):
    run: list[str] = Field(min_length=1, max_length=50, description="names of runs or sweeps")
    baseline: str | None = Field(
        None,
        pattern=f"^{entries.SCHEME.pattern}$",
        description="the scheme that the others are compared with; by default the first",
    )


CALL_S = 60.0
REPORT_S = 150.0
RESTART_S = 5.0
END_S = 70.0
"""The manager's longest end: its runs write their bundles, and the testbed stops its processes."""


@dataclass
class ManagerProcess:
    """The process. All methods run in the web process's main thread, because it dies with the thread that starts it."""

    folder: Path
    simulations: int
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="sluice-runs-")))
    """Of the socket. Only this user can enter it."""
    _process: subprocess.Popen[bytes] | None = None
    _started_s: float = 0.0

    @property
    def socket(self) -> Path:
        return self.home / "socket"

    def start(self) -> None:
        """Start it. It answers after a second or two."""
        argv = [sys.executable, "-m", "sluice.run_manager", "--folder", str(self.folder)]
        argv += ["--socket", str(self.socket), "--simulations", str(self.simulations)]
        self._process, self._started_s = spawn(argv), time.monotonic()

    def check(self) -> None:
        """Start it again if it has ended, but not more often than every few seconds."""
        if self._process is None or self._process.poll() is None:
            return
        if time.monotonic() - self._started_s >= RESTART_S:
            log.warning("the process of the runs has ended; starting it again")
            self.start()

    def stop(self) -> None:
        """End it and its runs in order."""
        if self._process is not None:
            stop(self._process, grace_s=END_S)
        shutil.rmtree(self.home, ignore_errors=True)


def ask(socket: Path | None, do: str, **request: Any) -> dict[str, Any]:
    """Return the manager's answer. Raises ApiError: what the manager refuses, 503 if it is away, 404 without one."""
    if socket is None:
        raise ApiError(
            404,
            "no-runs",
            "this web process has no folder of runs; start it with --runs DIR to start runs here",
        )
    try:
        answer = call(socket, {"do": do, **request}, REPORT_S if do == "report" else CALL_S)
    except CallFailed as failure:
        problem = f"the process of the runs does not answer ({failure}); try again in some seconds"
        raise ApiError(503, "runs-away", problem) from None
    error = answer.get("error")
    if error:
        raise ApiError(error["status"], error["code"], error["problem"], error["field"])
    return answer


api = Api("runs", __name__, "Runs and sweeps of a folder, on the simulator and on the testbed")

MAX_BODY_BYTES = 200_000


def run_schema() -> dict[str, Any]:
    """Return the schema of a request for a run. What it imports would take a twentieth of a web process's start."""
    from sluice.policy.wire.runs import RunRequest

    return schema(RunRequest)


@dataclass(frozen=True)
class RunName:
    """Which run."""

    name: str = entry(Text(longest=300), "Path of the run in the folder of runs.")


@api.get("/runs", answers=RunsAnswer)
def list_runs() -> Response:
    """The runs and sweeps of the folder, and what can be started. Empty if the web process has no folder of runs."""
    socket = services().run_manager
    if socket is None:
        return jsonify(available=False, runs=[], scenarios=[], fabrics=[])
    return jsonify({"available": True, **ask(socket, "list")})


@api.post("/runs/check", answers=RunPlanModel, errors=[404, 409], token=True, body=run_schema)
def check_run() -> Response:
    """Check a run or a sweep and predict its length. Nothing starts. Needs a token with the role change."""
    require_token()
    return jsonify(ask(services().run_manager, "check", run=read_json(MAX_BODY_BYTES)))


@api.post("/runs", answers={201: StartedRunModel}, errors=[404, 409], token=True, body=run_schema)
def start_run() -> Response:
    """Start a run or a sweep. It continues without the browser, and ends with the web process. Needs the role change.

    Answers 409 `long` if it takes an hour or longer and `confirmed` is false, and 409 `busy` if no other run can start
    now. One run at a time uses the testbed. A sweep takes the simulations that are free at its start, at most one for
    each point.
    """
    caller = require_token()
    body = read_json(MAX_BODY_BYTES)
    who = {"by": caller.name, "address": caller.address}
    started = ask(services().run_manager, "start", run=body, who=who)
    add_act(services().engine, "run-started", caller, run=started["name"], on=body["on"])
    return make_response(jsonify(started), 201)


@api.post("/runs/cancellation", answers=CancelledRunModel, errors=[404, 409], token=True, body=RunName)
def cancel_run() -> Response:
    """End a run or a sweep in order. What has ended stays: a run's flows, a sweep's points. Needs the role change."""
    caller = require_token()
    name = read(RunName, read_json(MAX_BODY_BYTES)).name
    cancelled = ask(services().run_manager, "cancel", name=name)
    add_act(services().engine, "run-cancelled", caller, run=name)
    return jsonify(cancelled)


@api.get("/runs/report", answers={200: None}, errors=[404, 409])
def read_report(query: ReportQuery) -> Response:
    """The HTML page that `sluice compare` makes of these runs."""
    html = ask(services().run_manager, "report", names=query.run, baseline=query.baseline)["html"]
    return Response(html, mimetype="text/html", headers={"Cache-Control": "no-store"})
