# SPDX-License-Identifier: Apache-2.0
"""The two kinds of link that topologies are made of."""

from __future__ import annotations

from collections.abc import Mapping

from policy.graph import Host, Port, Switch


def host_link(switch: Switch, number: int, host: Host, values: Mapping[str, int]) -> Port:
    """The switch port of a host."""
    return Port(
        switch=switch.name,
        number=number,
        peer=host.name,
        peer_port=0,
        rate_bps=values["host_rate_bps"],
        delay_ns=values["link_delay_ns"] + values["host_delay_ns"],
        edge=True,
    )


def core_link(
    a: Switch, a_number: int, b: Switch, b_number: int, values: Mapping[str, int]
) -> tuple[Port, Port]:
    """The two ports of a link between switches."""
    rate_bps, delay_ns = values["core_rate_bps"], values["link_delay_ns"]
    return (
        Port(a.name, a_number, b.name, b_number, rate_bps, delay_ns),
        Port(b.name, b_number, a.name, a_number, rate_bps, delay_ns),
    )
