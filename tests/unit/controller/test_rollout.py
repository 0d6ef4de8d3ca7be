# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.controller.rollout import LATE_S, Rollout
from sluice.policy.schema.desired import Policy
from sluice.store import desired, observed
from sluice.store.engine import open_store
from tests.unit.controller.networks import leaf_spine

TOPOLOGY = leaf_spine()
NAMES = [switch.name for switch in TOPOLOGY.switches]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    desired.put_policy(engine, Policy.from_document({"scheme": "pias"}), "test")
    yield engine
    engine.dispose()


def stand(engine: Engine, version: int | None, *names: str, connected: bool = True) -> None:
    for switch in TOPOLOGY.switches:
        if switch.name in names:
            observed.put_switch(engine, switch.dpid, switch.name, connected=connected, policy_version=version)


def events(engine: Engine) -> list[tuple[str, Any]]:
    return [(event["kind"], event["document"]) for event in observed.recent_events(engine, 0)]


def test_a_version_is_applied_once_the_rows_of_all_switches_have_it(engine: Engine) -> None:
    rollout = Rollout()
    stand(engine, 1, *NAMES[1:])
    rollout.look(engine, engine, TOPOLOGY, 1, 0.0)
    assert events(engine) == []
    stand(engine, 1, NAMES[0])
    rollout.look(engine, engine, TOPOLOGY, 1, 0.2)
    rollout.look(engine, engine, TOPOLOGY, 1, 0.4)
    assert events(engine) == [("policy-applied", {"version": 1, "scheme": "pias"})]
    found = desired.current_policy(engine)
    assert found is not None
    assert found.applied_at is not None


def test_switches_that_are_late_are_named_once(engine: Engine) -> None:
    rollout = Rollout()
    stand(engine, 1, NAMES[1])
    stand(engine, 1, NAMES[2], connected=False)
    stand(engine, 0, NAMES[3])
    for now_s in (100.0, 100.0 + LATE_S - 0.1):
        rollout.look(engine, engine, TOPOLOGY, 1, now_s)
    assert events(engine) == []
    for now_s in (100.0 + LATE_S, 101.0 + LATE_S):
        rollout.look(engine, engine, TOPOLOGY, 1, now_s)
    assert events(engine) == [("policy-late", {"version": 1, "switches": [NAMES[0], *NAMES[2:]]})]
    stand(engine, 1, *NAMES)
    rollout.look(engine, engine, TOPOLOGY, 1, 110.0)
    assert [kind for kind, _ in events(engine)] == ["policy-late", "policy-applied"]


def test_each_version_has_its_own_time(engine: Engine) -> None:
    rollout = Rollout()
    rollout.look(engine, engine, TOPOLOGY, 1, 0.0)
    rollout.look(engine, engine, TOPOLOGY, 2, LATE_S)
    assert events(engine) == []
    rollout.look(engine, engine, TOPOLOGY, 2, 2 * LATE_S)
    assert events(engine) == [("policy-late", {"version": 2, "switches": NAMES})]
