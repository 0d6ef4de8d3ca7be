# SPDX-License-Identifier: Apache-2.0
"""One switch: host hN on port N."""

from __future__ import annotations

from collections.abc import Mapping

from policy.graph import Topology, host, switch
from topologies.parameters import LINK_PARAMETERS, Parameter
from topologies.wiring import host_link

KIND = "single"
PARAMETERS = (Parameter("hosts", 4, 2, 1000), *LINK_PARAMETERS)


def build(values: Mapping[str, int]) -> Topology:
    """From checked parameters."""
    s1 = switch(1)
    hosts = tuple(host(i) for i in range(1, values["hosts"] + 1))
    ports = tuple(host_link(s1, number, h, values) for number, h in enumerate(hosts, start=1))
    return Topology(KIND, hosts, (s1,), ports, dict(values))
