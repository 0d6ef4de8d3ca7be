# SPDX-License-Identifier: Apache-2.0
"""Urgency that deadlines explain is never held against a host, and other urgency is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policy.policing.belief import (
    BUDGET_S,
    CREDIT_S,
    FREE_SHARE,
    LAG_NS,
    MARGIN_S,
    NOTHING,
    Explained,
    Unexplained,
    UrgencyAccount,
    UrgencyBudget,
    UrgencyReport,
    explained,
)
from sluice.policy.units import NS_PER_S

RATE_BPS = 20_000_000
PER_S = RATE_BPS // 8
POLL_S = 2
AGENT = Explained(0, (("h1", 7),))


def run(
    sent_per_s: list[float], tagged_per_s: list[float] | None, account: UrgencyAccount | None = None
) -> list[Unexplained]:
    """Let a second pass for each rate, with a poll every other second. None: there is no agent."""
    account = account or UrgencyAccount(RATE_BPS)
    arrived = tagged = 0.0
    found = [account.observe(0, 0.0, NOTHING if tagged_per_s is None else AGENT)]
    for at, sent in enumerate(sent_per_s, start=1):
        arrived += sent
        if tagged_per_s is not None:
            tagged += tagged_per_s[at - 1]
        if at % POLL_S == 0:
            by = NOTHING if tagged_per_s is None else replace(AGENT, tagged_bytes=int(tagged))
            found.append(account.observe(at * NS_PER_S, arrived, by))
    return [each for each in found if each is not None]


def test_a_port_without_an_agent_has_no_urgency() -> None:
    found = run([PER_S] * 4, None)
    assert len(found) == 2
    assert found[0].duration_s == POLL_S
    assert found[0].sent_bytes > found[0].limit_bytes == round(MARGIN_S * PER_S)


def test_a_port_without_an_agent_may_send_what_routers_send() -> None:
    assert run([FREE_SHARE * PER_S] * 3600, None) == []
    assert run([2 * FREE_SHARE * PER_S] * 3600, None)


def test_a_forger_behind_an_honest_agent_is_found_within_eight_seconds() -> None:
    assert run([PER_S] * 6, [0.0] * 6)
    forged, tagged = [0.5 * PER_S] * 30, [0.3 * PER_S] * 30
    assert run(forged, tagged)
    assert run(tagged, tagged) == []


def test_the_proof_names_what_the_agents_explain() -> None:
    (*_, last) = run([0.5 * PER_S] * 30, [0.3 * PER_S] * 30)
    assert last.limit_bytes == pytest.approx(9 * PER_S, rel=0.1)
    assert last.sent_bytes > last.limit_bytes
    assert last.duration_s == 30


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), min_size=1, max_size=30),
    st.floats(0, 3),
    st.floats(0, 1),
    st.floats(0, 0.2),
)
def test_no_honest_host_is_accused(
    bursts: list[tuple[int, float]], report_late_s: float, counters_late_s: float, lost: float
) -> None:
    """Reports and counters are late, and some packets are lost between the tagger and the switch."""
    step_s = 0.1
    rates = [share * PER_S for seconds, share in bursts for _ in range(seconds * 10)] + [0.0] * 100
    tagged = [0.0]
    for rate in rates:
        tagged.append(tagged[-1] + rate * step_s)
    account = UrgencyAccount(RATE_BPS)
    for at in range(0, len(rates), 5):
        known = tagged[max(0, at - round(report_late_s / step_s))]
        arrived = (1 - lost) * tagged[max(0, at - round(counters_late_s / step_s))]
        by = replace(AGENT, tagged_bytes=int(known) + 1)
        assert account.observe(round(at * step_s * NS_PER_S), arrived, by) is None


def test_lost_packets_are_a_credit_with_a_bound() -> None:
    """An hour in which half of the tagged packets are lost, and then a forger at the rate of the link."""
    account = UrgencyAccount(RATE_BPS)
    assert run([0.5 * PER_S] * 3600, [1.0 * PER_S] * 3600, account) == []
    arrived, tagged = 0.5 * PER_S * 3600, 3600 * PER_S
    within_s = CREDIT_S + LAG_NS / NS_PER_S + 1 + 2 * POLL_S
    for at in range(3602, 3602 + round(within_s), POLL_S):
        arrived += POLL_S * PER_S
        if account.observe(at * NS_PER_S, arrived, replace(AGENT, tagged_bytes=tagged)) is not None:
            return
    pytest.fail("the credit has no end")


@pytest.mark.parametrize(
    "after",
    [
        Explained(0, (("h1", 8),)),
        Explained(5, AGENT.source),
        Explained(10, AGENT.source, is_judged=False),
        NOTHING,
    ],
    ids=["another agent", "its counter begins again", "it is silent", "it is gone"],
)
def test_the_account_begins_again(after: Explained) -> None:
    account = UrgencyAccount(RATE_BPS)
    for at in range(0, 8, POLL_S):
        assert account.observe(at * NS_PER_S, 0.0, replace(AGENT, tagged_bytes=10)) is None
    assert account.observe(8 * NS_PER_S, 9.0 * PER_S, after) is None


def test_a_silent_agent_is_not_judged_and_then_begins_again() -> None:
    account = UrgencyAccount(RATE_BPS)
    for at in range(0, 60, POLL_S):
        by = replace(AGENT, is_judged=not 10 < at < 40)
        found = account.observe(at * NS_PER_S, (at if 10 < at < 40 else 10.0) * PER_S if at else 0.0, by)
        assert found is None or at <= 10


def test_explained__adds_up_the_agents_of_a_port() -> None:
    one, other = UrgencyReport(100, 7, is_fresh=True), UrgencyReport(50, 9, is_fresh=True)
    assert explained({"b": other, "a": one}) == Explained(150, (("a", 7), ("b", 9)))
    assert not explained({"a": one, "b": replace(other, is_fresh=False)}).is_judged
    assert not explained({"a": replace(one, tagged_bytes=None)}).is_judged


# ── The budget ─────────────────────────────────────────────────────────────────────────────────


def spent_at(rates: list[float], share: float) -> list[bool]:
    """Return whether the budget is spent after each second at these rates, as parts of the link."""
    budget, arrived, found = UrgencyBudget(RATE_BPS), 0.0, []
    budget.observe(0, 0.0, share)
    for at, rate in enumerate(rates, start=1):
        arrived += rate * PER_S
        budget.observe(at * NS_PER_S, arrived, share)
        found.append(budget.is_spent)
    return found


def test_the_budget_lasts_and_comes_back() -> None:
    found = spent_at([1.0] * 20 + [0.0] * 20, 0.5)
    assert found.index(True) == pytest.approx(BUDGET_S, abs=1), "the link is twice as fast as the refill"
    assert found[-1] is False
    assert spent_at([0.5] * 600, 0.5) == [False] * 600
    assert spent_at([1.0] * 600, 1.0) == [False] * 600


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=120), st.floats(0.05, 0.95))
def test_what_is_believed_is_the_share_and_one_budget_at_most(rates: list[float], share: float) -> None:
    """A second more is believed, because the counters are read once a second."""
    found = [False, *spent_at(rates, share)]
    believed = sum(rate for rate, is_spent in zip(rates, found, strict=False) if not is_spent)
    assert believed <= share * (BUDGET_S + len(rates)) + found.count(True) + 1


def test_a_budget_begins_again_when_the_switch_counts_from_zero() -> None:
    budget = UrgencyBudget(RATE_BPS, is_spent=True)
    budget.observe(0, 100.0, 0.5)
    assert not budget.is_spent
