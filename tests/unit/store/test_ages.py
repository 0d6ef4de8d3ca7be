# SPDX-License-Identifier: Apache-2.0
"""The store's own clock, on machines whose wall clock steps, which reboot, and of which there are several."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from sqlalchemy import Engine

from sluice.store import ages
from sluice.store.engine import open_store
from sluice.store.flows import add_flows, all_flows
from sluice.store.observed import all_agents, put_agent
from sluice.store.retention import Retention
from sluice.store.totals import Tally
from sluice.webui.housekeeping import Housekeeping
from sluice.webui.ingestion import Ingestion
from sluice.webui.problems import is_alive
from tests.kit.heartbeats import host_heartbeat
from tests.unit.hostagent.flows import record

DAY_S = 86_400.0


@dataclass
class Machine:
    """The clocks of the machine that runs the test."""

    wall_s: float = 1.7e9
    boottime_s: float = 5000.0
    boot: str = "boot-1"

    def wait(self, seconds: float) -> None:
        self.wall_s += seconds
        self.boottime_s += seconds

    def reboot(self, boot: str) -> None:
        self.boot, self.boottime_s = boot, 10.0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr("sluice.store.ages.boottime_s", lambda: made.boottime_s)
    monkeypatch.setattr("sluice.store.ages.boot", lambda: made.boot)
    monkeypatch.setattr("time.time", lambda: made.wall_s)
    return made


@pytest.fixture
def opened(machine: Machine, store_url: str) -> Engine:
    """A store that is opened on that machine."""
    return open_store(store_url)


def another_process(engine: Engine) -> Engine:
    return open_store(engine.url.render_as_string(hide_password=False))


def test_the_clock_counts_seconds_for_all_processes_of_a_machine(machine: Machine, opened: Engine) -> None:
    other = another_process(opened)
    assert ages.age_s(opened) == pytest.approx(0)
    machine.wait(100)
    assert ages.age_s(opened) == pytest.approx(100)
    assert ages.advance(other) == pytest.approx(100)  # it does not count twice
    assert ages.advance(opened) == pytest.approx(100)
    machine.wait(7)
    assert ages.age_s(another_process(opened)) == pytest.approx(107)


def test_a_reboot_counts_nothing_and_the_clock_does_not_go_back(machine: Machine, opened: Engine) -> None:
    machine.wait(100)
    ages.advance(opened)
    machine.reboot("boot-2")
    after = another_process(opened)
    assert ages.age_s(after) == pytest.approx(100)
    machine.wait(5)
    assert ages.advance(after) == pytest.approx(105)


def test_two_machines_agree(machine: Machine, opened: Engine) -> None:
    there = another_process(opened)
    for _ in range(60):
        machine.wait(1)
        here = ages.advance(opened)
        machine.boot, machine.boottime_s = "boot-2", machine.boottime_s + 900_000
        assert ages.age_s(there) == pytest.approx(here, abs=11)
        machine.boot, machine.boottime_s = "boot-1", machine.boottime_s - 900_000


@pytest.mark.parametrize("step_s", [2 * DAY_S, -2 * DAY_S])
def test_a_step_of_the_wall_clock_deletes_nothing_and_is_noted(
    machine: Machine, opened: Engine, step_s: float
) -> None:
    add_flows(opened, [record(number) for number in range(1000)])
    housekeeping = Housekeeping(opened, Tally(), Ingestion(opened), threading.Event(), Retention())
    housekeeping.turn()
    assert ages.last_step(opened) is None
    machine.wait(30)
    machine.wall_s += step_s
    again = Housekeeping(opened, Tally(), Ingestion(opened), threading.Event(), Retention())
    again.turn()
    assert len(all_flows(opened)) == 1000
    step = ages.last_step(opened)
    assert step is not None
    assert step.by_s == pytest.approx(step_s)
    assert step.ago_s == pytest.approx(0)


@pytest.mark.usefixtures("partitions_of_one_record")
def test_rows_go_after_their_time_although_the_wall_clock_stepped_back(
    machine: Machine, opened: Engine
) -> None:
    add_flows(opened, [record(number) for number in range(10)])
    Housekeeping(opened, Tally(), Ingestion(opened), threading.Event(), Retention()).turn()
    machine.wall_s -= 30 * DAY_S
    machine.wait(DAY_S + 1)
    Housekeeping(opened, Tally(), Ingestion(opened), threading.Event(), Retention()).turn()
    assert [flow.id for flow in all_flows(opened)] == ["run/9"]  # the newest stays


@pytest.mark.parametrize("step_s", [2 * DAY_S, -2 * DAY_S])
def test_a_step_of_the_wall_clock_does_not_change_who_is_alive(
    machine: Machine, opened: Engine, step_s: float
) -> None:
    put_agent(opened, "dead", host_heartbeat())
    machine.wait(60)
    put_agent(opened, "living", host_heartbeat())
    machine.wall_s += step_s
    machine.wait(1)
    alive = {row.name: is_alive(row, ages.age_s(opened)) for row in all_agents(opened)}
    assert alive == {"dead": False, "living": True}
