# SPDX-License-Identifier: Apache-2.0
"""The API of runs, with a function in place of the run manager."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine

from sluice.runtime.local_calls import Listener
from sluice.store.observed import newest_events
from sluice.webui.app import create_app
from tests.unit.webui.conftest import TOKEN, Client

START = {"on": "simulator", "scenario": "paper-mix"}


class Manager:
    """Keeps the calls, and answers with what the test sets."""

    def __init__(self) -> None:
        self.calls: list[Mapping[str, Any]] = []
        self.answer: Mapping[str, Any] = {}

    def __call__(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.calls.append(request)
        return self.answer


@pytest.fixture
def manager() -> Manager:
    return Manager()


@pytest.fixture
def runs(engine: Engine, manager: Manager) -> Iterator[Client]:
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        listener = Listener(Path(folder) / "s", manager)
        listener.start()
        app = create_app(engine, TOKEN, run_manager=Path(folder) / "s")
        yield cast(Client, app.test_client())
        listener.stop()


def test_runs__without_a_folder_there_are_none_and_none_can_start(
    client: Client, bearer: dict[str, str]
) -> None:
    assert client.get("/api/v1/runs").json == {"available": False, "runs": [], "scenarios": [], "fabrics": []}
    answer = client.post("/api/v1/runs", json=START, headers=bearer)
    assert (answer.status_code, answer.json["error"]["code"]) == (404, "no-runs")
    assert "--runs DIR" in answer.json["error"]["problem"]
    assert client.get("/api/v1/runs/report?run=a").status_code == 404


def test_start_run__leaves_an_event_with_its_author(
    runs: Client, manager: Manager, engine: Engine, bearer: dict[str, str]
) -> None:
    manager.answer = {"name": "paper-mix-1", "predicted_s": 3.0}
    answer = runs.post("/api/v1/runs", json=START, headers=bearer)
    assert (answer.status_code, answer.json) == (201, manager.answer)
    (call,) = manager.calls
    assert (call["do"], call["run"], call["who"]["by"]) == ("start", START, "owner")
    (event,) = newest_events(engine, 1)
    assert event["kind"] == "run-started"
    assert (event["document"]["run"], event["document"]["by"]) == ("paper-mix-1", "owner")
    manager.answer = {"name": "paper-mix-1"}
    runs.post("/api/v1/runs/cancellation", json={"name": "paper-mix-1"}, headers=bearer)
    (event,) = newest_events(engine, 1)
    assert (event["kind"], event["document"]["by"]) == ("run-cancelled", "owner")


def test_report__is_a_page_that_runs_no_script(runs: Client, manager: Manager) -> None:
    manager.answer = {"html": "<!doctype html><script>1</script>"}
    answer = runs.get("/api/v1/runs/report?run=a&run=b/c&baseline=pias")
    assert answer.mimetype == "text/html"
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert (manager.calls[0]["names"], manager.calls[0]["baseline"]) == (["a", "b/c"], "pias")
    assert runs.get("/api/v1/runs/report").status_code == 422


def test_runs__a_manager_that_is_away_is_a_503(engine: Engine, bearer: dict[str, str]) -> None:
    client = cast(Client, create_app(engine, TOKEN, run_manager=Path("/nothing")).test_client())
    answer = client.get("/api/v1/runs")
    assert (answer.status_code, answer.json["error"]["code"]) == (503, "runs-away")
