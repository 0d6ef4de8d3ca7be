# SPDX-License-Identifier: Apache-2.0
"""The soak: its traffic and its verdict."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from experiments.checks.soak.flows import SEGMENT_S, document_of
from experiments.checks.soak.run import Outcome, change_scheme, claims
from experiments.checks.soak.usage import Reading, growing, read_process
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.runtime.http_client import Answer, ServerAway
from sluice.topologies import build_topology
from tests.kit.finished_runs import record
from tests.kit.known import known


def test_document__as_many_flows_at_any_time() -> None:
    scenario, *_ = scenario_with(document_of(1, 60.0, 20, np.random.default_rng(1)))
    flows = scheduled_flows(scenario, build_topology(scenario), np.random.default_rng(1), "run")
    for now_s in (20.0, 40.0):
        assert sum(flow.start_s <= now_s < flow.start_s + SEGMENT_S for flow in flows) == 20


def test_document__of_six_hours_is_a_scenario() -> None:
    scenario, *_ = scenario_with(document_of(1, 6 * 3600.0, 2, np.random.default_rng(1)))
    flows = scheduled_flows(scenario, build_topology(scenario), np.random.default_rng(1), "run")
    assert max(flow.start_s for flow in flows) > 5.9 * 3600


def readings(memory_step_kb: int, count: int = 30) -> list[Reading]:
    return [Reading(10.0 * i, {"web": 9_000 + memory_step_kb * i}, {"web": 20}, i) for i in range(count)]


def test_read_process__this_one_and_one_that_is_gone() -> None:
    used = read_process(os.getpid())
    assert used is not None
    memory_kb, descriptors = used
    assert memory_kb > 1000
    with Path("/dev/null").open():
        assert read_process(os.getpid()) is not None
        assert known(read_process(os.getpid()))[1] == descriptors + 1
    assert read_process(2**22 + 1) is None


def test_growing__names_the_process_and_what_grows() -> None:
    assert growing(readings(memory_step_kb=10)) == []
    (found,) = growing(readings(memory_step_kb=500))
    assert found.startswith("web: memory_kb")
    assert growing(readings(memory_step_kb=500, count=8)) == [], "too few to say"


def outcome(**changes: Any) -> Outcome:
    usual: dict[str, Any] = {"loads": 9, "kills": ["web"], "active": [20], "storages": [3]}
    return Outcome(
        **{**usual, "scheduled": [record(1).id, record(2).id], "records": [record(1), record(2)], **changes}
    )


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (0, {"loads": 0}),
        (2, {"kills": []}),
        (3, {"records": [record(1)]}),
        (3, {"records": [record(1), record(2), record(2)]}),
        (3, {"scheduled": [], "records": []}),
        (4, {"complaints": ["BUG: x"]}),
        (5, {"storages_after": 1}),
        (6, {"left": ["a namespace"]}),
        (7, {"readings": readings(memory_step_kb=500)}),
    ],
)
def test_claims__each_fails_by_its_own_fault(number: int, changes: dict[str, Any]) -> None:
    assert [claim.holds for claim in claims(outcome())] == [True] * 8
    assert [claim.holds for claim in claims(outcome(**changes))] == [i != number for i in range(8)]


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
    stack, found = JustKilled(), outcome()
    change_scheme(cast(Stack, stack), np.random.default_rng(1), found)
    assert stack.requests == 2
    assert len(found.schemes) == 1
