# SPDX-License-Identifier: Apache-2.0
"""The two kinds of link that topologies are made of."""

from __future__ import annotations

from sluice.policy.network.graph import Host, Links, Port, Switch


def host_link(switch: Switch, number: int, host: Host, links: Links) -> Port:
    """The switch port of a host."""
    return Port(
        switch=switch.name,
        number=number,
        peer=host.name,
        peer_port=0,
        rate_bps=links.host_rate_bps,
        delay_ns=links.link_delay_ns + links.host_delay_ns,
        edge=True,
    )


def core_link(a: Switch, a_number: int, b: Switch, b_number: int, links: Links) -> tuple[Port, Port]:
    """The two ports of a link between switches."""
    rate_bps, delay_ns = links.core_rate_bps, links.link_delay_ns
    return (
        Port(a.name, a_number, b.name, b_number, rate_bps, delay_ns),
        Port(b.name, b_number, a.name, a_number, rate_bps, delay_ns),
    )
