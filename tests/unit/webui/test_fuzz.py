# SPDX-License-Identifier: Apache-2.0
"""For any input: a 4xx with the error's shape or a 2xx, never a 5xx, and never a partial change."""

import json
import tempfile
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sluice.policy.wire.records import FlowRecord
from sluice.store.engine import open_store
from sluice.store.flows import all_flows, count_flows
from sluice.webui.app import create_app
from tests.kit.heartbeats import document, port_heartbeat
from tests.unit.webui.conftest import TOKEN, Answer, Client
from tests.unit.webui.records import record

pytestmark = pytest.mark.slow

FOLDER = tempfile.TemporaryDirectory(prefix="sluice-fuzz-")
ENGINE = open_store(f"sqlite:///{FOLDER.name}/store.db")
CLIENT = cast(Client, create_app(ENGINE, TOKEN).test_client())

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [2**63, -(2**63), 1e308, 5e-324, "\ud800", "\x00", "h1", "small", "finished", "1" * 5000]
    ),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = sorted(FlowRecord.__dataclass_fields__)
CHANGED = st.builds(
    lambda changes, without: {k: v for k, v in {**record("f"), **changes}.items() if k not in without},
    st.dictionaries(st.one_of(st.sampled_from(FIELDS), st.text(max_size=10)), JSON, max_size=4),
    st.sets(st.sampled_from(FIELDS), max_size=2),
)
MANY = settings(suppress_health_check=list(HealthCheck))


def check(answer: Answer) -> int:
    """Return the answer's status, which must be one that a client may get."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert set(answer.json["error"]) == {"code", "problem", "field", "index"}
        assert len(answer.json["error"]["problem"]) <= 400
    return answer.status_code


def send(method: str, path: str, body: str | bytes) -> Answer:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return CLIENT.open(path, method=method, data=body, content_type="application/json", headers=headers)


@MANY
@given(st.lists(st.one_of(CHANGED, JSON), max_size=4))
def test_deliver__any_json(documents: list[Any]) -> None:
    before = count_flows(ENGINE)
    try:
        body = json.dumps(documents)
    except (ValueError, UnicodeError):
        return
    if check(send("POST", "/api/v1/flows", body)) >= 400:
        assert count_flows(ENGINE) == before
    all_flows(ENGINE)


@MANY
@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
@example(b"[" * 100_000)
@example(b'{"a":' * 50_000)
@example(b"[1e999999999]")
@example(b"[" + b"9" * 100_000 + b"]")
@example(b'["\\ud800"]')
@example(b"\xff\xfe[\x00]\x00")
def test_any_bytes__everywhere(body: bytes) -> None:
    for method, path in (
        ("POST", "/api/v1/flows"),
        ("POST", "/api/v1/agents/h1"),
        ("PUT", "/api/v1/policy?wait_s=0"),
    ):
        check(send(method, path, body))


@MANY
@given(
    st.dictionaries(st.sampled_from(["kind", "at", "problems", "ports", "version", "x"]), JSON, max_size=2)
)
def test_heartbeat__any_json(changes: dict[str, Any]) -> None:
    try:
        body = json.dumps(document(port_heartbeat()) | changes)
    except (ValueError, UnicodeError):
        return
    if check(send("POST", "/api/v1/agents/fuzz", body)) >= 400:
        return
    # What one agent sent is in what every client gets.
    assert check(CLIENT.get("/metrics")) == check(CLIENT.get("/api/v1/health")) == 200
    stream = CLIENT.get("/api/v1/events?count=1")
    assert b"snapshot" in stream.data
    stream.close()
