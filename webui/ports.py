# SPDX-License-Identifier: Apache-2.0
"""The switch ports, as the controller observed them: thresholds in force, rates, queues, and demoted hosts."""

import time

from flask import Response, jsonify
from pydantic import Field

from sluice.store.desired import current_topology
from sluice.store.observed import port_history, threshold_history
from sluice.webui import figures
from sluice.webui.api import Api, Model, PortId, Since
from sluice.webui.documents import ports_now, sanctions_now, threshold_document, thresholds_now
from sluice.webui.services import services

# ── Models of the requests and answers ───────────────────────────────────────────────────────────────────────────────


class ThresholdModel(Model):
    at: float
    port: str
    policy_version: int
    thresholds_bytes: list[int]
    flows: int = Field(description="flows from which the port computed the thresholds")


class ThresholdsAnswer(Model):
    now: dict[str, ThresholdModel]
    history: list[ThresholdModel]


class RateModel(Model):
    at: float
    rate_bps: int
    queue_rates_bps: list[int]


class PortLoadModel(Model):
    at: float
    capacity_bps: int | None
    rate_bps: int | None = Field(description="null without recent samples")
    queue_rates_bps: list[int] | None
    load: float | None = Field(description="rate over capacity, 0 to 1")


class PortModel(PortLoadModel):
    queue_bytes: list[int]
    queue_packets: list[int]


class PortsAnswer(Model):
    now: dict[str, PortModel]
    history: dict[str, list[RateModel]]


class SanctionModel(Model):
    port: str
    host: str
    since: float
    flow: str = Field(description="the flow that proved the wrong tag")
    tag: int
    sent_bytes: int = Field(
        description="payload that the flow sent with tags up to this one, or with this size class"
    )
    limit_bytes: int = Field(description="the most that a flow with correct tags can send in that time")
    duration_s: float
    offences: int
    term_s: float = Field(description="seconds without a new proof after which the host is restored")
    rate_bps: int | None = Field(description="the most that the host may send; null without a limit")


class SanctionsAnswer(Model):
    sanctions: list[SanctionModel]


class PortQuery(Model):
    since: Since | None = Field(
        None, description="also return the history after this time, in seconds since the epoch"
    )
    port: list[PortId] | None = Field(None, description="only these ports")


class ThresholdQuery(PortQuery):
    resolution_s: float = Field(
        0,
        ge=0,
        le=3600,
        allow_inf_nan=False,
        description="return only the last change of each port in every interval of this many seconds",
    )


# ── Thresholds, rates and queues ─────────────────────────────────────────────────────────────────────────────────────


api = Api("ports", __name__, "Thresholds, rates and queues of the switch ports")


@api.get("/thresholds", answers=ThresholdsAnswer)
def thresholds(query: ThresholdQuery) -> Response:
    """The demotion thresholds in force at each port; with `since` also every change after that time."""
    engine = services().engine
    now = {port: row for port, row in thresholds_now(engine).items() if not query.port or port in query.port}
    changes = [] if query.since is None else threshold_history(engine, query.since, query.port)
    changes = figures.thinned(changes, query.resolution_s)
    return jsonify(now=now, history=[threshold_document(change) for change in changes])


@api.get("/ports", answers=PortsAnswer)
def ports(query: PortQuery) -> Response:
    """Rate, load and counters of each port; with `since` also each queue's rates after that time."""
    engine = services().engine
    now = ports_now(engine, time.time(), current_topology(engine))
    samples = [] if query.since is None else port_history(engine, query.since, query.port)
    return jsonify(
        now={port: row for port, row in now.items() if not query.port or port in query.port},
        history=figures.port_rates(samples),
    )


# ── Demoted hosts ────────────────────────────────────────────────────────────────────────────────────────────────────


sanctions_api = Api("sanctions", __name__, "Hosts that are demoted because they sent wrong tags")


@sanctions_api.get("/sanctions", answers=SanctionsAnswer)
def sanctions() -> Response:
    """Hosts whose packets count as background traffic now. The events hold past demotions."""
    return jsonify(sanctions=sanctions_now(services().engine))
