# SPDX-License-Identifier: Apache-2.0

import threading
from collections.abc import Iterator
from typing import Any, Protocol, cast

import pytest
from flask import Flask
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine

from sluice.webui.app import create_app
from tests.kit.clock import slow_clock

TOKEN = "the-token"


class Answer(Protocol):
    """The parts of werkzeug's TestResponse that tests read. Tests know from the path which document they get."""

    status_code: int
    mimetype: str
    headers: Any
    json: Any
    text: str
    data: bytes

    def close(self) -> None: ...


class Client(Protocol):
    """Flask's test client, with the answers above."""

    def get(self, path: str, **options: Any) -> Answer: ...

    def post(self, path: str, **options: Any) -> Answer: ...

    def put(self, path: str, **options: Any) -> Answer: ...

    def open(self, path: str, **options: Any) -> Answer: ...


def scrape(client: Client) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return sample name → labels as a sorted tuple → value."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.mimetype == "text/plain"
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {}), f"{sample.name}{labels} is there twice"
            found[sample.name][labels] = sample.value
    return found


@pytest.fixture(autouse=True)
def no_agent_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_clock(monkeypatch)


@pytest.fixture
def app(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    """The application. Each request for the health asks the store."""
    monkeypatch.setattr("sluice.webui.services.HEALTH_S", 0.0)
    stopping = threading.Event()
    yield create_app(engine, TOKEN, stopping)
    stopping.set()


@pytest.fixture
def client(app: Flask) -> Client:
    return cast(Client, app.test_client())


@pytest.fixture
def owner(app: Flask) -> Client:
    """A client that sends the token of the start."""
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return cast(Client, client)


@pytest.fixture
def bearer() -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"}
