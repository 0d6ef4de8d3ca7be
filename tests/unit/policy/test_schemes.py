# SPDX-License-Identifier: Apache-2.0

import re
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policy import tags
from sluice.policy.policing import urgency
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import SCHEMES, Marking, QueueRule, ThresholdRule
from sluice.policy.schemes.classes import MOST_CLASSES, ClassPlan, best_of_plan, class_plan, lost
from sluice.policy.thresholds.online import DelayModel, delay_terms
from sluice.policy.thresholds.port_traffic import BUCKETS
from sluice.policy.thresholds.static import known_delays
from sluice.policy.units import NS_PER_S
from sluice.policy.wire.agents import ForeignDscp, new_uses
from sluice.runs.files import load_cdf

COLOURS = {name: scheme.colour for name, scheme in SCHEMES.items()}


@pytest.mark.parametrize("name", SCHEMES)
def test_scheme__defaults_fit_its_rules(name: str) -> None:
    scheme = SCHEMES[name]
    assert scheme.queue_rule.allows(scheme.queues)
    assert len(scheme.thresholds_bytes) == scheme.queue_rule.demotions(scheme.queues)
    assert (scheme.threshold_rule is ThresholdRule.NONE) == (not scheme.thresholds_bytes)
    assert (scheme.marking is Marking.NONE) == (not scheme.marks_bytes)


@pytest.mark.parametrize("name", SCHEMES)
def test_scheme__tags_carry_what_its_rule_reads(name: str) -> None:
    scheme = SCHEMES[name]
    both = (QueueRule.SIEVE, QueueRule.MERGED)
    assert scheme.tags_deadlines == (scheme.queue_rule in (*both, QueueRule.TWO_LEVEL))
    assert scheme.tags_sizes == (scheme.queue_rule in (*both, QueueRule.BY_SIZE))


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def test_colours__are_told_apart() -> None:
    """They differ by at least a tenth of the range in some channel."""
    for one, other in combinations(COLOURS.values(), 2):
        assert re.fullmatch("#[0-9a-f]{6}", one)
        assert max(abs(a - b) for a, b in zip(_channels(one), _channels(other), strict=True)) > 25


# ── Urgency that deadlines explain is never held against a host, and other urgency is ──────────


RATE_BPS = 20_000_000
PER_S = RATE_BPS // 8
POLL_S = 2
LAG_NS = 4 * NS_PER_S
"""Age of a report's last answer when the port is judged."""


def explained(
    at_ns: int, tagged: float, source: tuple[tuple[str, int], ...] = (("h1", 7),)
) -> urgency.Explained:
    return urgency.Explained(int(tagged), source, at_ns - LAG_NS)


def run(
    sent_per_s: list[float], tagged_per_s: list[float] | None, account: urgency.UrgencyAccount | None = None
) -> list[urgency.Unexplained]:
    """Let a second pass for each rate, with a poll every other second. None: there is no agent."""
    account = account or urgency.UrgencyAccount(RATE_BPS)
    arrived = tagged = 0.0
    found = [account.observe(0, 0.0, urgency.NOTHING if tagged_per_s is None else explained(0, 0))]
    for at, sent in enumerate(sent_per_s, start=1):
        arrived += sent
        if tagged_per_s is not None:
            tagged += tagged_per_s[at - 1]
        if at % POLL_S == 0:
            by = urgency.NOTHING if tagged_per_s is None else explained(at * NS_PER_S, tagged)
            found.append(account.observe(at * NS_PER_S, arrived, by))
    return [each for each in found if each is not None]


def test_a_port_without_an_agent_has_no_urgency() -> None:
    found = run([PER_S] * 4, None)
    assert len(found) == 2
    assert found[0].duration_s == POLL_S
    assert found[0].sent_bytes > found[0].limit_bytes == round(urgency.MARGIN_S * PER_S)


def test_a_port_without_an_agent_may_send_what_routers_send() -> None:
    assert run([urgency.FREE_SHARE * PER_S] * 3600, None) == []
    assert run([2 * urgency.FREE_SHARE * PER_S] * 3600, None)


