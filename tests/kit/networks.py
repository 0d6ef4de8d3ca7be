# SPDX-License-Identifier: Apache-2.0
"""Networks small enough to compute by hand."""

from __future__ import annotations

from sluice.policy.network.graph import Port, Topology, host, switch

RATE_BPS = 100_000_000


def star(hosts: int = 4, rate_bps: int = RATE_BPS) -> Topology:
    """Return a network of one switch without delays."""
    ports = tuple(Port("s1", i, f"h{i}", 0, rate_bps, edge=True) for i in range(1, hosts + 1))
    return Topology("single", tuple(host(i) for i in range(1, hosts + 1)), (switch(1),), ports)
