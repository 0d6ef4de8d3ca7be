# SPDX-License-Identifier: Apache-2.0
"""The experiment agreement: one schedule on both fabrics, and when the two agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.checks.agreement.compare import Pair, Side, claims_of, settling_claim
from experiments.checks.agreement.fabrics import idle_document, on_simulator, same_flows
from experiments.kit.points import NamedPoint
from sluice.policy.units import MSS_BYTES
from sluice.policy.workload.flows import Workload
from sluice.runs.files import scenario_with


def side(small_ms: Sequence[float], medium_ms: Sequence[float], *, valid: bool = True) -> Side:
    fct = np.asarray([*small_ms, *medium_ms], float)
    classes = np.asarray(["small"] * len(small_ms) + ["medium"] * len(medium_ms))
    return Side(classes, fct, fct / 2, 0, valid)


def pair(factor: float, *, valid: bool = True) -> Pair:
    testbed = side([2.0, 6.0], [100.0, 200.0], valid=valid)
    return Pair(testbed, side([2 * factor, 6 * factor], [100.0, 200.0]))


def test_claims__hold_within_the_tolerance() -> None:
    assert [claim.holds for claim in claims_of({"dctcp": [pair(1.2)] * 3})] == [True, True]
    assert [claim.holds for claim in claims_of({"dctcp": [pair(1.3)] * 3})] == [False, True]


def test_claims__a_run_that_is_not_valid_proves_nothing() -> None:
    made = claims_of({"dctcp": [pair(1.0), pair(1.0, valid=False)]})
    assert not any(claim.holds for claim in made)


def test_claims__the_order_of_the_variants() -> None:
    slow = Pair(side([8.0], [1.0]), side([8.0], [1.0]))
    swapped = Pair(side([8.0], [1.0]), side([0.5], [1.0]))
    assert claims_of({"fast": [pair(1.0)], "slow": [slow]})[-1].holds
    assert not claims_of({"fast": [pair(1.0)], "slow": [swapped]})[-1].holds


def test_idle_document__one_packet_at_a_time() -> None:
    scenario, *_ = scenario_with(idle_document())
    assert isinstance(scenario.workload, Workload)
    assert scenario.workload.sizes.at(np.asarray([0.5]))[0] < MSS_BYTES
    assert scenario.workload.load is None


def test_same_flows__by_size_and_start(tmp_path: Path) -> None:
    document = {**idle_document(), "workload": {**idle_document()["workload"], "flows": 20}}

    def bundle(name: str, delay_us: float, **changed: Any) -> Path:
        point = NamedPoint("idle", None, 1, {**document, **changed}, name)
        return on_simulator(point, tmp_path, delay_us).bundle

    one, again, other = bundle("one", 0.0), bundle("again", 50.0), bundle("other", 0.0, seed=2)
    assert same_flows(one, again)
    assert not same_flows(one, other)


def test_settling_claim__two_adjustments_apart_at_most() -> None:
    assert settling_claim("adaptive", [(0.4, 0.5), (0.4, 1.0)], 0.5).holds
    assert not settling_claim("adaptive", [(0.4, 1.5)], 0.5).holds
    assert not settling_claim("adaptive", [(0.4, None)], 0.5).holds
