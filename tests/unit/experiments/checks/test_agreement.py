# SPDX-License-Identifier: Apache-2.0
"""The experiment agreement: one schedule on both sides, what the simulator is told, and when the two agree."""

from __future__ import annotations

import numpy as np

from experiments.checks.agreement.compare import Pair, Side, claims, settling_claim, table
from experiments.checks.agreement.fabrics import idle_document, on_simulator, same_flows
from policy.workload import MSS_BYTES
from sluice.runs.files import scenario_with


def side(small_ms, medium_ms, *, valid=True):
    fct = np.asarray([*small_ms, *medium_ms], float)
    classes = np.asarray(["small"] * len(small_ms) + ["medium"] * len(medium_ms))
    return Side(classes, fct, fct / 2, 0, valid)


def pair(factor, **kwargs):
    testbed = side([2.0, 6.0], [100.0, 200.0], **kwargs)
    return Pair(testbed, side([2 * factor, 6 * factor], [100.0, 200.0]))


def test_claims__hold_within_the_tolerance():
    assert [claim.holds for claim in claims({"dctcp": [pair(1.2)] * 3})] == [True, True]
    assert [claim.holds for claim in claims({"dctcp": [pair(1.3)] * 3})] == [False, True]


def test_claims__a_run_that_is_not_valid_proves_nothing():
    made = claims({"dctcp": [pair(1.0), pair(1.0, valid=False)]})
    assert not any(claim.holds for claim in made)


def test_claims__the_order_of_the_variants():
    slow = Pair(side([8.0], [1.0]), side([8.0], [1.0]))
    swapped = Pair(side([8.0], [1.0]), side([0.5], [1.0]))
    assert claims({"fast": [pair(1.0)], "slow": [slow]})[-1].holds
    assert not claims({"fast": [pair(1.0)], "slow": [swapped]})[-1].holds


def test_table__a_line_a_variant_and_class():
    lines = list(table({"dctcp": [pair(1.2)]}))
    assert len(lines) == 4
    assert "4 / 4.8" in lines[2]


def test_idle_document__one_packet_at_a_time():
    scenario, _ = scenario_with(idle_document())
    assert scenario.workload.sizes.at(np.asarray([0.5]))[0] < MSS_BYTES
    assert scenario.workload.load is None


def test_same_flows__by_size_and_start(tmp_path):
    document = {**idle_document(), "workload": {**idle_document()["workload"], "flows": 20}}
    one = on_simulator(document, tmp_path / "one", 0.0)
    again = on_simulator(document, tmp_path / "again", 50.0)
    other = on_simulator({**document, "seed": 2}, tmp_path / "other", 0.0)
    assert same_flows(one, again)
    assert not same_flows(one, other)


def test_settling_claim__two_adjustments_apart_at_most():
    assert settling_claim("adaptive", [(0.4, 0.5), (0.4, 1.0)], 0.5).holds
    assert not settling_claim("adaptive", [(0.4, 1.5)], 0.5).holds
    assert not settling_claim("adaptive", [(0.4, None)], 0.5).holds