def test_a_forger_behind_an_honest_agent_is_found_within_eight_seconds() -> None:
    assert run([PER_S] * 6, [0.0] * 6)
    forged, tagged = [0.5 * PER_S] * 30, [0.3 * PER_S] * 30
    assert run(forged, tagged)
    assert run(tagged, tagged) == []


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), min_size=1, max_size=30),
    st.lists(st.floats(0, 20), min_size=1),
    st.floats(0, 1),
    st.floats(0, 0.2),
)
def test_no_honest_host_is_accused(
    bursts: list[tuple[int, float]], reports_late_s: list[float], counters_late_s: float, lost: float
) -> None:
    """Reports and counters are late, and some packets are lost between the tagger and the switch.

    An agent counts between the answer that it names and the judgement.
    """
    step_s = 0.1
    rates = [share * PER_S for seconds, share in bursts for _ in range(seconds * 10)] + [0.0] * 100
    tagged = [0.0]
    for rate in rates:
        tagged.append(tagged[-1] + rate * step_s)
    account = urgency.UrgencyAccount(RATE_BPS)
    answered = counted = 0
    for turn, at in enumerate(range(0, len(rates), 5)):
        late = round(reports_late_s[turn % len(reports_late_s)] / step_s)
        answered, counted = max(answered, at - late), max(counted, at - late // 2)
        arrived = (1 - lost) * tagged[max(0, at - round(counters_late_s / step_s))]
        by = urgency.Explained(int(tagged[counted]) + 1, (("h1", 7),), round(answered * step_s * NS_PER_S))
        assert account.observe(round(at * step_s * NS_PER_S), arrived, by) is None


def test_lost_packets_are_a_credit_with_a_bound() -> None:
    """An hour in which half of the tagged packets are lost, and then a forger at the rate of the link."""
    account = urgency.UrgencyAccount(RATE_BPS)
    assert run([0.5 * PER_S] * 3600, [1.0 * PER_S] * 3600, account) == []
    arrived, tagged = 0.5 * PER_S * 3600, 3600 * PER_S
    within_s = urgency.CREDIT_S + LAG_NS / NS_PER_S + 1 + 2 * POLL_S
    for at in range(3602, 3602 + round(within_s), POLL_S):
        arrived += POLL_S * PER_S
        if account.observe(at * NS_PER_S, arrived, explained(at * NS_PER_S, tagged)) is not None:
            return
    pytest.fail("the credit has no end")


@pytest.mark.parametrize(
    "after",
    [
        explained(8 * NS_PER_S, 0, (("h1", 8),)),
        explained(8 * NS_PER_S, 5),
        explained(0, 10),
        replace(explained(0, 10), counted_ns=None),
        urgency.NOTHING,
    ],
    ids=["another agent", "its counter begins again", "it is silent", "it is old", "it is gone"],
)
def test_the_account_begins_again(after: urgency.Explained) -> None:
    account = urgency.UrgencyAccount(RATE_BPS)
    for at in range(0, 8, POLL_S):
        assert account.observe(at * NS_PER_S, 0.0, explained(at * NS_PER_S, 10)) is None
    assert account.observe(8 * NS_PER_S, 9.0 * PER_S, after) is None


def test_a_silent_agent_is_not_judged_and_then_begins_again() -> None:
    account = urgency.UrgencyAccount(RATE_BPS)
    for at in range(0, 60, POLL_S):
        by = explained(min(at, 10) * NS_PER_S if at < 40 else at * NS_PER_S, 0)
        found = account.observe(at * NS_PER_S, (at if 10 < at < 40 else 10.0) * PER_S if at else 0.0, by)
        assert found is None or at <= 10


def test_explained__adds_up_the_agents_of_a_port() -> None:
    one, other = urgency.UrgencyReport(100, 7, 3000), urgency.UrgencyReport(50, 9, 2000)
    assert urgency.explained({"b": other, "a": one}) == urgency.Explained(150, (("a", 7), ("b", 9)), 2000)
    assert urgency.explained({"a": one, "b": replace(other, counted_ns=None)}).counted_ns is None
    assert urgency.explained({"a": replace(one, tagged_bytes=None)}).counted_ns is None


# ── The budget ─────────────────────────────────────────────────────────────────────────────────


def spent_at(rates: list[float], share: float) -> list[bool]:
    """Return whether the budget is spent after each second at these rates, as parts of the link."""
    budget, arrived, found = urgency.UrgencyBudget(RATE_BPS), 0.0, []
    budget.observe(0, 0.0, share)
    for at, rate in enumerate(rates, start=1):
        arrived += rate * PER_S
        budget.observe(at * NS_PER_S, arrived, share)
        found.append(budget.is_spent)
    return found


def test_the_budget_lasts_and_comes_back() -> None:
    found = spent_at([1.0] * 20 + [0.0] * 20, 0.5)
    assert found.index(True) == pytest.approx(urgency.BUDGET_S, abs=1), (
        "the link is twice as fast as the refill"
    )
    assert found[-1] is False
    assert spent_at([0.5] * 600, 0.5) == [False] * 600
    assert spent_at([1.0] * 600, 1.0) == [False] * 600


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=120), st.floats(0.05, 0.95))
def test_what_is_believed_is_the_share_and_one_budget_at_most(rates: list[float], share: float) -> None:
    """A second more is believed, because the counters are read once a second."""
    found = [False, *spent_at(rates, share)]
    believed = sum(rate for rate, is_spent in zip(rates, found, strict=False) if not is_spent)
    assert believed <= share * (urgency.BUDGET_S + len(rates)) + found.count(True) + 1


