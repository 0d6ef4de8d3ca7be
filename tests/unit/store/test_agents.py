# SPDX-License-Identifier: Apache-2.0
"""What agents report, how long ago, and what the network then is."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import Engine, update

from sluice.policy.policing.urgency import UrgencyReport
from sluice.policy.retention import FOR_EVER, Retention
from sluice.policy.schema.desired import Policy
from sluice.policy.units import NS_PER_S
from sluice.policy.wire.agents import Heartbeat, SimulatorHeartbeat
from sluice.store import ages, observed
from sluice.store.access import Certificate, put_certificate
from sluice.store.ages import age_s
from sluice.store.desired import put_policy, put_topology
from sluice.store.engine import open_store
from sluice.store.flows import add_flows, all_flows
from sluice.store.heartbeats import Kept, put_heartbeats
from sluice.store.observed import all_agents, put_agent, put_agents
from sluice.store.retention import forget_some
from sluice.store.schema import agents
from sluice.store.totals import Tally
from sluice.webui.housekeeping import Housekeeping
from sluice.webui.ingestion import Ingestion
from tests.kit.flows import record
from tests.kit.heartbeats import host_heartbeat, port_heartbeat, queue_counters
from tests.web.synthetic import leaf_spine


def test_put_heartbeats__a_known_agent_always_has_room(engine: Engine) -> None:
    beat, again = host_heartbeat(), host_heartbeat(flows_started=7)
    assert put_heartbeats(engine, {"h1": beat}, 2).names == {"h1"}
    assert put_heartbeats(engine, {"h3": beat, "h2": beat}, 2).names == {"h2"}
    assert put_heartbeats(engine, {"h3": beat, "h1": again}, 2).names == {"h1"}
    assert [row.name for row in all_agents(engine)] == ["h1", "h2"]
    assert observed.find_agent(engine, "h1") == again


def test_put_heartbeats__each_agent_has_its_own_kind_status_and_time(engine: Engine) -> None:
    for started in (1, 2):
        first = host_heartbeat(flows_started=started)
        second = host_heartbeat(flows_started=10 + started)
        before_s = age_s(engine)
        put_heartbeats(engine, {"h2": second, "s1": port_heartbeat(), "h1": first})
        rows = {row.name: row for row in all_agents(engine)}
        assert {name: row.heartbeat for name, row in rows.items()} == {
            "h1": first,
            "h2": second,
            "s1": port_heartbeat(),
        }
        assert all(before_s <= row.seen_s <= age_s(engine) for row in rows.values())


def test_put_heartbeats__tells_the_version_of_the_newest_policy(engine: Engine) -> None:
    beats = {"h1": host_heartbeat()}
    assert put_heartbeats(engine, beats) == Kept(frozenset({"h1"}), 0)
    assert put_heartbeats(engine, beats) == Kept(frozenset({"h1"}), 0)
    version = put_policy(engine, Policy.from_document({"scheme": "pias"}), "test")
    assert put_heartbeats(engine, beats).policy_version == version
    assert put_heartbeats(engine, {"h2": host_heartbeat()}).policy_version == version


def test_put_heartbeats__writers_of_the_same_agents_do_not_stop_each_other(engine: Engine) -> None:
    names = [f"h{number}" for number in range(30)]
    put_heartbeats(engine, dict.fromkeys(names, host_heartbeat()))

    def write(turn: int) -> int:
        order = names if turn % 2 else names[::-1]
        return len(put_heartbeats(engine, dict.fromkeys(order, host_heartbeat())).names)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(20))) == [len(names)] * 20


EXPECTED: dict[str, Heartbeat] = {
    "h1": host_heartbeat(),
    "ports": port_heartbeat(ports={"s1:1": (queue_counters(),)}),
    "certified": host_heartbeat(),
    "simulator": SimulatorHeartbeat(1, 1.0, 1.0, 1.0),
}
INVENTED: dict[str, Heartbeat] = {
    "h99": host_heartbeat(),
    "other-ports": port_heartbeat(ports={"x1:1": (queue_counters(),)}),
    "revoked": host_heartbeat(),
    "ended": host_heartbeat(),
}


def names(engine: Engine) -> set[str]:
    return {row.name for row in all_agents(engine)}


def test_silent_agents__that_nobody_expects_are_forgotten_with_an_event(engine: Engine) -> None:
    now = time.time()
    put_topology(engine, leaf_spine())
    valid = Certificate("a", "certified", "host", now, now + 9000)
    put_certificate(engine, valid)
    put_certificate(engine, replace(valid, serial="b", name="revoked", revoked_at=now))
    put_certificate(engine, replace(valid, serial="c", name="ended", ends_at=now - 60))
    age_s = ages.age_s(engine)
    put_agents(engine, {**EXPECTED, **INVENTED})
    forget_some(engine, Retention(), age_s + 500)
    assert names(engine) == {*EXPECTED, *INVENTED}
    forget_some(engine, FOR_EVER, age_s + 700)
    assert names(engine) == {*EXPECTED, *INVENTED}
    forget_some(engine, Retention(), age_s + 700)
    assert names(engine) == set(EXPECTED)
    events = [row["document"] for row in observed.newest_events(engine, 10) if row["kind"] == "agent-expired"]
    assert {event["agent"]: event["agent_kind"] for event in events} == {
        name: beat.KIND for name, beat in INVENTED.items()
    }
    assert all(600 < event["silent_s"] <= 700 for event in events)


def test_all_agents__a_row_of_another_version_is_left_out(engine: Engine) -> None:
    put_agent(engine, "h1", host_heartbeat())
    put_agent(engine, "ports", port_heartbeat())
    with engine.begin() as connection:
        connection.execute(update(agents).where(agents.c.name == "h1").values(status={"flows": 3}))
    assert [(row.name, row.kind) for row in all_agents(engine)] == [("ports", "port")]
    assert observed.host_heartbeats(engine) == {}


def test_largest_tag_burst__of_the_hosts_that_report_one(engine: Engine) -> None:
    assert observed.largest_tag_burst(engine) is None
    put_agent(engine, "ports", port_heartbeat())
    put_agent(engine, "h1", host_heartbeat())
    assert observed.largest_tag_burst(engine) is None
    put_agent(engine, "h2", host_heartbeat(tag_burst_bytes=65_536))
    put_agent(engine, "h3", host_heartbeat(tag_burst_bytes=8_960))
    assert observed.largest_tag_burst(engine) == 65_536


def test_urgency_reports__of_hosts_and_since_when_they_count(engine: Engine) -> None:
    put_agent(engine, "ports", port_heartbeat())
    put_agent(engine, "old", host_heartbeat(pid=4))
    put_agent(engine, "h1", host_heartbeat(pid=6, urgent_bytes=2**40, answered_s=age_s(engine) - 4))
    began_ns = time.monotonic_ns()
    reports = observed.urgency_reports(engine)
    counted_ns = reports["h1"].counted_ns
    assert counted_ns is not None
    assert counted_ns <= began_ns - 4 * NS_PER_S
    assert reports == {"old": UrgencyReport(None, 4, None), "h1": UrgencyReport(2**40, 6, counted_ns)}


def test_agents_by_mac__the_newest_agent_of_an_address(engine: Engine) -> None:
    put_agent(engine, "h1", host_heartbeat())
    put_agent(engine, "old", host_heartbeat(mac="52:54:00:00:00:11"))
    _seen_earlier(engine, "old", by_s=observed.CONTEST_S + 1)
    put_agent(engine, "web1", host_heartbeat(mac="52:54:00:00:00:11"))
    put_agent(engine, "web2", host_heartbeat(mac="52:54:00:00:00:12"))
    assert observed.agents_by_mac(engine) == {"52:54:00:00:00:11": "web1", "52:54:00:00:00:12": "web2"}


def test_agents_by_mac__an_address_of_two_living_agents_names_neither(engine: Engine) -> None:
    """Otherwise a host could take the name of another, and the network's names would change each second."""
    for _ in range(2):
        for name in ("web1", "liar"):
            put_agent(engine, name, host_heartbeat(mac="52:54:00:00:00:11"))
            put_agent(engine, "web2", host_heartbeat(mac="52:54:00:00:00:12"))
        assert observed.agents_by_mac(engine) == {"52:54:00:00:00:12": "web2"}
    _seen_earlier(engine, "liar", by_s=observed.CONTEST_S + 1)
    put_agent(engine, "web1", host_heartbeat(mac="52:54:00:00:00:11"))
    assert observed.agents_by_mac(engine)["52:54:00:00:00:11"] == "web1"


