# SPDX-License-Identifier: Apache-2.0
"""No document, number or set of names that a caller invents makes an answer long, slow or invalid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sluice.policy.schemes import SCHEMES
from sluice.policy.wire.agents import MAX_HEARTBEAT_BYTES, MAX_PORTS
from sluice.store import heartbeats
from sluice.store.flow_queries import OTHER_SCHEME
from sluice.webui.problems import MOST_PROBLEMS, MOST_REFUSALS, Refusals
from tests.kit.heartbeats import document, host_heartbeat, port_heartbeat, queue_counters
from tests.unit.webui.conftest import Answer, Client
from tests.unit.webui.records import record

HUGE = 10**400


def beat(client: Client, name: str, body: Any) -> Answer:
    return client.post(f"/api/v1/agents/{name}", json=body)


def test_invented_schemes__are_one_in_the_figures(client: Client) -> None:
    invented = [record(f"f{i}", scheme=f"invented-{i}") for i in range(4000)]
    client.post("/api/v1/flows", json=[*invented, record("true", scheme="pias")])
    schemes = client.get("/api/v1/fct").json["schemes"]
    assert set(schemes) == {OTHER_SCHEME, "pias"}
    assert schemes[OTHER_SCHEME]["all"]["n"] == 4000
    assert OTHER_SCHEME not in SCHEMES


@pytest.mark.parametrize("value", [HUGE, -HUGE, 2**63])
def test_a_number_beyond_its_bounds_is_refused_by_its_key(client: Client, value: int) -> None:
    wrong = {**document(host_heartbeat()), "spool_depth": value}
    refused = beat(client, "h1", wrong)
    assert (refused.status_code, refused.json["error"]["field"]) == (422, "spool_depth")
    refused = client.post("/api/v1/flows", json=[record("f", bytes=value)])
    assert (refused.status_code, refused.json["error"]["field"]) == (422, "bytes")
    assert beat(client, "h1", document(host_heartbeat())).status_code == 200
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert list(text_string_to_metric_families(answer.text))


def test_a_long_heartbeat_is_a_413(client: Client) -> None:
    wrong = {**document(host_heartbeat()), "hook_problem": "x" * MAX_HEARTBEAT_BYTES}
    assert beat(client, "h1", wrong).status_code == 413


def test_health__stays_short_though_heartbeats_are_as_long_as_they_may(client: Client) -> None:
    ports = {f"s{i}:1": (queue_counters(),) for i in range(MAX_PORTS)}
    full = document(
        port_heartbeat(
            attached={f"i{i}": 1 for i in range(MAX_PORTS)},
            ports=ports,
            late_ns=dict.fromkeys(ports, 1),
            problems=tuple(f"{i} {'x' * 320}" for i in range(MAX_PORTS)),
        )
    )
    assert len(json.dumps(full)) > 0.8 * MAX_HEARTBEAT_BYTES
    for number in range(3):
        answer = beat(client, f"a{number}", full)
        assert answer.status_code == 200, answer.json
    health = client.get("/api/v1/health")
    assert len(health.data) < 200_000
    assert len(health.json["problems"]) == MOST_PROBLEMS + 1
    assert "more problems" in health.json["problems"][-1]["problem"]


def test_metrics__two_agents_that_report_one_port_leave_a_valid_answer(client: Client) -> None:
    for name in ("a", "b"):
        beat(client, name, document(port_heartbeat(ports={"s1:1": (queue_counters(),)})))
    families = text_string_to_metric_families(client.get("/metrics").text)
    marked = [s for f in families for s in f.samples if s.name == "sluice_queue_marked_packets_total"]
    assert [sample.labels for sample in marked] == [{"port": "s1:1", "queue": "0"}]


def test_more_agents_than_there_may_be_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MOST_AGENTS", 2)
    good = document(host_heartbeat())
    assert [beat(client, name, good).status_code for name in ("a", "b", "c", "a")] == [200, 200, 409, 200]
    error = beat(client, "c", good).json["error"]
    assert (error["code"], error["field"]) == ("too-many-agents", "name")


def test_refusals__write_a_bounded_number_of_events() -> None:
    written: list[str] = []
    refusals = Refusals(lambda who, reason: written.append(who))
    for number in range(3 * MOST_REFUSALS):
        refusals.note(f"agent{number}", "wrong")
    assert len(written) == MOST_REFUSALS
