# SPDX-License-Identifier: Apache-2.0
"""The application factory, and the pages: the dashboard, the runs, and Swagger UI for the OpenAPI document.

All data of the pages comes through the API.
"""

import re
import threading
from functools import cache, partial
from pathlib import Path
from typing import Any

import flask_openapi3_swagger
from flask import Blueprint, Response, render_template
from flask_openapi3.models.info import Info
from flask_openapi3.openapi import OpenAPI
from sqlalchemy import Engine

from sluice.policy.version import VERSION
from sluice.webui import (
    agents,
    auth,
    enrolment,
    flows,
    hosts,
    live,
    network,
    policies,
    ports,
    runs,
    scoreboard,
)
from sluice.webui.access import allowed_hosts, check_channel, check_host
from sluice.webui.api import Error, errors, query_error
from sluice.webui.figures import RecentFlows
from sluice.webui.metrics import metrics
from sluice.webui.services import EXTENSION, Live, Services

# ── Pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# The package flask-openapi3-swagger brings Swagger UI's files. Its own page starts with an inline
# script, which the application's Content-Security-Policy forbids. So the page here starts Swagger UI
# from a file.


pages = Blueprint("pages", __name__)

_STATIC = Path(__file__).resolve().parent / "static"
_IMPORTED = re.compile(r'^import\b[^;"]*"(\.[^"]+)"', re.MULTILINE)


@pages.get("/", endpoint="dashboard")
def dashboard_page() -> str:
    return render_template("dashboard.html", version=VERSION, modules=modules("js/main.js"))


@pages.get("/runs", endpoint="runs")
def runs_page() -> str:
    return render_template("runs.html", version=VERSION, modules=modules("js/runs.js"))


@cache
def modules(entry: str) -> tuple[str, ...]:
    """Return the paths of this module and of all that it imports. A browser that knows them fetches all at once."""
    files = [_STATIC / entry]
    for file in files:
        named = _IMPORTED.findall(file.read_text()) if file.exists() else []  # a library may be missing
        files += dict.fromkeys(
            path for name in named if (path := (file.parent / name).resolve()) not in files
        )
    return tuple(str(file.relative_to(_STATIC)) for file in files)


APIS = (
    network.api,
    network.description_api,
    policies.api,
    policies.overrides_api,
    ports.api,
    flows.classes_api,
    ports.sanctions_api,
    flows.api,
    hosts.api,
    scoreboard.api,
    runs.api,
    agents.api,
    enrolment.api,
    auth.api,
    live.api,
)


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of the API."""
    app = OpenAPI(
        __name__,
        info=Info(title="Sluice", version=VERSION, description="Flow scheduling: policy, ports, flows."),
        security_schemes={"bearer": {"type": "http", "scheme": "bearer"}},
        validation_error_model=Error,
        doc_ui=False,
    )
    for api in APIS:
        app.register_api(api.described())
    document: dict[str, Any] = app.api_doc
    for api in APIS:
        document["components"]["schemas"] |= api.message_schemas()
    return document


_SWAGGER_UI = Path(flask_openapi3_swagger.__file__).parent / "templates" / "swagger"

api_page = Blueprint(
    "api_page", __name__, url_prefix="/openapi", static_folder=_SWAGGER_UI, static_url_path="/swagger-ui"
)


@api_page.get("/", endpoint="reference")
def reference_page() -> str:
    return render_template("openapi.html")


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
    hosts: frozenset[str] = allowed_hosts((), ()),
    **more: Any,
) -> OpenAPI:
    """Return the web application for a store. A policy change needs `token`. `more`: as Services takes it."""
    app = OpenAPI(__name__, validation_error_callback=query_error, doc_ui=False)
    recent = RecentFlows(engine)
    picture = Live(engine, partial(live.snapshot, engine, recent), stopping or threading.Event())
    app.extensions[EXTENSION] = Services(engine, token, recent, picture, hosts=hosts, **more)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    for api in APIS:
        app.register_api(api)
    app.register_blueprint(pages)
    app.register_blueprint(metrics)
    app.register_blueprint(api_page)
    app.add_url_rule("/health", "health", network.health)  # where probes of operators look
    app.add_url_rule("/openapi/openapi.json", "openapi", openapi_document)
    app.register_blueprint(errors)
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
