# SPDX-License-Identifier: Apache-2.0
"""The models of the answers are those of what the server sends, and the modules of the page pass their tests."""

import json
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine

from sluice.policy.figures.validity import MachineStatus
from sluice.policy.schema.desired import Policy
from sluice.policy.version import VERSION
from sluice.policy.wire.agents import LinkCounters, LinkQueue
from sluice.run_manager import RunManager, answerer
from sluice.runtime.local_calls import Listener
from sluice.store.desired import mark_applied, put_policy
from sluice.store.observed import add_event, put_agent, put_sanction
from sluice.webui import agents, api, flows, hosts, live, policies, ports, runs, scoreboard
from sluice.webui import network as network_documents
from sluice.webui.api import Model
from sluice.webui.app import create_app
from tests.kit.heartbeats import LIVING, document, port_heartbeat, queue_counters, watching
from tests.unit.webui.conftest import TOKEN, Client
from tests.unit.webui.records import record
from tests.web.known_runs import known_runs
from tests.web.synthetic import Network, demotion

MODELS: Mapping[str, type[Model]] = {
    model.__name__: model
    for file in (agents, api, flows, hosts, live, network_documents, policies, ports, runs, scoreboard)
    for model in vars(file).values()
    if isinstance(model, type) and issubclass(model, Model)
}
LINK = LinkCounters(12.5, 9_000, 700, 4, 3_000, 8_000_000, 90_000, (LinkQueue(5_000, 1, 0),))
OVERRIDES = [
    {"ports": ["s1:2"], "thresholds": ["10KB", "20KB", "30KB"]},
    {"ports": ["s2:*"], "freeze": True},
]


@pytest.fixture
def network(engine: Engine, client: Client) -> Network:
    """Write a network with a row of each kind that a document can hold."""
    network = Network(engine)
    put_policy(engine, Policy.from_document({"scheme": "datcp"}), "test")
    policy = Policy.from_document({"scheme": "mlfq-adaptive", "queues": 4, "overrides": OVERRIDES})
    mark_applied(engine, put_policy(engine, policy, "test"))
    for ago_s in (2, 1):
        network.second(time.time() - ago_s, policy, 2)
    network.heartbeats(2)
    ports = {"s1:2": (queue_counters(),)}
    put_agent(
        engine,
        "ports",
        port_heartbeat(ports=ports, version=VERSION, machine=MachineStatus(10.0, 0.99, forwarded_late=0.3)),
    )
    add_event(engine, "policy-applied", version=2, scheme="mlfq-adaptive")
    put_sanction(engine, demotion())
    assert (
        client.post(
            "/api/v1/agents/h3", json=document(replace(watching(replace(LIVING, src="h3")), link=LINK))
        ).status_code
        == 200
    )
    ended = record("watched/2", src="h3", source="watched", src_port=1, ideal_us=None)
    assert client.post("/api/v1/flows", json=[ended]).json == {"accepted": 1, "known": 0}
    return network


