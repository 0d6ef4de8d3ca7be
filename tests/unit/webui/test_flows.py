# SPDX-License-Identifier: Apache-2.0


import time
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.store.flows import count_flows
from tests.unit.webui.conftest import Client
from tests.unit.webui.records import record

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
        ({"bytes": "10"}, "bytes"),
        ({"bytes": 10**30}, "bytes"),
        ({"id": "a b"}, "id"),
        ({"src": {"a": 1}}, "src"),
        ({"size_class": "tiny"}, "size_class"),
        ({"fct_us": None}, "fct_us"),
        ({"met": True}, "met"),
        ({"deadline_us": 5.0}, "met"),
        ({"status": "lost"}, "status"),
        ({"reason": "\x00"}, "reason"),
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


def test_classes__the_limits_before_the_first_flow(client: Client) -> None:
    nothing = {"small": None, "medium": None, "large": None}
    assert client.get(CLASSES_PATH).json == {"limits_bytes": [100_000, 10_000_000], "seen": nothing}


def test_classes__the_sizes_that_the_records_have(client: Client) -> None:
    """A scaled workload has other limits, so the records say what small means there."""
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
