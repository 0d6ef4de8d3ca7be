# SPDX-License-Identifier: Apache-2.0
"""One switch: host hN on port N."""

from dataclasses import asdict, dataclass

from sluice.policy.network.graph import Links, Topology, host, switch
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Whole
from sluice.topologies.wiring import host_link

KIND = "single"


@dataclass(frozen=True, kw_only=True)
class Parameters(Links):
    hosts: int = entry(Whole(2, 1000), "Hosts at the switch.", default=4)


def build(values: Parameters) -> Topology:
    s1 = switch(1)
    hosts = tuple(host(i) for i in range(1, values.hosts + 1))
    ports = tuple(host_link(s1, number, h, values) for number, h in enumerate(hosts, start=1))
    return Topology(KIND, hosts, (s1,), ports, asdict(values))
