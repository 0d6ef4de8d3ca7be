# SPDX-License-Identifier: Apache-2.0
"""One name for each host: the description's, its agent's, or one that follows from its address. Pure.

`sluice network discover` writes the third kind into a description. It says nothing about the host, so the name of the
host's agent replaces it, and figures of the agent and of the network are about one host.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.policy.network import Network
from sluice.policy.sightings import Sightings, learned_name


class HostNames:
    """The names of the hosts of a network."""

    def __init__(self, network: Network, seen: Sightings) -> None:
        self._hosts = seen.hosts
        self._declared = {host.name: host.mac.lower() for host in network.host}
        self._taken = {switch.name for switch in network.switch}
        self._shown = {name: self._replaced(name, mac) for name, mac in self._declared.items()}

    def shown(self, declared: str) -> str:
        """Return the name of a described host."""
        return self._shown[declared]

    def learned(self, mac: str) -> str:
        """Return the name of a host that is not described."""
        name = self._hosts[mac].name
        return learned_name(mac) if name in self._declared or name in self._taken else name

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the described hosts whose agents have other names, and the agents with names of others."""
        by_mac = {mac: name for name, mac in self._declared.items()}
        for mac, host in self._hosts.items():
            described = by_mac.get(mac)
            if not host.agent or (described is not None and self._shown[described] == host.agent):
                continue
            if described is not None:
                yield (
                    described,
                    f"its agent has the name {host.agent}; give both one name, because their figures are shown apart",
                )
            elif host.agent in self._declared:
                yield (
                    host.agent,
                    f"the description says {self._declared[host.agent]}, but the agent of this name reports {mac}",
                )

    def _replaced(self, name: str, mac: str) -> str:
        host = self._hosts.get(mac)
        if host is None or not host.agent or name != host.learned_name:
            return name
        return name if host.agent in self._declared or host.agent in self._taken else host.agent
