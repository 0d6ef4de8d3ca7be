# SPDX-License-Identifier: Apache-2.0
"""The description of a network that no one has described: it follows from what the switches report. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.policy.graph import Unknown
from sluice.policy.network import DeclaredHost, DeclaredPort, DeclaredSwitch, Network
from sluice.policy.sightings import OWN_PORT, SeenSwitch, Sightings


def discovered(seen: Sightings) -> Network:
    """Describe what the switches report: links by LLDP, everything else as ports with learned hosts."""
    names = _switch_names(seen)
    switches = tuple(
        DeclaredSwitch(names[dpid], f"{dpid:016x}", port=tuple(_discovered_ports(switch, seen, names)))
        for dpid, switch in sorted(seen.switches.items())
    )
    return Network(switches, unknown=str(Unknown.FLOOD), host=tuple(_discovered_hosts(seen, names)))


def _discovered_hosts(seen: Sightings, switches: dict[int, str]) -> Iterator[DeclaredHost]:
    taken = set(switches.values())
    for mac, host in sorted(seen.hosts.items()):
        name = host.name if host.name not in taken else host.learned_name
        taken.add(name)
        yield DeclaredHost(name, mac, host.ipv4 or None, host.ipv6 or None)


def _discovered_ports(switch: SeenSwitch, seen: Sightings, names: dict[int, str]) -> Iterator[DeclaredPort]:
    for port in switch.ports:
        other = seen.links.get((switch.dpid, port.number))
        far = seen.switches.get(other[0]) if other else None
        if port.number == OWN_PORT:
            continue  # Sluice forwards to it, and a description cannot give it queues
        if other is None:
            yield DeclaredPort(port.name, port.rate_bps or None)
        elif far is not None and seen.links.get(other) == (switch.dpid, port.number):
            to = next((p.name for p in far.ports if p.number == other[1]), None)
            yield DeclaredPort(port.name, port.rate_bps or None, to=f"{names[far.dpid]}:{to}")


def _switch_names(seen: Sightings) -> dict[int, str]:
    """Return the name of each bridge; the datapath id decides if two bridges have one name."""
    names: dict[int, str] = {}
    for dpid, switch in sorted(seen.switches.items()):
        plain = switch.name or f"s{dpid:x}"
        names[dpid] = plain if plain not in names.values() else f"{plain}-{dpid:x}"
    return names
