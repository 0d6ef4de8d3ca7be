# SPDX-License-Identifier: Apache-2.0
"""The states of a sanction over time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.policy.policing.limits import (
    FIRST_TERM_NS,
    FORGET_NS,
    LONGEST_TERM_NS,
    WATCH_NS,
    Conduct,
    Treatment,
)

S = 1_000_000_000


def test_terms__are_those_of_the_page_on_wrong_tags() -> None:
    assert (WATCH_NS, FIRST_TERM_NS, LONGEST_TERM_NS, FORGET_NS) == (5 * S, 5 * S, 320 * S, 600 * S)


def test_suspicion_has_a_port_watched_and_goes_by() -> None:
    watched = Conduct().suspected(10 * S)
    assert watched.treatment is Treatment.WATCHED
    assert watched.after(10 * S + WATCH_NS - 1) == watched
    assert watched.suspected(12 * S).after(10 * S + WATCH_NS).treatment is Treatment.WATCHED
    assert watched.after(10 * S + WATCH_NS).treatment is Treatment.FREE


def test_proof_demotes_for_as_long_as_it_is_renewed_and_a_term() -> None:
    demoted = Conduct().suspected(0).proven(S)
    assert (demoted.treatment, demoted.offences) == (Treatment.DEMOTED, 1)
    assert demoted.term_s == 5
    renewed = demoted.proven(4 * S)
    assert renewed.offences == 1
    assert renewed.after(S + FIRST_TERM_NS) == renewed
    assert renewed.after(4 * S + FIRST_TERM_NS).treatment is Treatment.WATCHED


def test_suspicion_alone_changes_nothing_for_who_is_demoted() -> None:
    demoted = Conduct().proven(S)
    assert demoted.suspected(2 * S) == demoted


def test_each_offence_doubles_the_term_up_to_the_longest() -> None:
    conduct, now, terms = Conduct(), 0, []
    for _ in range(10):
        conduct = conduct.proven(now)
        terms.append(conduct.term_ns)
        now += conduct.term_ns
        conduct = conduct.after(now)
        assert conduct.treatment is Treatment.WATCHED
    assert terms[:4] == [FIRST_TERM_NS * 2**n for n in range(4)]
    assert terms[-1] == LONGEST_TERM_NS


def test_offences_are_forgotten_after_long_good_conduct() -> None:
    conduct = Conduct().proven(0).after(FIRST_TERM_NS)
    free = conduct.after(FIRST_TERM_NS + WATCH_NS)
    assert (free.treatment, free.offences) == (Treatment.FREE, 1)
    assert free.after(FIRST_TERM_NS + WATCH_NS + FORGET_NS - 1) == free
    assert free.after(FIRST_TERM_NS + WATCH_NS + FORGET_NS) == Conduct()


def test_resumed__a_term_begins_anew() -> None:
    demoted = Conduct(Treatment.DEMOTED, 0, 2).resumed(100 * S)
    assert demoted.after(100 * S + 2 * FIRST_TERM_NS - 1).treatment is Treatment.DEMOTED
    assert demoted.after(100 * S + 2 * FIRST_TERM_NS).treatment is Treatment.WATCHED


@given(st.lists(st.tuples(st.sampled_from(["suspected", "after", "resumed"]), st.integers(0, 20 * S))))
def test_nothing_but_proof_demotes(script: list[tuple[str, int]]) -> None:
    conduct, now = Conduct(), 0
    for method, passed in script:
        now += passed
        conduct = getattr(conduct, method)(now)
        assert conduct.treatment is not Treatment.DEMOTED


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5 * S)), min_size=1))
def test_who_lies_again_and_again_is_demoted_most_of_the_time(script: list[tuple[bool, int]]) -> None:
    """The host may send wrong tags at any times. Between two offences it is free only until the next proof."""
    conduct, now = Conduct(), 0
    for lies, passed in script:
        now += passed
        conduct = conduct.after(now)
        if lies:
            conduct = conduct.proven(now)
            assert conduct.treatment is Treatment.DEMOTED
            assert FIRST_TERM_NS <= conduct.term_ns <= LONGEST_TERM_NS