def test_a_budget_begins_again_when_the_switch_counts_from_zero() -> None:
    budget = urgency.UrgencyBudget(RATE_BPS, is_spent=True)
    budget.observe(0, 100.0, 0.5)
    assert not budget.is_spent


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (ForeignDscp(46, 9, 0, 17, 5060, 0), "DSCP 46 (EF) from UDP port 5060"),
        (
            ForeignDscp(10, 9, 2, 6, 40_000, 443),
            "DSCP 10 (AF11) from TCP port 40000 to port 443, also without a local socket",
        ),
        (ForeignDscp(48, 0, 7, 0, 0, 0), "DSCP 48 (CS6) in packets without a local socket"),
        (ForeignDscp(3, 7, 0, 1, 0, 0), "DSCP 3 from IP protocol 1"),
    ],
)
def test_str(use: ForeignDscp, text: str) -> None:
    assert str(use) == text


def test_new_uses__are_those_whose_dscp_is_new() -> None:
    before = [ForeignDscp(46, 1, 0, 17, 5060, 0)]
    now = [ForeignDscp(46, 9, 0, 17, 5061, 0), ForeignDscp(8, 1, 0, 6, 1, 2)]
    assert new_uses(before, now) == [now[1]]
    assert new_uses([], now) == now


PAPERS = [(name, 0.8) for name in ("web-search", "data-mining")]


def policy_of(scheme: str, **fields: object) -> Policy:
    return Policy.from_document({"scheme": scheme, **fields})


def models_of(policy: Policy, traffic: list[tuple[str, float]]) -> list[DelayModel]:
    levels, least = len(policy.thresholds) + 1, policy.least_threshold or 0
    return [known_delays(load_cdf(name), load, levels, 1.0, least) for name, load in traffic]


@cache
def plan_of(scheme: str, most: int = MOST_CLASSES, **fields: object) -> tuple[ClassPlan, list[DelayModel]]:
    policy = policy_of(scheme, **fields)
    models = models_of(policy, PAPERS)
    return class_plan(policy, models, most), models


def test_lost__eight_classes_cost_both_workloads_less_than_three_percent() -> None:
    plan, models = plan_of("sluice")
    assert plan.classes == MOST_CLASSES
    assert all(-1e-9 < loss < 0.03 for loss in lost(plan, models))


def test_lost__fewer_classes_cost_more() -> None:
    losses = [max(lost(*plan_of("mlfq-adaptive", most, queues=4))) for most in (8, 4, 2)]
    assert losses[0] < 0.01 < losses[1] < losses[2]


def test_class_plan__one_kind_of_traffic_loses_nothing() -> None:
    policy = policy_of("mlfq-adaptive", queues=4)
    (model,) = models_of(policy, PAPERS[:1])
    plan = class_plan(policy, [model])
    assert lost(plan, [model]) == pytest.approx([0], abs=1e-9)
    best, _ = delay_terms(model, 4).best()
    assert best_of_plan(plan, model) == tuple(tags.EDGES_BYTES[edge] for edge in best[0])


def test_class_plan__finds_the_best_pair_of_edges() -> None:
    policy = policy_of("mlfq-adaptive", queues=2)
    models = models_of(policy, [("web-search", 0.8), ("data-mining", 0.8)])
    # The cost of each edge as the one threshold, over the least; a port takes the better one of a pair, or the last.
    terms = [delay_terms(one, 2) for one in models]
    costs = np.asarray([[one.cost(np.asarray([[k]]))[0] for k in range(BUCKETS)] for one in terms])
    costs /= costs.min(axis=1, keepdims=True)

    def cost(edges: tuple[int, ...]) -> float:
        return float(costs[:, [*edges, BUCKETS - 1]].min(axis=1).sum())

    plan = class_plan(policy, models, most=3)
    found = tuple(tags.edge_index(edge) for edge in plan.edges_bytes)
    assert sum(lost(plan, models)) + len(models) == pytest.approx(cost(found))
    assert cost(found) <= min(map(cost, combinations(range(BUCKETS - 1), 2))) + 1e-9


@pytest.mark.parametrize("scheme", SCHEMES)
def test_class_plan__every_scheme_fits_into_eight_classes(scheme: str) -> None:
    plan, _ = plan_of(scheme)
    assert len(plan.class_of_tag) == tags.TAG_COUNT
    assert set(plan.class_of_tag) == set(range(plan.classes))
    assert plan.classes <= MOST_CLASSES


def test_snapped__a_threshold_becomes_the_nearest_edge() -> None:
    plan, _ = plan_of("sluice")
    low, *_, high = plan.edges_bytes
    assert plan.snapped([1, low * 1.05, 10 * high]) == (low, low, high)


def test_snapped__thresholds_of_a_static_scheme_stay_its_own() -> None:
    policy = policy_of("pias", queues=3, thresholds=["10KB", "1MB"])
    plan = class_plan(policy, [])
    assert plan.snapped(policy.thresholds) == plan.edges_bytes == (10_000, 1_000_000)
    assert np.unique(plan.queue_of_class(plan.edges_bytes)).tolist() == [0, 1, 2]