def _seen_earlier(engine: Engine, name: str, by_s: float) -> None:
    with engine.begin() as connection:
        row = update(agents).where(agents.c.name == name)
        connection.execute(row.values(seen_s=agents.c.seen_s - by_s))


def test_events__by_id_in_order(engine: Engine) -> None:
    for number in range(5):
        observed.add_event(engine, "tick", number=number)
    assert [row["document"]["number"] for row in observed.newest_events(engine, 2)] == [3, 4]
    third = observed.newest_events(engine, 3)[0]["id"]
    assert [row["document"]["number"] for row in observed.events_after(engine, third)] == [3, 4]
    assert len(observed.events_of(engine, "tick", 0)) == 5
    assert observed.events_of(engine, "tick", time.time() + 60) == []


def change(at: float, port: str, *edges: int) -> observed.ThresholdChange:
    return observed.ThresholdChange(at, port, 1, edges, 7)


def test_thresholds__history_oldest_first_and_the_newest_when_there_are_too_many(engine: Engine) -> None:
    changes = [change(float(at), f"s1:{1 + at % 2}", 1000 + at) for at in range(1, 9)]
    observed.add_thresholds(engine, changes)
    assert observed.threshold_history(engine, 0) == changes
    assert observed.threshold_history(engine, 2, limit=3) == changes[-3:]
    assert observed.threshold_history(engine, 0, ["s1:1"]) == changes[1::2]
    assert observed.latest_thresholds(engine) == {"s1:1": changes[7], "s1:2": changes[6]}


