# SPDX-License-Identifier: Apache-2.0
"""Bounds of what clients may hold and send: places, memory, bodies."""

import io
import json
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine

from sluice.policy.schemes import SCHEMES
from sluice.policy.wire.agents import MAX_HEARTBEAT_BYTES, MAX_PORTS
from sluice.store.flow_queries import OTHER_SCHEME
from sluice.store.observed import newest_events
from sluice.webui import runs
from sluice.webui.access import ConnectionPlaces
from sluice.webui.api import MAX_BODY_BYTES, MAX_FLOWS_BODY_BYTES, ApiError, parse_json
from sluice.webui.app import create_app
from sluice.webui.problems import MOST_PROBLEMS, MOST_REFUSALS, Refusals
from sluice.webui.services import StreamPlaces
from tests.kit.heartbeats import document, host_heartbeat, port_heartbeat, queue_counters
from tests.unit.webui.conftest import TOKEN, Answer, Client
from tests.unit.webui.records import record

HUGE = 10**400


def beat(client: Client, name: str, body: Any) -> Answer:
    return client.post(f"/api/v1/agents/{name}", json=body)


def test_invented_schemes__are_one_in_the_figures(client: Client) -> None:
    invented = [record(f"f{i}", scheme=f"invented-{i}") for i in range(400)]
    client.post("/api/v1/flows", json=[*invented, record("true", scheme="pias")])
    schemes = client.get("/api/v1/fct").json["schemes"]
    assert set(schemes) == {OTHER_SCHEME, "pias"}
    assert schemes[OTHER_SCHEME]["all"]["n"] == 400
    assert OTHER_SCHEME not in SCHEMES


@pytest.mark.parametrize("value", [-HUGE, 2**63])
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


def test_more_agents_than_there_may_be_are_refused(engine: Engine) -> None:
    client = cast(Client, create_app(engine, TOKEN, most_agents=2).test_client())
    good = document(host_heartbeat())
    assert [beat(client, name, good).status_code for name in ("a", "b", "c", "a")] == [200, 200, 409, 200]
    error = beat(client, "c", good).json["error"]
    assert (error["code"], error["field"]) == ("too-many-agents", "name")
    assert "2 agents report already" in error["problem"]
    assert "most_agents" in error["problem"]


def test_refusals__write_a_bounded_number_of_events(engine: Engine) -> None:
    refusals = Refusals(engine)
    for number in range(3 * MOST_REFUSALS):
        refusals.note(f"agent{number}", "wrong")
    assert len(newest_events(engine, 3 * MOST_REFUSALS)) == MOST_REFUSALS


FAR, OTHER = "192.0.2.1", "192.0.2.2"


class Caller:
    def __init__(self, address: str) -> None:
        self.address = address
        self.is_away = False

    def make_room(self) -> None:
        self.is_away = True


def enter(places: ConnectionPlaces, *callers: Caller) -> list[bool]:
    return [places.enter(caller) for caller in callers]


def test_enter__the_longest_waiting_makes_room() -> None:
    places, callers = ConnectionPlaces(3), [Caller("127.0.0.1") for _ in range(5)]
    assert enter(places, *callers) == [True] * 5
    assert [caller.is_away for caller in callers] == [True, True, False, False, False]
    assert len(places) == 3


def test_enter__a_request_keeps_its_place() -> None:
    places, first, second = ConnectionPlaces(2), Caller(""), Caller("")
    enter(places, first, second)
    places.serve(first)
    third = Caller("")
    assert enter(places, third) == [True]
    assert (first.is_away, second.is_away) == (False, True)
    places.serve(third)
    assert enter(places, Caller("")) == [False]
    places.wait(first)
    assert enter(places, Caller("")) == [True]
    assert first.is_away


def test_enter__one_address_has_a_quarter_of_the_places() -> None:
    places = ConnectionPlaces(8)
    far, others = [Caller(FAR) for _ in range(3)], [Caller(OTHER) for _ in range(2)]
    assert enter(places, *others, *far) == [True] * 5
    assert [caller.is_away for caller in (*others, *far)] == [False, False, True, False, False]
    for caller in far:
        places.serve(caller)
    assert enter(places, Caller(FAR), Caller(OTHER)) == [False, True]


