# SPDX-License-Identifier: Apache-2.0
"""Whether the kernel can make a qdisc, and what follows for link delays. The attempt loads a module, if there is one.

Without netem, hops have only their own delay, and a warning says so.
"""

import subprocess

from sluice.policy.network.graph import Topology
from sluice.runtime.command import CommandFailed, run

_DELAYED = """qdisc add dev lo root netem delay 1ms
qdisc add dev lo clsact
filter add dev lo ingress protocol all prio 1 matchall action mirred egress redirect dev lo
"""


def try_qdisc(arguments: str) -> str:
    """Make a qdisc in a network namespace of its own. Raises CommandFailed with tc's reason."""
    run(["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", *arguments.split()])
    return "can be made"


def has_netem() -> bool:
    """Return whether the kernel can delay packets, as topologies/commands.py does."""
    try:
        run(["unshare", "--net", "tc", "-batch", "-"], stdin=_DELAYED)
    except (CommandFailed, OSError, subprocess.SubprocessError):
        return False
    return True


HOP_NS = 50_000
"""Time to cross an emulated link (veth, userspace switch, scheduling). It contains any shorter link delay."""


def needs_delays(graph: Topology) -> bool:
    """Return whether a link's delay is longer than a hop's own."""
    return _longest_ns(graph) > HOP_NS


def without_delays(graph: Topology) -> str:
    """Return the warning that the emulation does not reproduce the graph's delays."""
    return (
        f"link delays up to {_longest_ns(graph) / 1000:g} us: this kernel has no netem, so the testbed adds no delay "
        f"to a hop's own (about {HOP_NS / 1000:g} us), and round trips are shorter than in the scenario. "
        "`sluice doctor` names the remedy"
    )


def _longest_ns(graph: Topology) -> int:
    return max((port.delay_ns for port in graph.ports), default=0)
