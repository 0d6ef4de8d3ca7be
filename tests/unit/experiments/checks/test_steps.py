# SPDX-License-Identifier: Apache-2.0
"""The longest pause of a stream, from given arrivals."""

import pytest

from experiments.checks.steps.run import PIPELINE, Outcome, Step, claims, longest_pause_s, table
from sluice.policy.errors import SluiceError
from tests.deploy.datagrams import pauses_s


def test_longest_pause__of_what_arrived_since_then() -> None:
    lines = ["9.9 5.0", "10.0 0.002", "10.3 0.3", "10.31 0.004"]
    assert longest_pause_s(lines, 10.0) == 0.3
    with pytest.raises(SluiceError, match="nothing of the stream"):
        longest_pause_s(lines, 11.0)


def test_claims__name_the_step_with_the_longest_pause() -> None:
    rounds = [[Step("first", 3, 1), Step("second", 50, 1)], [Step("first", 51, 1), Step("second", 4, 1)]]
    outcome = Outcome({PIPELINE: rounds}, [])
    claim, _ = claims(outcome)
    assert (claim.measured, claim.holds) == ("51 ms (first)", False)
    assert table(outcome).splitlines()[-1] == "| pipeline | second | 50, 4 |"


def test_pauses__a_delay_counts_and_a_loss_counts_from_the_datagram_before_it() -> None:
    arrived = [(1.1, 0, 1.0), (2.3, 1, 2.0), (5.1, 4, 5.0), (7.0, 5, 6.0)]
    assert [round(pause, 6) for _, pause in pauses_s(arrived)] == [0.1, 0.3, 3.1, 1.0]
