# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.controller.openflow.counters import QueueCounts
from sluice.controller.policing.hosts import Restored, UrgencyBudgeted
from sluice.controller.recorder import Recorder
from sluice.controller.reporting import REPEAT_S, Reporter
from sluice.controller.state import Desired, SwitchState
from sluice.policy.policing.limits import Demoted
from sluice.store import observed
from sluice.store.engine import open_store
from sluice.store.observed import all_sanctions
from tests.kit.networks import single
from tests.unit.controller.driven import policy
from tests.unit.controller.leases import take_lease

Write = Callable[[Callable[[Reporter], None]], None]
DEMOTED = Demoted("s1:2", "h2", "TCP a > b", 1, 5_000, 1_000, 1.75, 1, 5.0)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    yield engine
    engine.dispose()


@pytest.fixture
def write(tmp_path: Path, engine: Engine) -> Write:
    """Make reports, and wait until the store has their rows."""

    def reports(make: Callable[[Reporter], None]) -> None:
        recorder = Recorder(f"sqlite:///{tmp_path}/store.db", lambda _: None)
        recorder.lead(take_lease(engine))
        make(Reporter(recorder))
        recorder.start()
        recorder.stop(10)

    return reports


def events(engine: Engine, kind: str) -> list[Any]:
    return [event["document"] for event in observed.recent_events(engine, 0) if event["kind"] == kind]


def test_duplicate__the_same_two_switches_are_reported_once_a_minute(write: Write, engine: Engine) -> None:
    first, second, third = (f"10.0.0.{i}:4{i}" for i in (1, 2, 3))

    def make(reporter: Reporter) -> None:
        for now_s in (0.0, 1.0, REPEAT_S - 1, REPEAT_S):
            reporter.duplicate(7, first, second, now_s)
        reporter.duplicate(7, first, third, 2.0)
        reporter.duplicate(8, first, second, 2.0)

    write(make)
    found = [(d["dpid"], d["refused"]) for d in events(engine, "duplicate-datapath-id")]
    assert sorted(found) == sorted([(7, second)] * 2 + [(7, third), (8, second)])


def test_idle_overrides__names_those_without_a_port(write: Write, engine: Engine) -> None:
    overrides = [{"ports": ["s1:*"], "freeze": True}, {"ports": ["s9:1"], "freeze": True}]
    desired = Desired(single(), 4, policy(overrides=overrides))
    write(lambda reporter: reporter.idle_overrides(desired))
    assert events(engine, "idle-override") == [{"version": 4, "ports": ["s9:1"]}]


def test_verdict__a_demoted_host_has_a_row_until_it_is_restored(write: Write, engine: Engine) -> None:
    write(lambda reporter: reporter.verdict("s1", DEMOTED))
    (sanction,) = all_sanctions(engine)
    assert (sanction.port, sanction.host, sanction.offences) == ("s1:2", "h2", 1)
    assert events(engine, "host-demoted") == [vars(DEMOTED)]
    restored = Restored("s1:2", "h2", "behaved for 5 s")
    write(lambda reporter: reporter.verdict("s1", restored))
    assert all_sanctions(engine) == []
    assert events(engine, "host-restored") == [vars(restored)]


def test_queues__leaves_out_ports_that_the_topology_does_not_have(write: Write, engine: Engine) -> None:
    state = SwitchState("s1", Desired(single(), 1, policy()))
    counts = {1: QueueCounts((10, 20), (1, 2)), 99: QueueCounts((5,), (1,))}
    write(lambda reporter: reporter.queues(state, counts))
    assert [sample.port for sample in observed.newest_port_samples(engine)] == ["s1:1"]


def test_verdict__a_spent_budget_of_urgency_is_an_event_and_no_sanction(write: Write, engine: Engine) -> None:
    spent, regained = (UrgencyBudgeted("s1:2", "h2", is_spent=is_spent) for is_spent in (True, False))
    write(lambda reporter: reporter.verdict("s1", spent))
    write(lambda reporter: reporter.verdict("s1", regained))
    port = {"port": "s1:2", "host": "h2"}
    assert (events(engine, "urgency-spent"), events(engine, "urgency-regained")) == ([port], [port])
    assert all_sanctions(engine) == []