@pytest.mark.parametrize("address", ["", "::1", "127.0.0.9"])
def test_enter__this_machine_may_have_all_places(address: str) -> None:
    places, callers = ConnectionPlaces(8), [Caller(address) for _ in range(8)]
    assert enter(places, *callers) == [True] * 8
    assert not any(caller.is_away for caller in callers)


def test_leave__makes_room_once() -> None:
    places, first = ConnectionPlaces(1), Caller(FAR)
    enter(places, first)
    places.serve(first)
    for _ in range(2):
        places.leave(first)
    assert len(places) == 0
    second = Caller(FAR)
    assert enter(places, second) == [True]
    places.serve(second)
    assert enter(places, Caller(FAR)) == [False]


def test_streams__clients_without_a_token_have_places_of_their_own() -> None:
    places = StreamPlaces(8)
    leave = places.take(False)
    with pytest.raises(Exception, match="without a token"):
        places.take(False)
    places.take(True)
    for _ in range(2):  # a second time changes nothing
        leave()
    places.take(False)
    with pytest.raises(Exception, match="without a token"):
        places.take(False)


# ── Bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


JSON = {"content_type": "application/json"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'{"a": NaN}',
        b"[1e999]",
        b"\xff\xfe",
        b'["\\ud800"]',
        b"1" * 5000,
        b"[" * 100_000,
        b"[1] [2]",
        b'[{"a": [{"b": 1, "c": 2, "b": 1}]}]',
    ],
)
def test_parse_json__what_is_no_json_is_a_400(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_json(raw)
    assert (caught.value.status, caught.value.code) == (400, "malformed-json")


def test_parse_json__a_whole_number_is_whole_however_it_is_written() -> None:
    value = parse_json(b'[3.0, 3, 1e2, 9007199254740992.0, 1e18, 2.5, "\\ud83d\\ude00"]')
    assert value == [3, 3, 100, 2**53, 10**18, 2.5, "😀"]
    assert [type(x) for x in value] == [int, int, int, int, int, float, str]


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [("text/plain", ""), ("", ""), ("application/x-www-form-urlencoded", ""), ("application/json", "gzip")],
)
def test_other_content_types_and_encodings_are_a_415(
    client: Client, content_type: str, encoding: str
) -> None:
    headers = {"Content-Encoding": encoding} if encoding else {}
    answer = client.post("/api/v1/flows", data=b"[]", content_type=content_type, headers=headers)
    assert (answer.status_code, answer.json["error"]["code"]) == (415, "unsupported-media-type")


class Unread(io.RawIOBase):
    """A body that counts the bytes that nobody has read."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.left)
        self.left -= count
        buffer[:count] = b" " * count
        return count


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("PUT", "/api/v1/policy", MAX_BODY_BYTES),
        ("POST", "/api/v1/agents/h1", MAX_HEARTBEAT_BYTES),
        ("POST", "/api/v1/flows", MAX_FLOWS_BODY_BYTES),
        ("POST", "/api/v1/runs", runs.MAX_BODY_BYTES),
    ],
)
def test_a_body_over_the_limit_is_a_413_and_never_in_memory(
    client: Client, bearer: dict[str, str], method: str, path: str, limit: int
) -> None:
    body = Unread(10_000_000)
    environ = {"wsgi.input": body, "CONTENT_LENGTH": "10000000"}
    answer = client.open(path, method=method, headers=bearer, environ_overrides=environ, **JSON)
    assert (answer.status_code, answer.json["error"]["code"]) == (413, "too-large")
    assert body.left == 10_000_000, "its length is known, so none of it needs to be read"
    fits = client.open(path, method=method, data=b" " * limit, headers=bearer, **JSON)
    assert fits.status_code == 400


def test_a_streamed_body_over_the_limit_is_a_413(client: Client) -> None:
    environ = {"wsgi.input": Unread(10_000_000), "wsgi.input_terminated": True}
    answer = client.post("/api/v1/flows", environ_overrides=environ, **JSON)
    assert answer.status_code == 413
