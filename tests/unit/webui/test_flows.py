# SPDX-License-Identifier: Apache-2.0
"""Flows: their delivery, lists and figures, the connections of other programs, and those of one host."""

import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, update

from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import LinkCounters, LinkQueue, LivingConnection, RunningFlow
from sluice.policy.wire.records import FlowRecord
from sluice.store import flow_queries, observed
from sluice.store.flows import add_flows, count_flows
from sluice.store.observed import put_agent
from sluice.store.schema import flows
from tests.kit.heartbeats import LIVING, document, host_heartbeat, watching
from tests.unit.webui.conftest import Answer, Client
from tests.unit.webui.records import record
from tests.web.synthetic import Network

PATH = "/api/v1/flows"


def test_deliver__counts_what_was_new_and_what_was_known(client: Client, engine: Engine) -> None:
    batch = [record(f"f{i}") for i in range(5)]
    assert client.post(PATH, json=batch).json == {"accepted": 5, "known": 0}
    assert client.post(PATH, json=[*batch, record("f9")]).json == {"accepted": 1, "known": 5}
    assert client.post(PATH, json=[]).json == {"accepted": 0, "known": 0}
    assert client.post(PATH, json=[record("twice")] * 2).json == {"accepted": 1, "known": 1}
    assert count_flows(engine) == 7


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"bytes": 10**30}, "bytes"),
        ({"src": {"a": 1}}, "src"),
        ({"deadline_us": 5.0}, "met"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_deliver__one_bad_record_refuses_the_batch_and_is_named(
    client: Client, engine: Engine, changes: dict[str, Any], field: str
) -> None:
    answer = client.post(PATH, json=[record("f1"), record("f2", **changes)])
    assert answer.status_code == 422
    assert (answer.json["error"]["index"], answer.json["error"]["field"]) == (1, field)
    assert count_flows(engine) == 0


def test_list__pages_newest_first_without_gap_or_overlap(client: Client) -> None:
    client.post(PATH, json=[record(f"f{i}") for i in range(25)])
    seen, cursor = [], None
    while True:
        page = client.get(PATH, query_string={"limit": 10, **({"before": cursor} if cursor else {})}).json
        seen += [row["id"] for row in page["flows"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [f"f{i}" for i in reversed(range(25))]


def test_list__filters(client: Client) -> None:
    late = {"deadline_us": 1000.0}
    client.post(
        PATH,
        json=[
            record("small"),
            record("large", size_class="large", scheme="dctcp"),
            record("met", met=True, **late),
            record("missed", met=False, **late),
            record("lost", status="unfinished", fct_us=None, src="h7"),
        ],
    )

    def ids(**query: str) -> set[str]:
        return {row["id"] for row in client.get(PATH, query_string=query).json["flows"]}

    assert ids(size_class="large") == {"large"}
    assert ids(scheme="dctcp") == {"large"}
    assert ids(met="true") == {"met"}
    assert ids(met="false") == {"missed"}
    assert ids(status="unfinished", src="h7") == {"lost"}
    assert ids(dst="h9") == set()
    client.post(PATH, json=[record("labelled", label="shuffle 1", src="h8", dst="h7")])
    assert ids(host="h7") == {"lost", "labelled"}
    assert ids(label="shuffle 1") == {"labelled"}


def test_fct__by_class_and_scheme(client: Client) -> None:
    now = time.time()
    flows = [record(f"p{i}", fct_us=1000.0 * (i + 1), started_at=now - 2) for i in range(9)]
    flows += [record("d1", scheme="dctcp", fct_us=50_000.0, started_at=now - 2)]
    flows += [record("u1", status="unfinished", fct_us=None)]
    client.post(PATH, json=flows)
    answer = client.get("/api/v1/fct?window_s=30").json
    assert answer["classes"]["small"]["n"] == 10
    assert answer["schemes"]["pias"]["small"]["mean"] == pytest.approx(5000)
    assert answer["schemes"]["pias"]["small"]["p50"] == pytest.approx(5000)
    assert answer["schemes"]["dctcp"]["all"]["n"] == 1
    assert answer["flows_per_s"] == pytest.approx(11 / 30)
    assert answer["series"] is None


def test_deliver__a_different_record_with_a_known_id_is_refused_and_reported(client: Client) -> None:
    true = [record(f"f{i}") for i in range(3)]
    forged = [{**document, "fct_us": 1.0} for document in true[:2]]
    assert client.post("/api/v1/flows", json=forged).json == {"accepted": 2, "known": 0}
    answer = client.post("/api/v1/flows", json=true)
    assert answer.status_code == 409
    error = answer.json["error"]
    assert (error["code"], error["field"], error["index"]) == ("record-conflict", "fct_us", 0)
    assert {flow["id"] for flow in client.get("/api/v1/flows").json["flows"]} == {"f0", "f1", "f2"}
    [problem] = [p for p in client.get("/api/v1/health").json["problems"] if p["kind"] == "agent-refused"]
    assert problem["where"] == "h1"
    assert "id f0" in problem["problem"]
    assert client.post("/api/v1/flows", json=forged).json == {"accepted": 0, "known": 2}


def test_figures__a_window_in_the_past_ends_where_it_is_told(client: Client) -> None:
    now = time.time()
    flows = [record(f"f{ago}", started_at=now - ago, fct_us=1e3 * ago) for ago in (5, 20, 40)]
    flows += [record("late", started_at=now - 20, deadline_us=1e3, met=False, fct_us=2e3)]
    client.post(PATH, json=flows)
    for path, found in (("fct", 2), ("deadlines", 1)):
        answer = client.get(f"/api/v1/{path}?window_s=20&until={now - 10}&bin_s=2").json
        assert answer["window_s"] == 20
        total = answer["classes"]["all"]["n"] if path == "fct" else answer["n"]
        assert total == found
        assert now - 32 < answer["series"]["at"][0] <= now - 30
        assert now - 12 < answer["series"]["at"][-1] <= now - 10
    assert client.get(f"/api/v1/fct?window_s=60&until={now + 1e6}").json["classes"]["all"]["n"] == 4
    assert client.get("/api/v1/fct?until=-1").json["error"]["field"] == "until"


CLASSES_PATH = "/api/v1/classes"


def test_classes__the_sizes_that_the_records_have(client: Client) -> None:
    """A scaled workload has other limits, so the records say what small means there."""
    nothing = {"small": None, "medium": None, "large": None}
    assert client.get(CLASSES_PATH).json == {"limits_bytes": [100_000, 10_000_000], "seen": nothing}
    sizes = [("small", 100), ("small", 1900), ("medium", 2100), ("medium", 150_000)]
    scheduled = [record(f"s{n}", size_class=name, bytes=size) for n, (name, size) in enumerate(sizes)]
    watched = record("w", size_class="small", bytes=90_000, source="watched", src_port=1, ideal_us=None)
    assert client.post("/api/v1/flows", json=[*scheduled, watched]).status_code == 200
    assert client.get(f"{CLASSES_PATH}?source=scheduled").json["seen"] == {
        "small": {"n": 2, "least_bytes": 100, "most_bytes": 1900},
        "medium": {"n": 2, "least_bytes": 2100, "most_bytes": 150_000},
        "large": None,
    }
    assert client.get(CLASSES_PATH).json["seen"]["small"]["most_bytes"] == 90_000
    assert client.get(f"{CLASSES_PATH}?source=background").status_code == 422


WATCHED = {"source": "watched", "ideal_us": None, "src_port": 40_000, "dst_port": 443, "lasted_us": 3e6}


def beat(client: Client, name: str, *connections: LivingConnection, **changes: Any) -> Answer:
    return client.post(f"/api/v1/agents/{name}", json=document(watching(*connections, **changes)))


def test_living_connections_of_all_agents__the_fastest_first(client: Client) -> None:
    assert beat(client, "h1", LIVING, lost=2).status_code == 200
    slow = replace(LIVING, id="watched/0123456789ab/8.1", rate_bps=5, retransmissions=None, src="192.0.2.1")
    fast = replace(LIVING, id="watched/0123456789ab/9.1", rate_bps=10**9, dst="fd00::2")
    assert beat(client, "h2", slow, fast, lost=1).status_code == 200
    answer = client.get("/api/v1/connections").json
    assert [c["id"][-3:] for c in answer["living"]] == ["9.1", "000", "8.1"]
    assert answer["living"][1] == write(LIVING)
    assert answer["lost"] == 3
    agents = client.get("/api/v1/health").json["agents"]
    assert all(agent["status"]["watch"]["connections"] == [] for agent in agents)


def test_living_connections__of_containers_of_two_hosts_are_listed_once(client: Client) -> None:
    """Until the receiver's host has learnt who has the sender's address, both report it."""
    sent = replace(LIVING, dst="10.4.2.7", label="web1")
    received = replace(LIVING, id="watched/0123456789ab/9.1", src="10.4.1.7", dst="h2", retransmissions=None)
    assert beat(client, "h1", sent, addresses=("10.4.1.7",)).status_code == 200
    assert beat(client, "h2", received).status_code == 200
    (first,) = client.get("/api/v1/connections").json["living"]
    assert (first["src"], first["dst"], first["label"]) == ("h1", "10.4.2.7", "web1")
    assert beat(client, "h2", received, addresses=("10.4.2.7",)).status_code == 200
    (active,) = client.get("/api/v1/flows/active").json["flows"]
    assert (active["src"], active["dst"], active["label"]) == ("h1", "h2", "web1")


def beat_with(client: Client, connections: Any) -> tuple[int, str | None]:
    """Return the status code and the field of a heartbeat with these documents for connections."""
    body = document(host_heartbeat())
    body["watch"]["connections"] = connections
    answer = client.post("/api/v1/agents/h1", json=body)
    return answer.status_code, answer.json.get("error", {}).get("field")


@pytest.mark.parametrize("change", [{"src": "<script>"}, {"bytes": 10**400}, {"started_at": None}])
def test_a_heartbeat_with_a_bad_connection_is_a_422(client: Client, change: dict[str, Any]) -> None:
    found = beat_with(client, [write(LIVING), write(LIVING) | change])
    assert found == (422, f"watch.connections[1].{next(iter(change))}")
    assert client.get("/api/v1/health").json["agents"] == []


def test_what_has_ended_is_a_flow_and_no_part_of_the_figures(client: Client, engine: Engine) -> None:
    body = [
        record("run/1"),
        record("watched/1", **WATCHED, deadline_us=1e3, met=False),
        record("watched/2", **WATCHED),
    ]
    assert client.post("/api/v1/flows", json=body).json == {"accepted": 3, "known": 0}
    assert client.post("/api/v1/flows", json=body).json == {"accepted": 0, "known": 3}
    assert [f["id"] for f in client.get("/api/v1/flows").json["flows"]] == ["watched/2", "watched/1", "run/1"]
    watched = client.get("/api/v1/flows?source=watched").json["flows"]
    assert [(f["id"], f["source"], f["src_port"]) for f in watched] == [
        ("watched/2", "watched", 40_000),
        ("watched/1", "watched", 40_000),
    ]
    assert [f["id"] for f in client.get("/api/v1/flows?source=scheduled").json["flows"]] == ["run/1"]
    assert client.get("/api/v1/flows?source=other").status_code == 422
    assert client.get("/api/v1/fct").json["classes"]["all"]["n"] == 1
    assert client.get("/api/v1/deadlines").json["n"] == 0
    assert [f["id"] for f in client.get("/api/v1/connections").json["ended"]] == ["watched/2", "watched/1"]


def test_what_has_ended_long_ago_is_not_shown(client: Client, engine: Engine) -> None:
    add_flows(engine, [FlowRecord.from_document(record("watched/1", **WATCHED))])
    with engine.begin() as connection:
        connection.execute(update(flows).values(received_at=time.time() - 3600))
    assert client.get("/api/v1/connections").json["ended"] == []


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
    put_agent(engine, "h1", replace(watching(LIVING, lost=5), running=(RUNNING,), link=LINK))
    monkeypatch.setattr(observed, "AGENT_LATE_S", -1.0)
    found = client.get("/api/v1/hosts/h1").json
    assert not found["agent"]["alive"]
    assert (found["link"], found["active"]) == (None, [])
    assert client.get("/api/v1/connections").json == {"living": [], "ended": [], "lost": 0}


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
