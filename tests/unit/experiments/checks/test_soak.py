# SPDX-License-Identifier: Apache-2.0
"""The soak and switches of schemes: their traffic, and that every scheme can be put."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from experiments.checks import live_switch
from experiments.checks.soak import SEGMENT_S, Outcome, change_scheme, document_of
from experiments.kit.runs import schemes_of_testbed
from sluice.policy.schema.desired import Policy
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.runtime.http_client import Answer, ServerAway
from sluice.topologies import build_topology


def test_document__as_many_flows_at_any_time() -> None:
    scenario, *_ = scenario_with(document_of(1, 60.0, 20, np.random.default_rng(1)))
    flows = scheduled_flows(scenario, build_topology(scenario), np.random.default_rng(1), "run")
    for now_s in (20.0, 40.0):
        assert sum(flow.start_s <= now_s < flow.start_s + SEGMENT_S for flow in flows) == 20


class JustKilled:
    """A stack whose web process has been killed, and serves again from the second request on."""

    requests = 0

    def check(self) -> None:
        """The web process starts."""

    def put_policy(self, _document: Mapping[str, Any]) -> Answer:
        self.requests += 1
        if self.requests == 1:
            raise ServerAway("Remote end closed connection without response")
        return Answer(200, b"{}")


def test_change_scheme__waits_for_a_web_process_that_was_killed() -> None:
    stack, found = JustKilled(), Outcome()
    change_scheme(cast(Stack, stack), np.random.default_rng(1), found)
    assert stack.requests == 2
    assert len(found.schemes) == 1


def test_policies_and_scenario__every_scheme_of_the_testbed_can_be_put() -> None:
    policies = live_switch.policies_of(schemes_of_testbed())
    for scheme, document in policies.items():
        assert Policy.from_document(document).scheme == scheme
        scenario, *_ = scenario_with(live_switch.scenario_of(1, 10.0, document, np.random.default_rng(1)))
        assert scenario.policy.to_document() == document
