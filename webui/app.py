# SPDX-License-Identifier: Apache-2.0
"""The application factory."""

from __future__ import annotations

import threading
from pathlib import Path

from flask import Response
from flask_openapi3.models.info import Info
from flask_openapi3.openapi import OpenAPI
from sqlalchemy import Engine

from sluice.webui import __version__
from sluice.webui.alerts.settings import AlertSettings
from sluice.webui.api import (
    agents,
    alerts,
    classes,
    description,
    enrolment,
    events,
    flows,
    network,
    observed,
    one_host,
    overrides,
    policies,
    runs,
    sanctions,
    scoreboard,
    tokens,
)
from sluice.webui.api_page import api_page
from sluice.webui.authority import Authority
from sluice.webui.error_models import Error
from sluice.webui.errors import query_error, register_errors
from sluice.webui.heartbeats import Heartbeats
from sluice.webui.hosts import allowed_hosts, check_host
from sluice.webui.identity import Refusals, check_channel, write_refusal
from sluice.webui.ingestion import Ingestion
from sluice.webui.live import Live
from sluice.webui.metrics import metrics
from sluice.webui.pages import pages
from sluice.webui.places import MOST_STREAMS, StreamPlaces
from sluice.webui.recent import RecentFlows
from sluice.webui.services import EXTENSION, Services

_HEADERS = {
    # The dashboard loads nothing from other servers. uPlot, the chart library, sets style
    # attributes.
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def create_app(
    engine: Engine,
    token: str,
    stopping: threading.Event | None = None,
    authority: Authority | None = None,
    hosts: frozenset[str] = allowed_hosts((), ()),
    most_streams: int = MOST_STREAMS,
    run_manager: Path | None = None,
    alert_settings: AlertSettings | None = None,
) -> OpenAPI:
    """Return the web application for a store. A policy change needs `token`.

    `authority` certifies agents of other machines; None: there are none. `hosts`: the names under which it answers.
    `run_manager`: the socket of the process of runs; None: there is none.
    """
    app = OpenAPI(
        __name__,
        info=Info(title="Sluice", version=__version__, description="Flow scheduling: policy, ports, flows."),
        security_schemes={"bearer": {"type": "http", "scheme": "bearer"}},
        validation_error_callback=query_error,
        validation_error_model=Error,
        doc_ui=False,
    )
    stopping = stopping or threading.Event()
    recent = RecentFlows(engine)
    alert_settings = alert_settings or AlertSettings()
    app.extensions[EXTENSION] = Services(
        engine,
        token,
        recent,
        Live(engine, recent, stopping, alert_settings),
        Ingestion(engine),
        Heartbeats(engine),
        stopping,
        Refusals(write_refusal(engine)),
        authority,
        hosts,
        StreamPlaces(most_streams),
        run_manager,
        alert_settings,
    )
    app.json.sort_keys = False  # type: ignore[attr-defined]
    for module in (
        network,
        description,
        policies,
        overrides,
        observed,
        classes,
        sanctions,
        flows,
        one_host,
        scoreboard,
        alerts,
        runs,
        agents,
        enrolment,
        tokens,
        events,
    ):
        app.register_api(module.api)
    app.register_blueprint(pages)
    app.register_blueprint(metrics)
    app.register_blueprint(api_page)
    app.add_url_rule("/health", "health", network.health)  # where probes of operators look
    app.add_url_rule("/openapi/openapi.json", "openapi", lambda: app.api_doc)
    register_errors(app)
    app.before_request(check_host)
    app.before_request(check_channel)
    app.after_request(_secure)
    return app


def _secure(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    if response.mimetype == "application/json":
        response.headers.setdefault("Cache-Control", "no-store")
    return response