def test_port_samples__history_and_the_newest_of_each_port(engine: Engine) -> None:
    assert observed.controller_seen_s(engine) is None
    samples = [observed.PortSample(float(at), f"s1:{1 + at % 2}", (at, 0), (1, 0)) for at in range(1, 7)]
    observed.add_port_samples(engine, samples)
    assert observed.port_history(engine, 1) == samples[1:]
    assert observed.port_history(engine, 0, ["s1:2"], limit=2) == [samples[2], samples[4]]
    assert observed.newest_port_samples(engine) == [samples[5], samples[4]]
    assert observed.controller_seen_s(engine) == pytest.approx(age_s(engine), abs=60)


# The store's own clock, on machines whose wall clock steps, which reboot, and of which there are several.


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
    for _ in range(25):
        machine.wait(1)
        here = ages.advance(opened)
        machine.boot, machine.boottime_s = "boot-2", machine.boottime_s + 900_000
        assert ages.age_s(there) == pytest.approx(here, abs=11)
        machine.boot, machine.boottime_s = "boot-1", machine.boottime_s - 900_000


@pytest.mark.parametrize("step_s", [2 * DAY_S, -2 * DAY_S])
def test_a_step_of_the_wall_clock_deletes_nothing_and_is_noted(
    machine: Machine, opened: Engine, step_s: float
) -> None:
    add_flows(opened, [record(number) for number in range(100)])
    housekeeping = Housekeeping(opened, Tally(), Ingestion(opened), threading.Event(), Retention())
    housekeeping.turn()
    assert ages.last_step(opened) is None
    machine.wait(30)
    machine.wall_s += step_s
    again = Housekeeping(opened, Tally(), Ingestion(opened), threading.Event(), Retention())
    again.turn()
    assert len(all_flows(opened)) == 100
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
    alive = {row.name: row.is_alive for row in all_agents(opened)}
    assert alive == {"dead": False, "living": True}
