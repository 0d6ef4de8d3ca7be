# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import pytest
from sqlalchemy import Engine, update

from sluice.policy.policing.belief import UrgencyReport
from sluice.store.ages import age_s
from sluice.store.observed import (
    CONTEST_S,
    PortSample,
    ThresholdChange,
    add_event,
    add_port_samples,
    add_thresholds,
    agents_by_mac,
    all_agents,
    all_switches,
    controller_seen_s,
    events_after,
    forget_processes,
    host_heartbeats,
    largest_tag_burst,
    latest_thresholds,
    newest_events,
    newest_port_samples,
    port_history,
    put_agent,
    put_switch,
    recent_events,
    threshold_history,
    urgency_reports,
)
from sluice.store.schema import agents
from tests.kit.heartbeats import host_heartbeat, port_heartbeat


def test_put__one_row_a_switch_and_an_agent(engine: Engine) -> None:
    for connected in (True, False):
        put_switch(engine, 2**63 - 1, "s1", connected=connected, policy_version=None)
        put_agent(engine, "h1", host_heartbeat(flows_active=int(connected)))
    assert [(row["dpid"], row["connected"]) for row in all_switches(engine)] == [(2**63 - 1, False)]
    assert [(row.name, row.heartbeat) for row in all_agents(engine)] == [
        ("h1", host_heartbeat(flows_active=0))
    ]


def test_all_agents__a_row_of_another_version_is_left_out(engine: Engine) -> None:
    put_agent(engine, "h1", host_heartbeat())
    put_agent(engine, "ports", port_heartbeat())
    with engine.begin() as connection:
        connection.execute(update(agents).where(agents.c.name == "h1").values(status={"flows": 3}))
    assert [(row.name, row.kind) for row in all_agents(engine)] == [("ports", "port")]
    assert host_heartbeats(engine) == {}


def test_largest_tag_burst__of_the_hosts_that_report_one(engine: Engine) -> None:
    assert largest_tag_burst(engine) is None
    put_agent(engine, "ports", port_heartbeat())
    put_agent(engine, "h1", host_heartbeat())
    assert largest_tag_burst(engine) is None
    put_agent(engine, "h2", host_heartbeat(tag_burst_bytes=65_536))
    put_agent(engine, "h3", host_heartbeat(tag_burst_bytes=8_960))
    assert largest_tag_burst(engine) == 65_536


def test_urgency_reports__of_hosts_and_whether_they_are_fresh(engine: Engine) -> None:
    put_agent(engine, "ports", port_heartbeat())
    put_agent(engine, "old", host_heartbeat(pid=4))
    put_agent(engine, "silent", host_heartbeat(pid=5, urgent_bytes=10))
    with engine.begin() as connection:
        connection.execute(update(agents).where(agents.c.name == "silent").values(seen_s=agents.c.seen_s - 4))
    put_agent(engine, "h1", host_heartbeat(pid=6, urgent_bytes=2**40))
    assert urgency_reports(engine) == {
        "old": UrgencyReport(None, 4, is_fresh=True),
        "silent": UrgencyReport(10, 5, is_fresh=False),
        "h1": UrgencyReport(2**40, 6, is_fresh=True),
    }


def test_agents_by_mac__the_newest_agent_of_an_address(engine: Engine) -> None:
    put_agent(engine, "h1", host_heartbeat())
    put_agent(engine, "old", host_heartbeat(mac="52:54:00:00:00:11"))
    _seen_earlier(engine, "old", by_s=CONTEST_S + 1)
    put_agent(engine, "web1", host_heartbeat(mac="52:54:00:00:00:11"))
    put_agent(engine, "web2", host_heartbeat(mac="52:54:00:00:00:12"))
    assert agents_by_mac(engine) == {"52:54:00:00:00:11": "web1", "52:54:00:00:00:12": "web2"}


def test_agents_by_mac__an_address_of_two_living_agents_names_neither(engine: Engine) -> None:
    """Otherwise a host could take the name of another, and the network's names would change each second."""
    for _ in range(2):
        for name in ("web1", "liar"):
            put_agent(engine, name, host_heartbeat(mac="52:54:00:00:00:11"))
            put_agent(engine, "web2", host_heartbeat(mac="52:54:00:00:00:12"))
        assert agents_by_mac(engine) == {"52:54:00:00:00:12": "web2"}
    _seen_earlier(engine, "liar", by_s=CONTEST_S + 1)
    put_agent(engine, "web1", host_heartbeat(mac="52:54:00:00:00:11"))
    assert agents_by_mac(engine)["52:54:00:00:00:11"] == "web1"


def _seen_earlier(engine: Engine, name: str, by_s: float) -> None:
    with engine.begin() as connection:
        row = update(agents).where(agents.c.name == name)
        connection.execute(row.values(seen_s=agents.c.seen_s - by_s))


def test_events__by_id_in_order(engine: Engine) -> None:
    for number in range(5):
        add_event(engine, "tick", number=number)
    assert [row["document"]["number"] for row in newest_events(engine, 2)] == [3, 4]
    assert [row["document"]["number"] for row in events_after(engine, newest_events(engine, 3)[0]["id"])] == [
        3,
        4,
    ]
    assert len(recent_events(engine, 0)) == 5
    assert recent_events(engine, time.time() + 60) == []


def change(at: float, port: str, *edges: int) -> ThresholdChange:
    return ThresholdChange(at, port, 1, edges, 7)


def test_thresholds__history_oldest_first_and_the_newest_when_there_are_too_many(engine: Engine) -> None:
    changes = [change(float(at), f"s1:{1 + at % 2}", 1000 + at) for at in range(1, 9)]
    add_thresholds(engine, changes)
    assert threshold_history(engine, 0) == changes
    assert threshold_history(engine, 2, limit=3) == changes[-3:]
    assert threshold_history(engine, 0, ["s1:1"]) == changes[1::2]
    assert latest_thresholds(engine) == {"s1:1": changes[7], "s1:2": changes[6]}


def test_port_samples__history_and_the_newest_of_each_port(engine: Engine) -> None:
    assert controller_seen_s(engine) is None
    samples = [PortSample(float(at), f"s1:{1 + at % 2}", (at, 0), (1, 0)) for at in range(1, 7)]
    add_port_samples(engine, samples)
    assert port_history(engine, 1) == samples[1:]
    assert port_history(engine, 0, ["s1:2"], limit=2) == [samples[2], samples[4]]
    assert newest_port_samples(engine) == [samples[5], samples[4]]
    assert controller_seen_s(engine) == pytest.approx(age_s(engine), abs=60)


def test_forget_processes__switches_and_agents_of_an_earlier_run(engine: Engine) -> None:
    put_switch(engine, 1, "s1", connected=True, policy_version=1)
    put_agent(engine, "h1", host_heartbeat())
    forget_processes(engine)
    assert all_switches(engine) == []
    assert all_agents(engine) == []
