# SPDX-License-Identifier: Apache-2.0
"""Link delays of a testbed: by netem if the kernel has it. Otherwise a warning says that hops have only their own."""

from __future__ import annotations

from sluice.policy.network.graph import Topology

HOP_NS = 50_000
"""Time to cross an emulated link (veth, userspace switch, scheduling). It contains any shorter link delay."""


def needs_delays(graph: Topology) -> bool:
    """Return whether a link's delay is longer than a hop's own."""
    return _longest_ns(graph) > HOP_NS


def delay_warnings(graph: Topology, has_netem: bool) -> list[str]:
    """Return a warning if the graph has delays that the emulation does not reproduce."""
    if has_netem or not needs_delays(graph):
        return []
    return [
        f"link delays up to {_longest_ns(graph) / 1000:g} us: this kernel has no netem, so the testbed adds no delay "
        f"to a hop's own (about {HOP_NS / 1000:g} us), and round trips are shorter than in the scenario. "
        "`sluice doctor` names the remedy"
    ]


def _longest_ns(graph: Topology) -> int:
    return max((port.delay_ns for port in graph.ports), default=0)
