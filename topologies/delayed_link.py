# SPDX-License-Identifier: Apache-2.0
"""A Mininet link with a delay. It has two veth pairs instead of one (topologies/commands/delays.py)."""

from __future__ import annotations

from typing import Any

from mininet.link import Link

from sluice.policy.network.graph import Port
from sluice.runtime.command import run
from sluice.topologies.commands import delays


class DelayedLink(Link):  # type: ignore[misc]
    """The link of a switch port. In the topology, the port's end is `port_end`: the first or the second."""

    def __init__(self, *nodes: Any, port: Port, port_end: int, **options: Any) -> None:
        self._port, self._port_end = port, port_end
        super().__init__(*nodes, **options)

    def makeIntfPair(  # Mininet calls it
        self,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Any = None,
        node2: Any = None,
        deleteIntfs: bool = True,
    ) -> None:
        """Make both pairs. The inner ends are in the network namespace of the switches, which is this process's."""
        ends = [(intfname1, node1), (intfname2, node2)]
        if self._port_end == 1:
            ends.reverse()
        for inner, (outer, node) in zip(delays.inner_ends(self._port), ends, strict=True):
            run(delays.pair(inner, outer, node.pid).argv)
        for command in delays.delayed(self._port):
            run(command.argv, stdin=command.stdin)
