# SPDX-License-Identifier: Apache-2.0
"""The API's document of one host: what its agent reports, its flows, and its link."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sqlalchemy import Engine

from sluice.policy.figures.metrics import distribution
from sluice.policy.network.graph import Topology
from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import HostHeartbeat
from sluice.store import ages
from sluice.store.desired import current_topology
from sluice.store.flow_list import SentFlows, find_flows, sent_flows
from sluice.store.observed import all_agents
from sluice.webui import figures
from sluice.webui.active_flows import active_flows
from sluice.webui.documents import agent_document, living_hosts, sanctions_now

MOST_FLOWS = 20
"""The most ended flows in the document."""


def host_document(engine: Engine, name: str, window_s: float) -> dict[str, Any] | None:
    """Return the host's document; None if neither the network nor an agent knows the host."""
    now, age_s = time.time(), ages.age_s(engine)
    place, rows = _place(current_topology(engine), name), all_agents(engine)
    agent = next((row for row in rows if row.name == name and row.kind == HostHeartbeat.KIND), None)
    beats = living_hosts(rows, age_s)
    if agent is None and place is None:
        return None
    return {
        "name": name,
        "at": now,
        "place": place,
        "agent": agent_document(agent, age_s) if agent else None,
        "link": write(beats[name].link) if name in beats and beats[name].link else None,
        "active": active_flows(beats, name),
        "sent": _sent(sent_flows(engine, name, now - window_s), now),
        "ended": find_flows(engine, {"host": name}, limit=MOST_FLOWS).rows,
        "sanctions": [one for one in sanctions_now(engine) if one["host"] == name],
    }


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


def _sent(sent: SentFlows, now: float) -> dict[str, Any]:
    return {
        "window_s": round(now - sent.since, 3),
        "flows": len(sent.flows),
        "unfinished": int(np.isnan(sent.flows.fct_us).sum()),
        "fct": figures.fct_by_class(sent.flows),
        "slowdown": figures.slowdown_by_class(sent.flows),
        "srtt_us": distribution(sent.srtt_us),
        "deadlines": figures.deadline_totals(sent.flows),
        "controls": dict(sent.controls),
    }
