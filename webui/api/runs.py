# SPDX-License-Identifier: Apache-2.0
"""Runs: list those of a folder, compare them, start and cancel them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flask import Response, jsonify, make_response

from sluice.policy.schema.entries import entry, read, schema
from sluice.policy.schema.kinds import Text
from sluice.policy.wire.access import RunRequest
from sluice.store.observed import add_event
from sluice.webui.api import blueprint
from sluice.webui.auth import require_token
from sluice.webui.bodies import read_json
from sluice.webui.error_models import Error
from sluice.webui.queries import ReportQuery
from sluice.webui.request_schemas import request_body
from sluice.webui.run_manager import ask
from sluice.webui.run_models import CancelledRunModel, RunPlanModel, RunsAnswer, StartedRunModel
from sluice.webui.services import services

api = blueprint("runs", __name__, "Runs and sweeps of a folder, on the simulator and on the testbed")

MAX_BODY_BYTES = 200_000
_REFUSALS: dict[str | int, Any] = {
    400: Error,
    401: Error,
    403: Error,
    404: Error,
    409: Error,
    413: Error,
    415: Error,
}


@dataclass(frozen=True)
class RunName:
    """Which run."""

    name: str = entry(Text(longest=300), "Path of the run in the folder of runs.")


@api.get("/runs", responses={200: RunsAnswer})
def list_runs() -> Response:
    """The runs and sweeps of the folder, and what can be started. Empty if the web process has no folder of runs."""
    socket = services().run_manager
    if socket is None:
        return jsonify(available=False, runs=[], scenarios=[], fabrics=[])
    return jsonify({"available": True, **ask(socket, "list")})


@api.post(
    "/runs/check",
    responses={200: RunPlanModel, **_REFUSALS},
    security=[{"bearer": []}],
    openapi_extensions=request_body(schema(RunRequest)),
)
def check_run() -> Response:
    """Check a run or a sweep and predict its length. Nothing starts. Needs a token with the role change."""
    require_token(services().token)
    return jsonify(ask(services().run_manager, "check", run=read_json(MAX_BODY_BYTES)))


@api.post(
    "/runs",
    responses={201: StartedRunModel, **_REFUSALS},
    security=[{"bearer": []}],
    openapi_extensions=request_body(schema(RunRequest)),
)
def start_run() -> Response:
    """Start a run or a sweep. It continues without the browser, and ends with the web process. Needs the role change.

    Answers 409 `long` if it takes an hour or longer and `confirmed` is false, and 409 `busy` if no other run can start
    now. One run at a time uses the testbed. A sweep takes the simulations that are free at its start, at most one for
    each point.
    """
    caller = require_token(services().token)
    body = read_json(MAX_BODY_BYTES)
    who = {"by": caller.name, "address": caller.address}
    started = ask(services().run_manager, "start", run=body, who=who)
    add_event(
        services().engine,
        "run-started",
        run=started["name"],
        on=body["on"],
        by=caller.name,
        address=caller.address,
    )
    return make_response(jsonify(started), 201)


@api.post(
    "/runs/cancellation",
    responses={200: CancelledRunModel, **_REFUSALS},
    security=[{"bearer": []}],
    openapi_extensions=request_body(schema(RunName)),
)
def cancel_run() -> Response:
    """End a run or a sweep in order. What has ended stays: a run's flows, a sweep's points. Needs the role change."""
    caller = require_token(services().token)
    name = read(RunName, read_json(MAX_BODY_BYTES)).name
    cancelled = ask(services().run_manager, "cancel", name=name)
    add_event(services().engine, "run-cancelled", run=name, by=caller.name, address=caller.address)
    return jsonify(cancelled)


@api.get("/runs/report", responses={200: None, 404: Error, 409: Error})
def read_report(query: ReportQuery) -> Response:
    """The HTML page that `sluice compare` makes of these runs."""
    html = ask(services().run_manager, "report", names=query.run, baseline=query.baseline)["html"]
    return Response(html, mimetype="text/html", headers={"Cache-Control": "no-store"})
