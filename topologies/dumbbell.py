# SPDX-License-Identifier: Apache-2.0
"""Two switches and one link between them: h1 … hL at s1, the others at s2. The link is the last port of both."""

from dataclasses import asdict, dataclass

from sluice.policy.network.graph import Links, Topology, host, switch
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Whole
from sluice.topologies.wiring import core_link, host_link

KIND = "dumbbell"


@dataclass(frozen=True, kw_only=True)
class Parameters(Links):
    left: int = entry(Whole(1, 500), "Hosts at the first switch.", default=2)
    right: int = entry(Whole(1, 500), "Hosts at the second switch.", default=2)


def build(values: Parameters) -> Topology:
    s1, s2 = switch(1), switch(2)
    left, right = values.left, values.right
    hosts = tuple(host(i) for i in range(1, left + right + 1))
    ports = (
        *(host_link(s1, number, h, values) for number, h in enumerate(hosts[:left], start=1)),
        *(host_link(s2, number, h, values) for number, h in enumerate(hosts[left:], start=1)),
        *core_link(s1, left + 1, s2, right + 1, values),
    )
    return Topology(KIND, hosts, (s1, s2), ports, asdict(values))
