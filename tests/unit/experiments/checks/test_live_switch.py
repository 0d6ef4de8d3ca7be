# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from experiments.checks.live_switch.run import Outcome, Outcomes, Switch, claims, policies_of, scenario_of
from experiments.kit.schemes import schemes_of_testbed
from sluice.policy.schema.desired import Policy
from sluice.runs.files import scenario_with


def test_policies_and_scenario__every_scheme_of_the_testbed_can_be_put() -> None:
    policies = policies_of(schemes_of_testbed())
    for scheme, document in policies.items():
        assert Policy.from_document(document).scheme == scheme
        scenario, *_ = scenario_with(scenario_of(1, 10.0, document, np.random.default_rng(1)))
        assert scenario.policy.to_document() == document


def test_claims__a_failed_flow_a_gap_and_a_policy_that_never_stood_are_told() -> None:
    good = Outcome([Switch("pias", 2, 1.0, 0.1, 0.5, 1.5)], longest_gap_s=0.05)
    assert all(claim.holds for claim in claims(Outcomes(["pias"], {1: good})))
    bad = Outcome(
        [Switch("pias", 2, 1.0, 0.1, 0.5, None)], longest_gap_s=0.6, reasons=["busy"], losses=["1 lost"]
    )
    told = {claim.what: claim.holds for claim in claims(Outcomes(["pias", "fish"], {1: bad}))}
    assert [holds for what, holds in told.items() if what != "failed flows"] == [False] * 5
