# SPDX-License-Identifier: Apache-2.0
"""The experiment agreement: one schedule on both sides, what the simulator is told, and when the two agree."""

from __future__ import annotations

import numpy as np

from experiments.agreement.compare import Side, Triple, claims, settling_claim, table
from experiments.agreement.fabrics import idle_document, on_simulator, same_flows, with_credit
from experiments.files import scenario_with
from policy.workload import MSS_BYTES


def side(small_ms, medium_ms, *, valid=True):
    fct = np.asarray([*small_ms, *medium_ms], float)
    classes = np.asarray(["small"] * len(small_ms) + ["medium"] * len(medium_ms))
    return Side(classes, fct, fct / 2, 0, valid)


def triple(factor, **kwargs):
    testbed = side([2.0, 6.0], [100.0, 200.0], **kwargs)
    ours = side([2 * factor, 6 * factor], [100.0, 200.0])
    return Triple(testbed, ours, ours)


def test_claims__hold_within_the_tolerance():
    assert [claim.holds for claim in claims({"dctcp": [triple(1.2)] * 3})] == [True, True]
    assert [claim.holds for claim in claims({"dctcp": [triple(1.3)] * 3})] == [False, True]


def test_claims__half_a_millisecond_is_credit():
    runs = [Triple(side([1.4], [100.0]), side([1.9], [100.0]), side([1.9], [100.0]))]
    assert [claim.holds for claim in claims({"pias": runs})] == [True, True]


def test_claims__a_run_that_is_not_valid_proves_nothing():
    made = claims({"dctcp": [triple(1.0), triple(1.0, valid=False)]})
    assert not any(claim.holds for claim in made)


def test_claims__the_order_of_the_variants():
    slow = Triple(side([8.0], [1.0]), side([8.0], [1.0]), side([8.0], [1.0]))
    swapped = Triple(side([8.0], [1.0]), side([0.5], [1.0]), side([0.5], [1.0]))
    assert claims({"fast": [triple(1.0)], "slow": [slow]})[-1].holds
    assert not claims({"fast": [triple(1.0)], "slow": [swapped]})[-1].holds


def test_table__a_line_a_variant_and_class():
    lines = list(table({"dctcp": [triple(1.2)]}))
    assert len(lines) == 4
    assert "4 / 4.8 / 4.8" in lines[2]


def test_with_credit__marks_and_bounds_by_what_is_really_there():
    document = {**idle_document(), "scheme": {"name": "dctcp", "mark_at": "20pkt"}}
    before, after = (scenario_with(d)[0].policy for d in (document, with_credit(document)))
    assert before.mark_at - after.mark_at == before.buffer - after.buffer == 20_000  # 2 ms at 80 Mb/s


def test_with_credit__a_scheme_that_does_not_mark():
    document = {**idle_document(), "scheme": {"name": "tcp"}}
    assert scenario_with(with_credit(document))[0].policy.buffer == 340_000


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
