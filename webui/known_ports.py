# SPDX-License-Identifier: Apache-2.0
"""Ports that a request names."""

from __future__ import annotations

from sluice.policy.errors import guess
from sluice.policy.network.graph import Topology
from sluice.webui.errors import ApiError


def check_port(topology: Topology | None, port_id: str) -> None:
    """Raise ApiError 404 unless the network has this port."""
    ports = topology.port_by_id if topology else {}
    if port_id not in ports:
        why = (
            f"the network has no port {port_id}{guess(port_id, ports)}"
            if ports
            else "there is no network yet"
        )
        raise ApiError(404, "no-such-port", why, "port")
