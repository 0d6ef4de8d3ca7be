# SPDX-License-Identifier: Apache-2.0
"""The network: health, topology, schemes."""

from __future__ import annotations

import time

from flask import Response, jsonify

from sluice.policy.schemes import SCHEMES
from sluice.store.desired import current_topology
from sluice.webui.api import blueprint
from sluice.webui.documents import fabric_of, health_document, scheme_document
from sluice.webui.health_models import HealthAnswer, TopologyAnswer
from sluice.webui.policy_models import SchemesAnswer
from sluice.webui.services import services

api = blueprint("network", __name__, "Health, topology, schemes")


@api.get("/health", responses={200: HealthAnswer})
def health() -> Response:
    """Whether the store, the controller, its switches and the agents work."""
    engine = services().engine
    return jsonify(health_document(engine, time.time(), current_topology(engine)))


@api.get("/topology", responses={200: TopologyAnswer})
def topology() -> Response:
    """Hosts, switches and ports; null until a network has been started."""
    current = current_topology(services().engine)
    return jsonify(topology=current.to_document() if current else None)


@api.get("/schemes", responses={200: SchemesAnswer})
def schemes() -> Response:
    """The schemes that a policy can name, with their defaults and colours."""
    fabric = fabric_of(services().engine)
    return jsonify(schemes=[scheme_document(scheme, fabric) for scheme in SCHEMES.values()])
