# SPDX-License-Identifier: Apache-2.0
"""Link delays. A testbed adds none to the delay of its veth pairs and switches.

Only netem could add one. Many kernels are built without netem, and it would take the place of Open vSwitch's queues.
"""

from __future__ import annotations

from policy.graph import Topology

HOP_NS = 50_000
"""Time to cross an emulated link (veth, userspace switch, scheduling). It contains any shorter link delay."""


def delay_warnings(graph: Topology) -> list[str]:
    """Return a warning if the graph has delays that the emulation does not reproduce."""
    longest_ns = max((port.delay_ns for port in graph.ports), default=0)
    if longest_ns <= HOP_NS:
        return []
    return [
        f"link delays up to {longest_ns / 1000:g} us: the testbed adds no delay to a hop's own "
        f"(about {HOP_NS / 1000:g} us), so round trips are shorter than in the scenario"
    ]
