# SPDX-License-Identifier: Apache-2.0
"""Unit costs for the plan of a large network: CPU time and memory for one more port, heartbeat, record or packet-hop.

All times are CPU times, because others may use the machine. A unit of a process with costs of its own is the difference
between two sizes.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from experiments.bench.control import INTERVAL_MS, SCHEMES, measure_loop
from experiments.bench.ingest import cpu_s, web_process
from experiments.bench.measuring import Result
from experiments.bench.simulator import FABRICS, measure, scaled
from experiments.kit.heartbeats import flow_records, idle_heartbeat
from sluice.policy.wire.agents import heartbeat_document
from sluice.runtime.http_client import HttpClient

LEAVES = (2, 8)
"""Fabrics of 80 and 320 ports. A controller on a slow core keeps its pace with both."""
AGENTS = 50
HEARTBEATS = 3000
BATCH, BATCHES = 250, 80
"""Records of a delivery, as an agent gathers them at 500 a second, and deliveries."""
TIMEOUT_S = 60.0


def unit_results() -> Iterator[Result]:
    """What one more port, heartbeat, record and packet-hop cost, for the plan of a large network."""
    for scheme in SCHEMES:
        us_an_interval, kib = _of_a_port(scheme)
        yield Result(f"controller, {scheme}, a port and interval", us_an_interval, "us")
        yield Result(f"controller, {scheme}, memory of a port", kib, "KiB")
    us_a_heartbeat, us_a_record = _of_the_web_process()
    yield Result("web process, a heartbeat", us_a_heartbeat, "us")
    yield Result("web process, a flow record into SQLite", us_a_record, "us")
    ns_a_hop = 1e9 / measure(scaled(*FABRICS[-1])).hops_per_s
    yield Result("simulator, a packet-hop at 1,024 hosts", ns_a_hop, "ns")


def _of_a_port(scheme: str) -> tuple[float, float]:
    """Return what one more port costs a controller: CPU time in us for each interval, and memory in KiB."""
    points = []
    for leaves in LEAVES:
        loop = measure_loop(scheme, leaves)
        made_per_s = loop.kept * 1000 / INTERVAL_MS
        points.append((loop.ports, loop.cpu / made_per_s * 1e6, loop.peak_kib))
    (few, few_us, few_kib), (many, many_us, many_kib) = points
    return (many_us - few_us) / (many - few), (many_kib - few_kib) / (many - few)


def _of_the_web_process() -> tuple[float, float]:
    """Return the CPU time in us of a web process on SQLite for each heartbeat and each flow record."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as name,
        web_process(Path(name), f"sqlite:///{name}/store.db") as process,
    ):
        web = HttpClient(f"unix:{Path(name) / 'web.sock'}", TIMEOUT_S)
        beat = json.dumps(heartbeat_document(idle_heartbeat())).encode()
        began = cpu_s(process)
        for number in range(HEARTBEATS):
            _post(web, f"/api/v1/agents/h{number % AGENTS}", beat)
        beaten = cpu_s(process)
        for number in range(BATCHES):
            _post(web, "/api/v1/flows", flow_records("h0", number * BATCH, BATCH))
        kept = cpu_s(process)
        web.close()
    return (beaten - began) / HEARTBEATS * 1e6, (kept - beaten) / BATCHES / BATCH * 1e6


def _post(web: HttpClient, path: str, body: bytes) -> None:
    answer = web.post(path, body)
    if not answer.ok:
        raise RuntimeError(f"{path}: the web process answers {answer.status}: {answer.body.decode()}")
