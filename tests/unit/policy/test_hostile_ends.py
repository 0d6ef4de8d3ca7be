# SPDX-License-Identifier: Apache-2.0
"""A host that forges FINs, or opens tiny connections, at one port of a switch with three honest senders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS, TRUNKS
from sluice.policy.schema.desired import Policy
from sluice.policy.thresholds.adaptation import Adaptation, PortCounters
from sluice.policy.thresholds.online import best_thresholds, cost_of
from sluice.policy.thresholds.static import known_delays
from tests.unit.policy.port_counters import counted, nothing, plus
from tests.unit.policy.test_adaptation import RATE_BPS, WEB_SEARCH, mix, policy, span_ns

HONEST, HOSTILE = (1, 2, 3), 4
LARGE, SMALL = tags.ATTAINED_LAST, tags.ATTAINED_FIRST

SCHEMES: dict[str, dict[str, Any]] = {
    "mlfq-adaptive": {"percentiles": [10]},
    "sluice": {"thresholds": ["100KB"], "mark_by": "port"},
}


def wanted(scheme: str, **fields: Any) -> Policy:
    return policy(scheme, queues=2, window_ms=3_600_000, **SCHEMES[scheme], **fields)


def honest(flows: int = 100) -> PortCounters:
    """Return equal traffic of all honest senders: 80 % flows of 10 KB, 20 % of 1 MB."""
    found = nothing()
    for group in HONEST:
        found = plus(found, mix(10_000, 1_000_000, flows, group=group))
    return found


def forged(tag: int, count: int, group: int = HOSTILE) -> PortCounters:
    """Return FINs without payload."""
    found = nothing()
    found.completed[0, group, tag - tags.ATTAINED_FIRST] = found.packets[0, tag] = count
    found.bytes[0, tag] = 66 * count
    return found


def tiny(count: int) -> PortCounters:
    """Return connections that carry 100 bytes each."""
    return counted([100] * count, group=HOSTILE)


def thresholds(of: Policy, counters: PortCounters) -> tuple[int, ...]:
    port = Adaptation(of, [RATE_BPS])
    port.observe(0, nothing())
    port.observe(span_ns(honest(), 0.8), counters)
    port.adjust()
    return port.thresholds(0)


ATTACKS = {
    "large": forged(LARGE, 3_000),
    "small": forged(SMALL, 3_000),
    "in the middle": forged(tags.attained_tag(500_000), 3_000),
    "tiny": tiny(3_000),
}


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("attack", list(ATTACKS))
def test_ten_times_as_many_ends_as_honest_ones_move_no_threshold(scheme: str, attack: str) -> None:
    assert thresholds(wanted(scheme), honest()) == (10_000,)
    assert thresholds(wanted(scheme), plus(honest(), ATTACKS[attack])) == (10_000,)


@pytest.mark.parametrize(
    ("scheme", "attack", "moved"),
    [
        ("mlfq-adaptive", "large", tags.EDGES_BYTES[-1]),
        ("mlfq-adaptive", "small", 1_000),
        ("mlfq-adaptive", "tiny", 1_000),
        ("sluice", "in the middle", 562_341),
    ],
)
def test_without_robust_ends_they_move_it(scheme: str, attack: str, moved: int) -> None:
    found = thresholds(wanted(scheme, robust_ends=False), plus(honest(), ATTACKS[attack]))
    assert found == (moved,)


def test_large_forged_ends_are_not_believed_even_where_only_one_other_sends() -> None:
    """Rule 1 needs no company."""
    alone = mix(10_000, 1_000_000, 100, group=1)
    assert thresholds(wanted("mlfq-adaptive"), plus(alone, forged(LARGE, 3_000))) == (10_000,)


def test_fins_of_one_host_do_not_replace_what_persistent_connections_show() -> None:
    """Their bytes show 300 flows. Forged FINs of 1 KB are more than these."""
    persistent = nothing()
    for group in HONEST:
        persistent = plus(persistent, mix(10_000, 1_000_000, 100, fins=False, group=group))
    before = thresholds(wanted("sluice"), persistent)
    assert before in [(10_000,), (13_335,)]
    assert thresholds(wanted("sluice"), plus(persistent, forged(SMALL, 3_000))) == before


def regret(attack: str, **fields: Any) -> float:
    """Return how much larger the mean slowdown of honest flows is than at best: web search, four levels."""
    levels, load = 4, 0.8
    sizes = np.rint(WEB_SEARCH.at((np.arange(900) + 0.5) / 900)[0])
    counters = nothing()
    for turn, group in enumerate(HONEST):
        counters = plus(counters, counted(sizes[turn::3], group=group))
    port = Adaptation(policy(queues=levels, window_ms=3_600_000, mark_by="port", **fields), [RATE_BPS])
    port.observe(0, nothing())
    port.observe(span_ns(counters, load), plus(counters, ATTACKS[attack]))
    port.adjust()
    true = known_delays(WEB_SEARCH, load, levels)
    return float(cost_of(true, port.edges)[0] / best_thresholds(true, levels)[1][0] - 1)


@pytest.mark.parametrize("attack", list(ATTACKS))
def test_online__honest_flows_lose_little_of_their_mean_slowdown(attack: str) -> None:
    assert regret(attack) < 0.02


def test_online__without_robust_ends_they_lose_more_than_half() -> None:
    assert regret("large", robust_ends=False) > 0.5


def test_a_host_behind_a_trunk_is_not_told_from_the_others_there() -> None:
    """The limit of rule 2: a trunk carries many hosts, and counts in full."""
    attack = plus(honest(), forged(SMALL, 3_000, group=TRUNKS))
    assert thresholds(wanted("mlfq-adaptive"), attack) == (1_000,)
    assert attack.completed.shape[1] == INGRESS_GROUPS
