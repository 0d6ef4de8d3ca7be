# SPDX-License-Identifier: Apache-2.0
"""What the controller observed at the ports: thresholds in force, rates and queues."""

from __future__ import annotations

import time

from flask import Response, jsonify

from sluice.store.desired import current_topology
from sluice.store.observed import port_history, threshold_history
from sluice.webui import figures
from sluice.webui.api import blueprint
from sluice.webui.documents import ports_now, threshold_document, thresholds_now
from sluice.webui.port_models import PortsAnswer, ThresholdsAnswer
from sluice.webui.queries import PortQuery, ThresholdQuery
from sluice.webui.services import services

api = blueprint("ports", __name__, "Thresholds, rates and queues of the switch ports")


@api.get("/thresholds", responses={200: ThresholdsAnswer})
def thresholds(query: ThresholdQuery) -> Response:
    """The demotion thresholds in force at each port; with `since` also every change after that time."""
    engine = services().engine
    now = {port: row for port, row in thresholds_now(engine).items() if not query.port or port in query.port}
    changes = [] if query.since is None else threshold_history(engine, query.since, query.port)
    changes = figures.thinned(changes, query.resolution_s)
    return jsonify(now=now, history=[threshold_document(change) for change in changes])


@api.get("/ports", responses={200: PortsAnswer})
def ports(query: PortQuery) -> Response:
    """Rate, load and counters of each port; with `since` also each queue's rates after that time."""
    engine = services().engine
    now = ports_now(engine, time.time(), current_topology(engine))
    samples = [] if query.since is None else port_history(engine, query.since, query.port)
    return jsonify(
        now={port: row for port, row in now.items() if not query.port or port in query.port},
        history=figures.port_rates(samples),
    )
