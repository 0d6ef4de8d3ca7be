# SPDX-License-Identifier: Apache-2.0
"""Link delays: a testbed has the delay of its veth pairs and switches, and adds none.

Adding one takes netem, which many kernels are built without, and which would sit where Open vSwitch has its queues.
"""

from __future__ import annotations

from policy.graph import Topology

HOP_NS = 50_000
"""What crossing an emulated link takes by itself (veth, userspace switch, scheduling); a delay below it is in there."""


def delay_warnings(graph: Topology) -> list[str]:
    """What the graph asks for and the emulation does not do."""
    longest_ns = max((port.delay_ns for port in graph.ports), default=0)
    if longest_ns <= HOP_NS:
        return []
    return [
        f"link delays up to {longest_ns / 1000:g} us are asked, but this testbed delays packets only by what a hop "
        f"takes by itself (about {HOP_NS / 1000:g} us): round trips will be shorter than in the scenario"
    ]
