# SPDX-License-Identifier: Apache-2.0
"""The switch ports, as the controller observed them: thresholds in force, rates, queues, and demoted hosts."""

import time
from dataclasses import asdict
from typing import Any

from flask import Response, jsonify
from pydantic import Field
from sqlalchemy import Engine

from sluice.policy.network.graph import Topology
from sluice.store import observed
from sluice.store.desired import current_topology
from sluice.webui import figures
from sluice.webui.api import Api, Model, PortId, Since, model_of
from sluice.webui.services import services


class ThresholdModel(model_of(observed.ThresholdChange)):  # type: ignore[misc]
    pass


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


RATE_WINDOW_S = 10.0


def thresholds_now(engine: Engine) -> dict[str, Any]:
    return {port: asdict(change) for port, change in sorted(observed.latest_thresholds(engine).items())}


def capacities_bps(topology: Topology | None) -> dict[str, int]:
    return {port.id: port.rate_bps for port in topology.ports} if topology else {}


def ports_now(engine: Engine, now: float, topology: Topology | None) -> dict[str, Any]:
    """Return each port's latest counters, and its rate over the last seconds (None without recent samples)."""
    capacities, documents = capacities_bps(topology), {}
    rates = figures.port_rates(observed.port_history(engine, now - RATE_WINDOW_S))
    nothing = {"rate_bps": None, "queue_rates_bps": None}
    for sample in observed.newest_port_samples(engine):
        capacity_bps = capacities.get(sample.port)
        rate = (rates.get(sample.port) or [nothing])[-1]
        known = capacity_bps and rate["rate_bps"] is not None
        documents[sample.port] = {
            "capacity_bps": capacity_bps,
            "rate_bps": rate["rate_bps"],
            "queue_rates_bps": rate["queue_rates_bps"],
            "load": round(rate["rate_bps"] / capacity_bps, 4) if known else None,
            "at": sample.at,
            "queue_bytes": sample.queue_bytes,
            "queue_packets": sample.queue_packets,
        }
    return documents


def sanctions_now(engine: Engine) -> list[dict[str, Any]]:
    """Return the demoted hosts, the earliest first."""
    return [asdict(sanction) for sanction in observed.all_sanctions(engine)]


api = Api("ports", __name__, "Thresholds, rates and queues of the switch ports")


@api.get("/thresholds", answers=ThresholdsAnswer)
def thresholds(query: ThresholdQuery) -> Response:
    """The demotion thresholds in force at each port; with `since` also every change after that time."""
    engine = services().engine
    now = {port: row for port, row in thresholds_now(engine).items() if not query.port or port in query.port}
    changes = [] if query.since is None else observed.threshold_history(engine, query.since, query.port)
    changes = figures.thinned(changes, query.resolution_s)
    return jsonify(now=now, history=[asdict(change) for change in changes])


@api.get("/ports", answers=PortsAnswer)
def ports(query: PortQuery) -> Response:
    """Rate, load and counters of each port; with `since` also each queue's rates after that time."""
    engine = services().engine
    now = ports_now(engine, time.time(), current_topology(engine))
    samples = [] if query.since is None else observed.port_history(engine, query.since, query.port)
    return jsonify(
        now={port: row for port, row in now.items() if not query.port or port in query.port},
        history=figures.port_rates(samples),
    )


sanctions_api = Api("sanctions", __name__, "Hosts that are demoted because they sent wrong tags")


@sanctions_api.get("/sanctions", answers=SanctionsAnswer)
def sanctions() -> Response:
    """Hosts whose packets count as background traffic now. The events hold past demotions."""
    return jsonify(sanctions=sanctions_now(services().engine))
