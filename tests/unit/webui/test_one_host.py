# SPDX-License-Identifier: Apache-2.0

from dataclasses import replace

import pytest
from sqlalchemy import Engine

from sluice.policy.wire.agents import LinkCounters, LinkQueue, RunningFlow
from sluice.store import flow_queries, observed
from sluice.store.observed import put_agent
from tests.kit.heartbeats import LIVING, document, host_heartbeat, watching
from tests.unit.webui.conftest import Client
from tests.unit.webui.records import record
from tests.web.synthetic import Network

RUNNING = RunningFlow("run/1", "h2", "shuffle", 50_000, 20_000, 1e9, 1e9 + 1, 3, "sluice_dctcp", 250.0)
LINK = LinkCounters(12.5, 9_000, 700, 4, 3_000, 8_000_000, 90_000, (LinkQueue(5_000, 1, 0),))


def test_a_host_that_nothing_knows_is_a_404(client: Client) -> None:
    answer = client.get("/api/v1/hosts/h1")
    assert (answer.status_code, answer.json["error"]["code"]) == (404, "unknown-host")
    assert client.get("/api/v1/hosts/a%20b").status_code == 422
    assert client.get("/api/v1/hosts/h1?window_s=0").status_code == 422


def test_a_host_of_the_network_without_an_agent_has_its_place_only(client: Client, engine: Engine) -> None:
    Network(engine)
    found = client.get("/api/v1/hosts/h5").json
    assert found["place"] | {"mac": ""} == {
        "ipv4": "10.0.0.5",
        "ipv6": found["place"]["ipv6"],
        "mac": "",
        "port": "s2:1",
        "rate_bps": 20_000_000,
    }
    assert (found["agent"], found["link"], found["active"], found["ended"]) == (None, None, [], [])
    assert found["sent"]["flows"] == 0


def test_what_the_agent_reports_is_in_its_own_host_alone(client: Client, engine: Engine) -> None:
    beat = document(host_heartbeat(running=(RUNNING,), link=LINK, spool_depth=7))
    assert client.post("/api/v1/agents/h1", json=beat).status_code == 200
    watched = document(watching(LIVING, replace(LIVING, id="w/2", src="h8", dst="h1", rate_bps=10**9)))
    assert client.post("/api/v1/agents/h8", json=watched).status_code == 200
    found = client.get("/api/v1/hosts/h1").json
    assert found["agent"]["alive"]
    assert found["agent"]["status"]["spool_depth"] == 7
    assert found["link"]["queues"] == [{"sent_bytes": 5_000, "dropped": 1, "waiting_bytes": 0}]
    assert [flow["id"] for flow in found["active"]] == ["run/1", "w/2", LIVING.id]
    assert [(flow["src"], flow["source"], flow["label"], flow["rate_bps"]) for flow in found["active"]] == [
        ("h1", "scheduled", "shuffle", None),
        ("h8", "watched", "", 10**9),
        ("h1", "watched", "", LIVING.rate_bps),
    ]
    other = client.get("/api/v1/hosts/h8").json
    assert ([flow["id"] for flow in other["active"]], other["link"]) == (["w/2"], None)
    for query, ids in (("", 3), ("?host=h8", 1), ("?host=h2", 1), ("?host=h9", 0)):
        assert len(client.get(f"/api/v1/flows/active{query}").json["flows"]) == ids
    assert client.get("/api/v1/flows/active?host=a%20b").status_code == 422
    health = client.get("/api/v1/health").json
    assert [agent["status"]["running"] for agent in health["agents"]] == [[], []]


def test_an_agent_that_is_away_says_nothing_of_now(
    client: Client, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_agent(engine, "h1", host_heartbeat(running=(RUNNING,), link=LINK))
    monkeypatch.setattr(observed, "AGENT_LATE_S", -1.0)
    found = client.get("/api/v1/hosts/h1").json
    assert not found["agent"]["alive"]
    assert (found["link"], found["active"]) == (None, [])


def test_figures_are_of_the_flows_that_the_host_sent_lately(client: Client) -> None:
    client.post("/api/v1/agents/h1", json=document(host_heartbeat()))
    late = {"deadline_us": 1e3}
    watched = {"source": "watched", "src_port": 1, "ideal_us": None, "congestion_control": "cubic"}
    flows = [
        record("met", met=True, **late),
        record("missed", met=False, fct_us=None, status="unfinished", **late),
        *(record(f"w{i}", srtt_us=float(i), **watched) for i in range(1, 4)),
        record("received", src="h2", dst="h1"),
        record("background", source="background"),
        record("elsewhere", src="h2", dst="h3"),
    ]
    assert client.post("/api/v1/flows", json=flows).status_code == 200
    found = client.get("/api/v1/hosts/h1").json
    sent = found["sent"]
    assert (sent["flows"], sent["unfinished"]) == (5, 1)
    assert sent["deadlines"] == {"n": 2, "missed": 1, "miss_ratio": 0.5}
    assert (sent["srtt_us"]["n"], sent["srtt_us"]["p50"]) == (3, 2.0)
    assert sent["controls"] == {"cubic": 3, "sluice_dctcp": 2}
    assert sent["fct"]["small"]["n"] == 4
    assert [flow["id"] for flow in found["ended"]] == [
        "background", "received", "w3", "w2", "w1", "missed", "met"
    ]  # fmt: skip
    assert sent["window_s"] == pytest.approx(60, abs=1)


def test_figures_cover_as_many_records_as_a_page_looks_at(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_queries, "MOST_SEARCHED", 3)
    client.post("/api/v1/agents/h1", json=document(host_heartbeat()))
    client.post("/api/v1/flows", json=[record(f"f{i}") for i in range(9)])
    found = client.get("/api/v1/hosts/h1").json
    assert found["sent"]["flows"] == 3
    assert found["sent"]["window_s"] < 60
    assert len(found["ended"]) == 3
