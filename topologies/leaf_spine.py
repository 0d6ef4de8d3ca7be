# SPDX-License-Identifier: Apache-2.0
"""A link from every leaf switch to every spine switch. Leaves are s1 … sL, then come the spines.

Leaf i has its hosts on ports 1 … H and spine j on port H + j. Spine j has leaf i on port i.
"""

from dataclasses import asdict, dataclass

from sluice.policy.network.graph import Links, Topology, host, switch
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Whole
from sluice.topologies.wiring import core_link, host_link

KIND = "leaf-spine"


@dataclass(frozen=True, kw_only=True)
class Parameters(Links):
    leaves: int = entry(Whole(1, 64), "Leaf switches.", default=4)
    spines: int = entry(Whole(1, 64), "Spine switches.", default=2)
    hosts_per_leaf: int = entry(Whole(1, 500), "Hosts at each leaf switch.", default=2)


def build(values: Parameters) -> Topology:
    n_leaves, n_spines, per_leaf = values.leaves, values.spines, values.hosts_per_leaf
    leaves = [switch(i) for i in range(1, n_leaves + 1)]
    spines = [switch(n_leaves + j) for j in range(1, n_spines + 1)]
    hosts = [host(i) for i in range(1, n_leaves * per_leaf + 1)]
    ports = [
        host_link(leaf, number, hosts[i * per_leaf + number - 1], values)
        for i, leaf in enumerate(leaves)
        for number in range(1, per_leaf + 1)
    ]
    for i, leaf in enumerate(leaves, start=1):
        for j, spine in enumerate(spines, start=1):
            ports += core_link(leaf, per_leaf + j, spine, i, values)
    return Topology(KIND, tuple(hosts), (*leaves, *spines), tuple(ports), asdict(values))
