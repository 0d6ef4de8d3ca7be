# SPDX-License-Identifier: Apache-2.0
"""The provisioned dashboard uses only metrics that exist, and a real Prometheus answers every one
of its queries."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from sluice.policy.figures.validity import MachineStatus
from sluice.policy.schema.desired import Policy
from sluice.runtime.process import spawn, stop
from sluice.store.desired import mark_applied, put_policy
from sluice.store.totals import ENTRIES_DECODED, LOOP_SECONDS, RULES_CHANGED, SWITCH_CONNECTS, Tally, flush
from tests.kit.heartbeats import LIVING, document, port_heartbeat, queue_counters, watching
from tests.unit.webui.records import record
from tests.web.conftest import PATIENCE_S, Server, eventually, free_address
from tests.web.synthetic import Network

DOCKER = Path(__file__).parents[2] / "docker"
RULES = DOCKER.parent / "packaging/prometheus/sluice.rules.yml"
DASHBOARD = json.loads((DOCKER / "grafana/dashboards/sluice.json").read_text())
RATE_INTERVAL_S = 10


def queries() -> list[str]:
    """Return every expression of the dashboard as Grafana would send it."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    found += [annotation["expr"] for annotation in DASHBOARD["annotations"]["list"]]
    return [text.replace("$__rate_interval", f"{RATE_INTERVAL_S}s").replace("$port", ".*") for text in found]


def alerts() -> list[str]:
    """Return the condition of each rule."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def second(shared_network: Network, shared_server: Server) -> Callable[[], None]:
    """Write one second of rows, records and counts of every kind."""
    network, server = shared_network, shared_server
    policy = Policy.from_document({"scheme": "mlfq-adaptive", "queues": 4})
    version = put_policy(network.engine, policy, "test")
    mark_applied(network.engine, version)
    number = iter(range(10**9))

    def live() -> None:
        network.second(time.time(), policy, version)
        network.heartbeats(version)
        tally = Tally()
        tally.observe(LOOP_SECONDS, [0.003, 0.02])
        tally.count(ENTRIES_DECODED, 500)
        tally.count(RULES_CHANGED, 3)
        tally.count(SWITCH_CONNECTS, switch="s1")
        flush(network.engine, tally)
        late = {"deadline_us": 1e3, "met": False}
        batch = [record(f"g{next(number)}"), record(f"g{next(number)}", **late)]
        bodies: list[list[dict[str, Any]]] = [batch, batch, [{}]]
        for body in bodies:
            requests.post(f"{server.url}/api/v1/flows", json=body, timeout=PATIENCE_S)
        counters = queue_counters(marked=next(number), dropped=next(number))
        beat = document(port_heartbeat(ports={"s1:1": (counters,)}, machine=MachineStatus(10.0, 0.2)))
        server.post("agents/port-agent", beat)
        server.post("agents/h1", document(watching(replace(LIVING, label="web"))))

    return live


def exposed(server: Server) -> dict[str, set[str]]:
    """Return the labels of each sample, by its name."""
    text = requests.get(f"{server.url}/metrics", timeout=PATIENCE_S).text
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_name_and_label_of_the_dashboard_is_in_metrics_and_every_metric_is_shown(
    shared_server: Server, second: Callable[[], None]
) -> None:
    second()
    samples = exposed(shared_server)
    assert len(alerts()) == 9
    for query in (*queries(), *alerts()):
        names = set(re.findall(r"sluice_\w+", query))
        assert names, query
        assert names <= set(samples), f"{query}: {names - set(samples)} is not in /metrics"
        asked = set(re.findall(r"(\w+)=~?\"", query))
        for by in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
            asked |= {label.strip() for label in by.split(",")}
        assert asked <= set.union(*(samples[name] for name in names)), query
    shown = set(re.findall(r"sluice_\w+", " ".join((*queries(), *alerts()))))
    families = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in samples}
    # Those that only name the running version are on no panel.
    left_out = {
        family
        for family in families - {"sluice_build_info", "sluice_controller_up"}
        if not any(name.startswith(family) for name in shown)
    }
    assert left_out <= {"sluice_flow_bytes_total", "sluice_queue_packets_total"}


@pytest.fixture
def prometheus(tmp_path: Path, shared_server: Server) -> Iterator[str]:
    """Start a real Prometheus with the container's configuration, which asks the server every
    second. Returns its address."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is missing; on Debian: apt-get install prometheus")
    text = (DOCKER / "prometheus/prometheus.yml").read_text()
    changed = text.replace("webui:8080", f"127.0.0.1:{shared_server.port}").replace("5s", "1s")
    assert changed.count("127.0.0.1") == changed.count("1s") == 1
    (tmp_path / "prometheus.yml").write_text(changed)
    shutil.copy(RULES, tmp_path)
    address = free_address()
    argv = [
        "prometheus",
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/tsdb",
        f"--web.listen-address={address}",
    ]
    process = spawn(argv, log_file=tmp_path / "prometheus.log")
    yield f"http://{address}"
    stop(process)


def ask(prometheus: str, query: str) -> dict[str, Any]:
    answer = requests.get(f"{prometheus}/api/v1/query", params={"query": query}, timeout=PATIENCE_S)
    return dict(answer.json())


def test_a_real_prometheus_answers_every_query(prometheus: str, second: Callable[[], None]) -> None:
    def scrapes() -> int:
        second()
        try:
            answer = ask(prometheus, "count_over_time(sluice_policy_version[1m])")
            return int(answer["data"]["result"][0]["value"][1])
        except (requests.RequestException, IndexError):
            return 0

    eventually(lambda: scrapes() >= 4, "four scrapes", interval_s=0.5)
    up = ask(prometheus, 'up{job="sluice"}')
    assert [value["value"][1] for value in up["data"]["result"]] == ["1"]

    def values(query: str) -> list[str]:
        answer = ask(prometheus, query)
        assert answer["status"] == "success", f"{query}: {answer}"
        rows = [row["value"][1] for row in answer["data"]["result"]]
        if not rows:
            second()  # what an agent has reported seconds ago is no longer there
        return rows

    for query in queries():
        if "changes(" in query:
            values(query)
        else:
            assert set(eventually(partial(values, query), f"{query} finds something")) != {"NaN"}, query
