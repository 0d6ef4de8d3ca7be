# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS, TRUNKS
from sluice.policy.schema.desired import Policy
from sluice.policy.thresholds.adaptation import Adaptation, PortCounters
from sluice.policy.thresholds.online import delay_terms
from sluice.policy.thresholds.static import known_delays
from sluice.policy.workload.sizes import Mix, MixPart, Sizes
from sluice.runs.files import load_cdf
from tests.kit.controller import counted, nothing, plus
from tests.kit.flows import mean_slowdown

MS = 1_000_000
RATE_BPS = 10**9

WEB_SEARCH = load_cdf("web-search")


def policy(scheme: str = "sluice", **fields: Any) -> Policy:
    return Policy.from_document({"scheme": scheme, **fields})


def two_queues(**fields: Any) -> Policy:
    """Return a policy with two levels of demotion and no least threshold, so that the answer is clear."""
    return policy(queues=2, thresholds=fields.pop("start", ["100KB"]), mark_by="port", **fields)


def mix(short_bytes: int, long_bytes: int, flows: int, **how: Any) -> PortCounters:
    return counted([short_bytes] * (flows * 4 // 5) + [long_bytes] * (flows // 5), **how)


def span_ns(counters: PortCounters, load: float) -> int:
    """Return the time in which the link carries that many bytes at this load."""
    return int(counters.bytes.sum() * 8 / RATE_BPS / load * 1e9)


class Port:
    """A port under traffic: counters grow, and time passes."""

    def __init__(self, wanted: Policy, **how: Any) -> None:
        self.adaptation = Adaptation(wanted, [RATE_BPS], **how)
        self.now_ns = 0
        self.counters = nothing()
        self.adaptation.observe(0, self.counters)

    def carries(self, counters: PortCounters, load: float = 0.8) -> tuple[int, ...] | None:
        self.now_ns += span_ns(counters, load)
        self.counters = plus(self.counters, counters)
        self.adaptation.observe(self.now_ns, self.counters)
        return self.adjusted()

    def adjusted(self) -> tuple[int, ...] | None:
        """Return the thresholds if they moved; None if they stay."""
        return self.adaptation.thresholds(0) if self.adaptation.adjust()[0] else None

    @property
    def thresholds(self) -> tuple[int, ...]:
        return self.adaptation.thresholds(0)


# ── Percentiles ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_thresholds__percentiles_of_the_completed_flows() -> None:
    wanted = policy("mlfq-adaptive", percentiles=[10])
    port = Port(wanted)
    assert port.carries(mix(10_000, 1_000_000, 100)) == (10_000,)
    assert port.adaptation.flows[0] == 100


def test_thresholds__fewer_flows_than_the_policy_asks_for_change_nothing() -> None:
    port = Port(policy("mlfq-adaptive", percentiles=[10], min_flows=6))
    assert port.carries(counted([10_000] * 5)) is None


def test_thresholds__schemes_that_do_not_adapt_have_no_answer() -> None:
    for scheme in ("dctcp", "pias"):
        assert Port(policy(scheme)).carries(mix(10_000, 1_000_000, 100)) is None


def test_adopt__goes_on_with_what_was_seen() -> None:
    port = Port(policy("mlfq-adaptive", percentiles=[10]))
    port.carries(mix(10_000, 1_000_000, 100))
    port.adaptation.adopt(policy("mlfq-adaptive", percentiles=[90]))
    assert port.adjusted() == (1_000_000,)


# ── Online ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("start", ["1KB", "1MB"])
@pytest.mark.parametrize("fins", [True, False])
def test_online__finds_the_end_of_the_short_flows_from_wherever_it_starts(start: str, fins: bool) -> None:
    """The mix of the adaptive-threshold paper, without a percentile; just above the size at which
    FINs no longer suffice."""
    port = Port(two_queues(start=[start]))
    port.carries(mix(10_000, 1_000_000, 200, fins=fins))
    assert port.thresholds in ([(10_000,)] if fins else [(10_000,), (13_335,)])


def test_online__a_port_of_unknown_rate_is_taken_for_loaded() -> None:
    port = Adaptation(two_queues(), [None])
    port.observe(0, nothing())
    port.observe(MS, mix(10_000, 1_000_000, 200))
    port.adjust()
    assert port.thresholds(0) == (10_000,)


@pytest.mark.parametrize("fins", [True, False])
@pytest.mark.parametrize("flows", [19, 21])
def test_online__few_flows_change_nothing(flows: int, fins: bool) -> None:
    """By default at least 20, counted by FINs or estimated from bytes."""
    found = Port(two_queues()).carries(counted([10_000] * (flows - 4) + [1_000_000] * 4, fins=fins))
    assert (found is None) == (flows < 20)


def test_online__nothing_seen_is_no_answer() -> None:
    port = Adaptation(policy(), [RATE_BPS])
    assert (bool(port.adjust().any()), port.flows.tolist()) == (False, [0])
    port.observe(0, mix(10_000, 1_000_000, 200))
    assert (bool(port.adjust().any()), port.flows.tolist()) == (False, [0])


def test_online__follows_a_shift_of_the_traffic_within_a_window() -> None:
    """The short flows become four times as long. After one window, nothing of the earlier ones is left."""
    before, after = mix(10_000, 1_000_000, 20), mix(42_170, 1_000_000, 20)
    port = Port(two_queues(window_ms=500))
    for _ in range(20):
        port.carries(before)
    assert port.thresholds == (10_000,)
    shifted_ns = port.now_ns
    while port.now_ns < shifted_ns + 500 * MS:
        port.carries(after)
    port.carries(after)
    assert port.thresholds == (42_170,)


def test_online__urgent_traffic_is_no_flow_of_a_level_but_goes_before_the_lower_ones() -> None:
    flows = mix(10_000, 1_000_000, 200)
    urgent = nothing()
    urgent.bytes[0, tags.URGENCY_LAST] = flows.bytes.sum() // 4
    urgent.packets[0, tags.URGENCY_LAST] = flows.bytes.sum() // 4 // 1514
    port = Port(two_queues())
    assert port.carries(plus(flows, urgent)) == (10_000,)
    assert port.adaptation.flows[0] == 200


def test_online__no_threshold_is_below_the_marking_threshold_of_a_queue() -> None:
    """A flow's first window would be in two queues. Lower thresholds in force move up, whatever they cost."""
    port = Port(policy(queues=2, thresholds=["100KB"], mark_at="20pkt"))
    assert port.carries(mix(10_000, 1_000_000, 200)) == (31_623,)
    low = Port(policy(queues=2, thresholds=["10KB"], mark_at="20pkt"))
    assert low.carries(mix(10_000, 1_000_000, 200), load=0.01) == (31_623,)


def regret(thresholds: Sequence[int], sizes: Sizes, load: float, levels: int) -> float:
    """Return how much worse these thresholds are than the best ones for the true distribution."""
    true = known_delays(sizes, load, levels)
    _, best = delay_terms(true, levels).best()
    chosen = np.asarray([[tags.edge_index(t) for t in thresholds]])
    return float(mean_slowdown(true, chosen)[0] / best[0] - 1)


@pytest.mark.parametrize("fins", [True, False])
@pytest.mark.parametrize(
    "sizes",
    [WEB_SEARCH, Mix((MixPart(10_000, 0.8), MixPart(1_000_000, 0.2)))],
    ids=["web-search", "mix"],
)
def test_online__comes_to_the_optimum_of_the_true_distribution_as_counts_grow(
    sizes: Sizes, fins: bool
) -> None:
    def mean_regret(flows: int) -> float:
        regrets = []
        for seed in range(3):
            drawn = np.rint(sizes.at(np.random.default_rng(seed).random(flows))[0])
            port = Port(policy(window_ms=3_600_000, queues=4, mark_by="port"))
            port.carries(counted(drawn, fins=fins))
            regrets.append(regret(port.thresholds, sizes, 0.8, 4))
        return float(np.mean(regrets))

    few, many = mean_regret(40), mean_regret(4_000)
    assert many < 0.04
    assert many <= few + 1e-9


@pytest.mark.parametrize("scheme", ["mlfq-adaptive", "sluice"])
def test_adjust__many_ports_at_once_answer_as_each_alone(scheme: str) -> None:
    rng = np.random.default_rng(5)
    drawn = [WEB_SEARCH.at(rng.random(int(n)))[0].astype(int) for n in rng.integers(5, 200, 30)]
    seen = [counted(sizes) for sizes in drawn]
    many = Adaptation(policy(scheme, min_flows=30), [RATE_BPS] * 30)
    together = PortCounters(*(np.concatenate(c) for c in zip(*map(columns, seen), strict=True)))
    many.observe(0, PortCounters.zero(30))
    many.observe(100 * MS, together)
    moved = many.adjust()
    assert {True, False} == set(moved.tolist())
    for row, counters in enumerate(seen):
        one = Adaptation(policy(scheme, min_flows=30), [RATE_BPS])
        one.observe(0, nothing())
        one.observe(100 * MS, counters)
        assert one.adjust()[0] == moved[row]
        assert one.thresholds(0) == many.thresholds(row)
        assert one.flows[0] == many.flows[row]


def columns(counters: PortCounters) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    return counters.packets, counters.bytes, counters.completed


def test_adjust__a_port_that_is_held_stays_and_goes_on_from_what_it_has_seen() -> None:
    port = Port(policy("mlfq-adaptive", percentiles=[10]))
    port.adaptation.held[0] = True
    before = port.thresholds
    assert port.carries(mix(10_000, 1_000_000, 100)) is None
    assert port.thresholds == before
    port.adaptation.held[0] = False
    assert port.adjusted() == (10_000,)


# A host that forges FINs, or opens tiny connections, at one port of a switch with three honest senders.


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


def honest_regret(attack: str, **fields: Any) -> float:
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
    return float(mean_slowdown(true, port.edges)[0] / delay_terms(true, levels).best()[1][0] - 1)


@pytest.mark.parametrize("attack", list(ATTACKS))
def test_online__honest_flows_lose_little_of_their_mean_slowdown(attack: str) -> None:
    assert honest_regret(attack) < 0.02


def test_online__without_robust_ends_they_lose_more_than_half() -> None:
    assert honest_regret("large", robust_ends=False) > 0.5


def test_a_host_behind_a_trunk_is_not_told_from_the_others_there() -> None:
    """The limit of rule 2: a trunk carries many hosts, and counts in full."""
    attack = plus(honest(), forged(SMALL, 3_000, group=TRUNKS))
    assert thresholds(wanted("mlfq-adaptive"), attack) == (1_000,)
    assert attack.completed.shape[1] == INGRESS_GROUPS
