# SPDX-License-Identifier: Apache-2.0
"""One host: what its agent reports, its flows, and its link."""

import time
from typing import Any

import numpy as np
from flask import Response, jsonify
from pydantic import Field

from sluice.policy.figures.metrics import distribution
from sluice.policy.network.graph import Topology
from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import HostHeartbeat, LinkCounters
from sluice.store.desired import current_topology
from sluice.store.flow_queries import find_flows, sent_flows
from sluice.store.observed import all_agents
from sluice.webui import figures
from sluice.webui import flows as flow_documents
from sluice.webui.api import AgentPath, Api, ApiError, Model, model_of
from sluice.webui.network import HostAgentModel, agent_document
from sluice.webui.ports import SanctionModel, sanctions_now
from sluice.webui.services import services


class LinkModel(model_of(LinkCounters)):  # type: ignore[misc]
    """Counters of the host's own link."""


class PlaceModel(Model):
    """Where a host is in the network."""

    ipv4: str = Field(description="empty if unknown")
    ipv6: str = Field(description="empty if unknown")
    mac: str
    port: str | None = Field(description="the switch port of the host; null if unknown")
    rate_bps: int | None = Field(description="of that port")


class SentModel(Model):
    """The scheduled and watched flows that the host has sent and that have ended."""

    window_s: float = Field(
        description="the records arrived within this time; shorter than requested if more records arrived"
        " than the server evaluates"
    )
    flows: int
    unfinished: int
    fct: flow_documents.DistributionsModel = Field(description="microseconds")
    slowdown: flow_documents.DistributionsModel
    srtt_us: flow_documents.DistributionModel = Field(
        description="smoothed round-trip times at the ends of watched flows"
    )
    deadlines: flow_documents.DeadlineTotalsModel
    controls: dict[str, int] = Field(description="number of flows by congestion control")


class HostAnswer(Model):
    name: str
    at: float = Field(description="when the server made the answer")
    place: PlaceModel | None = Field(description="null if the network does not name the host")
    agent: HostAgentModel | None = Field(description="null if no agent of this host reports")
    link: LinkModel | None = Field(description="null if the agent is away or reports no counters")
    active: list[flow_documents.ActiveFlowModel] = Field(
        description="flows under way from or to the host, the newest first"
    )
    sent: SentModel
    ended: list[flow_documents.FlowModel] = Field(
        description="the last flows from and to the host, newest first"
    )
    sanctions: list[SanctionModel]


class HostQuery(Model):
    window_s: float = Field(
        60,
        ge=1,
        le=86_400,
        allow_inf_nan=False,
        description="count the flows whose records arrived within this many seconds",
    )


MOST_FLOWS = 20
"""The most ended flows in the document."""


api = Api("hosts", __name__, "One host: its agent, its flows, its link")


@api.get("/hosts/<name>", answers=HostAnswer, errors=[404])
def host(path: AgentPath, query: HostQuery) -> Response:
    """The agent of a host, its flows under way and ended, round trips, deadlines, and the host's own link."""
    engine, name, now = services().engine, path.name, time.time()
    topology, rows = current_topology(engine), all_agents(engine)
    place = _place(topology, name)
    agent = next((row for row in rows if row.name == name and row.kind == HostHeartbeat.KIND), None)
    beats = flow_documents.living_hosts(rows)
    if agent is None and place is None:
        problem = f"neither the network nor an agent knows a host {name}"
        raise ApiError(404, "unknown-host", problem, "name")
    sent = sent_flows(engine, name, now - query.window_s)
    return jsonify(
        name=name,
        at=now,
        place=place,
        agent=agent_document(agent) if agent else None,
        link=write(beats[name].link) if name in beats and beats[name].link else None,
        active=flow_documents.active_flows(beats, topology, name),
        sent={
            "window_s": round(now - sent.since, 3),
            "flows": len(sent.flows),
            "unfinished": int(np.isnan(sent.flows.fct_us).sum()),
            "fct": figures.fct_by_class(sent.flows),
            "slowdown": figures.slowdown_by_class(sent.flows),
            "srtt_us": distribution(sent.srtt_us),
            "deadlines": figures.deadline_totals(sent.flows),
            "controls": dict(sent.controls),
        },
        ended=find_flows(engine, {"host": name}, limit=MOST_FLOWS).rows,
        sanctions=[sanction for sanction in sanctions_now(engine) if sanction["host"] == name],
    )


def _place(topology: Topology | None, name: str) -> dict[str, Any] | None:
    """Return the host's addresses and the switch port to which it is connected; None outside the network."""
    host = topology.host_by_name.get(name) if topology else None
    if topology is None or host is None:
        return None
    leads_there = (
        port for port in topology.ports if port.edge and (port.id == host.port or port.peer == name)
    )
    port = next(leads_there, None)
    return {
        "ipv4": host.ipv4,
        "ipv6": host.ipv6,
        "mac": host.mac,
        "port": port.id if port else None,
        "rate_bps": port.rate_bps if port else None,
    }
