# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from controller.connection_table import PROBE_S, Contest


class Switch:
    def __init__(self, heard_at=0.0):
        self.heard_at, self.asked = heard_at, 0

    def ask_for_life(self):
        self.asked += 1


def test_the_established_one_is_asked_and_stays_when_it_answers():
    old, new = Switch(heard_at=9.9), Switch()
    contest = Contest.begin(old, new, 10.0)
    assert old.asked == 1
    assert contest.verdict(10.1) is None
    old.heard_at = 10.2
    assert contest.verdict(10.3) is old


def test_the_newcomer_takes_the_place_of_one_that_does_not_answer():
    old, new = Switch(heard_at=9.9), Switch()
    contest = Contest.begin(old, new, 10.0)
    assert contest.verdict(10.0 + PROBE_S) is None
    assert contest.verdict(10.01 + PROBE_S) is new
