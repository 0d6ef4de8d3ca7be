# SPDX-License-Identifier: Apache-2.0
"""Unit costs for the plan of a large network: CPU time and memory for one more port, heartbeat, record or packet-hop.

All times are CPU times, because others may use the machine. A unit of a process with costs of its own is the difference
between two sizes.
"""

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.control import INTERVAL_MS, SCHEMES, measure_loop
from experiments.bench.ingest import Agent, cpu_s, web_process
from experiments.bench.measuring import Result
from experiments.bench.simulator import FABRICS, measure, scaled
from experiments.kit.heartbeats import idle_heartbeat
from sluice.policy.wire.agents import heartbeat_document
from sluice.runtime.http_client import HttpClient

LEAVES = (2, 8)
"""Fabrics of 80 and 320 ports. A controller on a slow core keeps its pace with both."""
AGENTS = 50
HEARTBEATS = 3000
BATCH, BATCHES = 250, 80
"""Records of a delivery, as an agent gathers them at 500 a second, and deliveries."""
TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class PortUnits:
    """What a port costs the controller."""

    us_an_interval: float
    kib: float


@dataclass(frozen=True)
class WebUnits:
    """What agents cost the web process."""

    us_a_heartbeat: float
    us_a_record: float


def measure_ports(scheme: str) -> PortUnits:
    """Return what one more port costs a controller under a scheme, in CPU time for each interval and in memory."""
    points = []
    for leaves in LEAVES:
        with _peak_kib("controller") as peak:
            loop = measure_loop(scheme, leaves)
        made_per_s = loop.kept * 1000 / INTERVAL_MS
        points.append((loop.ports, loop.cpu / made_per_s * 1e6, peak()))
    (few, few_us, few_kib), (many, many_us, many_kib) = points
    return PortUnits((many_us - few_us) / (many - few), (many_kib - few_kib) / (many - few))


def measure_web() -> WebUnits:
    """Return the CPU time of a web process on SQLite for each heartbeat and each flow record."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as name,
        web_process(Path(name), f"sqlite:///{name}/store.db", 1) as process,
    ):
        web = HttpClient(f"unix:{Path(name) / 'web.sock'}", TIMEOUT_S)
        beat = json.dumps(heartbeat_document(idle_heartbeat())).encode()
        began = cpu_s(process)
        for number in range(HEARTBEATS):
            _post(web, f"/api/v1/agents/h{number % AGENTS}", beat)
        beaten = cpu_s(process)
        agent = Agent(0, Path(name) / "web.sock", BATCH, 0.0)
        for _ in range(BATCHES):
            _post(web, "/api/v1/flows", agent.body())
        kept = cpu_s(process)
        web.close()
    return WebUnits((beaten - began) / HEARTBEATS * 1e6, (kept - beaten) / BATCHES / BATCH * 1e6)


def measure_packet_hop() -> float:
    """Return the CPU time of a packet-hop on the largest fabric, in nanoseconds."""
    return 1e9 / measure(scaled(*FABRICS[-1])).hops_per_s


def _post(web: HttpClient, path: str, body: bytes) -> None:
    answer = web.post(path, body)
    if not answer.ok:
        raise RuntimeError(f"{path}: the web process answers {answer.status}: {answer.body.decode()}")


@contextmanager
def _peak_kib(module: str) -> Iterator[Callable[[], float]]:
    """Watch the child that runs this service, and yield a function that returns its peak memory so far."""
    peak, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            lists = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
            children = [int(pid) for pids in lists for pid in pids.split()]
            peak.extend(_high_water_kib(pid) for pid in children if module in _argv(pid))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield lambda: max(peak)
    finally:
        over.set()
        watcher.join()


def _argv(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except FileNotFoundError:
        return []


def _high_water_kib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return max((float(line.split()[1]) for line in lines if line.startswith("VmHWM:")), default=0.0)


def unit_results() -> Iterator[Result]:
    """What one more port, heartbeat, record and packet-hop cost, for the plan of a large network."""
    for scheme in SCHEMES:
        port = measure_ports(scheme)
        yield Result(f"controller, {scheme}, a port and interval", port.us_an_interval, "us")
        yield Result(f"controller, {scheme}, memory of a port", port.kib, "KiB")
    web = measure_web()
    yield Result("web process, a heartbeat", web.us_a_heartbeat, "us")
    yield Result("web process, a flow record into SQLite", web.us_a_record, "us")
    yield Result("simulator, a packet-hop at 1,024 hosts", measure_packet_hop(), "ns")
