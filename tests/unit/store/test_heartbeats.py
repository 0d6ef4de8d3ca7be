# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.store import heartbeats
from sluice.store.ages import age_s
from sluice.store.desired import put_policy
from sluice.store.heartbeats import Kept, put_heartbeats
from sluice.store.observed import all_agents, find_agent
from tests.kit.heartbeats import host_heartbeat, port_heartbeat


def test_put_heartbeats__a_known_agent_always_has_room(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "MOST_AGENTS", 2)
    beat, again = host_heartbeat(), host_heartbeat(flows_started=7)
    assert put_heartbeats(engine, {"h1": beat}).names == {"h1"}
    assert put_heartbeats(engine, {"h3": beat, "h2": beat}).names == {"h2"}
    assert put_heartbeats(engine, {"h3": beat, "h1": again}).names == {"h1"}
    assert [row.name for row in all_agents(engine)] == ["h1", "h2"]
    assert find_agent(engine, "h1") == again


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
        assert list(pool.map(write, range(60))) == [len(names)] * 60