def answers(client: Client, bearer: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Return each model's name with a document of it."""
    for name, path in {
        "SchemesAnswer": "schemes",
        "TopologyAnswer": "topology",
        "PolicyAnswer": "policy",
        "ThresholdsAnswer": "thresholds?since=0",
        "PortsAnswer": "ports?since=0&port=s1:1",
        "ClassesAnswer": "classes",
        "FctAnswer": "fct?window_s=10&bin_s=2",
        "DeadlinesAnswer": "deadlines?window_s=10&bin_s=2",
        "FlowsAnswer": "flows?limit=3",
        "ActiveFlowsAnswer": "flows/active",
        "HostAnswer": "hosts/h3",
    }.items():
        yield name, client.get(f"/api/v1/{path}").json
    put = client.put("/api/v1/policy?wait_s=0", json={"scheme": "tcp"}, headers=bearer)
    yield "ChangedPolicyModel", put.json
    yield "PolicyPreview", client.post("/api/v1/policy/preview", json={"scheme": "fish"}).json
    yield "ScoreboardAnswer", client.get("/api/v1/scoreboard?source=all").json
    yield "Error", client.put("/api/v1/policy", json={"queues": 99}, headers=bearer).json
    yield from streamed(client)


def run_answers(client: Client, bearer: dict[str, str]) -> Iterator[tuple[str, Any]]:
    yield "RunsAnswer", client.get("/api/v1/runs").json
    sweep = {"on": "simulator", "scenario": "paper-mix", "flows": 9, "sweep": True, "seeds": [1, 2]}
    for run in (sweep, {"on": "simulator", "scenario": "paper-mix", "flows": 9}):
        yield "RunPlanModel", client.post("/api/v1/runs/check", json=run, headers=bearer).json
    yield "StartedRunModel", client.post("/api/v1/runs", json=sweep, headers=bearer).json


@contextmanager
def run_client(engine: Engine, folder: Path) -> Iterator[Client]:
    """Yield a client of a web process whose run manager has runs of each state, and starts no process."""
    ended = threading.Event()
    manager = RunManager(folder, 2)
    serving = threading.Thread(target=manager.serve, args=[ended])
    with tempfile.TemporaryDirectory(prefix="sluice-") as home, known_runs(folder):
        listener = Listener(Path(home) / "s", answerer(manager))
        listener.start()
        serving.start()
        yield cast(Client, create_app(engine, TOKEN, run_manager=Path(home) / "s").test_client())
        ended.set()
        serving.join()
        listener.stop()


def streamed(client: Client) -> Iterator[tuple[str, Any]]:
    types = {"snapshot": "SnapshotModel", "event": "EventModel"}
    for frame in client.get("/api/v1/events?count=1").text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.splitlines())
        if "event" in lines:
            yield types[lines["event"]], json.loads(lines["data"])


@pytest.mark.slow
def test_every_document_has_the_keys_and_types_of_its_model(
    client: Client,
    engine: Engine,
    bearer: dict[str, str],
    network: Network,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing key is an error, and so is an additional one."""
    monkeypatch.setattr(RunManager, "_spawn", lambda *_: "paper-mix-1")
    documents = list(answers(client, bearer))
    with run_client(engine, tmp_path / "runs") as runs:
        documents += run_answers(runs, bearer)
    listed = next(sent for name, sent in documents if name == "RunsAnswer")
    assert {(run["kind"], run["state"]) for run in listed["runs"]} == {
        *[("run", "running"), ("run", "failed")],
        *[("sweep", "running"), ("sweep", "done"), ("sweep", "partial")],
    }
    names = {name for name, _ in documents}
    assert {"SnapshotModel", "EventModel"} <= names
    snapshot = next(sent for name, sent in documents if name == "SnapshotModel")
    lists = (snapshot["connections"]["living"], snapshot["connections"]["ended"], snapshot["sanctions"])
    assert all(lists)
    assert snapshot["validity"]["reasons"]
    assert all(snapshot[key] for key in ("thresholds", "ports", "policy"))
    found = next(sent for name, sent in documents if name == "HostAnswer")
    assert all(found[key] for key in ("place", "agent", "link", "active", "ended"))
    for name, sent in documents:
        MODELS[name].model_validate(sent, strict=True, extra="forbid")


TESTS = sorted((Path(__file__).parent / "javascript").glob("*.test.mjs"))
MODULES = Path(__file__).parents[3] / "webui/static/js/pure"
NODE = shutil.which("node") or ""


@pytest.mark.slow
@pytest.mark.skipif(not NODE, reason="node is missing; on Debian: apt-get install nodejs")
def test_pure_modules(tmp_path: Path) -> None:
    """Every module has a file of tests. One process runs them all."""
    assert {path.name.removesuffix(".test.mjs") for path in TESTS} == {
        path.stem for path in MODULES.iterdir()
    }
    script = tmp_path / "all.mjs"
    script.write_text("".join(f"import {json.dumps(str(path))};\n" for path in TESTS))
    done = subprocess.run([NODE, script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    declared = sum(path.read_text().count("\ntest(") for path in TESTS)
    (ran,) = re.findall(r"^\S tests (\d+)$", done.stdout, re.MULTILINE)
    assert int(ran) >= declared, done.stdout
