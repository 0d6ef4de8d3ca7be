# SPDX-License-Identifier: Apache-2.0
"""The keys of [fabric] that every topology has: rates, delays and failures of links."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.policy.entries import entry
from sluice.policy.kinds import Duration, ListOf, Rate, Text
from sluice.policy.units import NS_PER_S

RATE = Rate(10**6, 800 * 10**9)
DELAY = Duration(0, NS_PER_S)


@dataclass(frozen=True, kw_only=True)
class Links:
    """Rates, delays and failures. The delay of a host's link is link delay plus host delay."""

    host_rate_bps: int = entry(
        RATE, "Rate of the links to hosts.", key="host_rate", title="Host rate", default=100 * 10**6
    )
    core_rate_bps: int = entry(
        RATE, "Rate of the links between switches.", key="core_rate", title="Core rate", default=100 * 10**6
    )
    link_delay_ns: int = entry(
        DELAY, "Propagation delay of each link.", key="link_delay", title="Link delay", default=0
    )
    host_delay_ns: int = entry(
        DELAY,
        "Delay of a host's link in addition to link_delay.",
        key="host_delay",
        title="Host delay",
        default=0,
    )
    down: tuple[str, ...] = entry(
        ListOf(Text(longest=64), longest=1000),
        'Links between switches that are down, each with the names of its ends, for example ["s1-s5"].',
        default=(),
    )
