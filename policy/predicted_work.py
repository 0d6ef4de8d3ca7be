# SPDX-License-Identifier: Apache-2.0
"""How much work a scenario is for the simulator, in packet-hops: data packets of all flows times the links they cross.

It is a prediction for planning. It leaves out ACKs and retransmissions, which add about the same share everywhere.
"""

from __future__ import annotations

from policy.explicit import ExplicitWorkload
from policy.framing import MSS_BYTES
from policy.graph import Topology
from policy.scenario import Scenario
from policy.workload import TraceWorkload


def packet_hops(scenario: Scenario, topology: Topology) -> float:
    """Return the predicted packet-hops of a run."""
    return _payload_bytes(scenario, topology) / MSS_BYTES * _mean_hops(topology)


def _payload_bytes(scenario: Scenario, topology: Topology) -> float:
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        fastest = max(topology.edge_port(host.name).rate_bps for host in topology.hosts) / 8
        return sum(flow.bytes or fastest * (flow.until_s or 0.0) for flow in workload.flows)
    if isinstance(workload, TraceWorkload):
        return float(workload.trace.size_bytes[: workload.flows].sum()) * workload.scale
    return workload.flows * workload.sizes.mean_bytes * workload.scale


def _mean_hops(topology: Topology) -> float:
    """Links on a path from the first host to another one, on average. The topologies are symmetric."""
    first, *others = (host.name for host in topology.hosts)
    lengths = [1 + len(topology.one_path(first, other)) for other in others]
    return sum(lengths) / max(len(lengths), 1)
