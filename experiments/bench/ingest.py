# SPDX-License-Identifier: Apache-2.0
"""A real web process under load: flow records at a fixed rate while dashboards watch, and a thousand idle agents.

Agents, dashboards and server are separate processes, as in a real deployment. An agent delivers its records twice a
second (hostagent/reporter.py). A latency counts from the moment when the delivery or heartbeat was due. So if the
server falls behind, every later one shows it.

A controller with a few switches can run on the same store (experiments/bench/control.py), to see whether its loop keeps
its pace. Before a run on PostgreSQL, it prints how long the device takes for a write by itself. A delivery that waits
for the device cannot be faster.

    python -m experiments.bench.ingest --seconds 60 --rate 10000 --workers 1 --store sqlite --leaves 3
"""

import argparse
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from experiments.bench import measuring
from experiments.bench.control import measure_loop
from experiments.bench.measuring import Result, percentiles, wait_for
from experiments.kit.heartbeats import flow_records, idle_heartbeat
from experiments.kit.workers import worker_processes
from sluice.hostagent.reporter import COLLECT_S
from sluice.hostagent.spool import Spool
from sluice.policy.errors import SluiceError
from sluice.policy.wire.agents import heartbeat_document
from sluice.policy.wire.records import FlowRecord
from sluice.runs.services import service_argv
from sluice.runtime.http_client import HttpClient, UnixConnection
from sluice.runtime.postgres import PostgresServer
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from sluice.store.flows import add_flows, count_flows

STORES = ("sqlite", "postgresql")
LOG_SEGMENTS = 25
"""Files of 16 MB that the server's write-ahead log has before a measurement. A minute of flow records fills fewer."""
DEFAULTS: Mapping[str, str] = {}
SERVERS = {
    "defaults": DEFAULTS,
    "recommended": {
        "min_wal_size": "1GB",
        "max_wal_size": "4GB",
        "wal_buffers": "64MB",
        "checkpoint_timeout": "15min",
    },
}
"""Settings of PostgreSQL. docs/how-to/keep-a-store.md recommends the second ones."""


@contextmanager
def store_url(store: str, folder: Path, server: Mapping[str, str] = DEFAULTS) -> Iterator[str]:
    """Yield the URL of an empty store of one of STORES. `server`: the settings of PostgreSQL."""
    if store == "sqlite":
        yield f"sqlite:///{folder}/store.db"
        return
    with PostgresServer.start(settings=server) as running:
        # The server makes files of its write-ahead log, which it then reuses, as after some minutes of work. It fills
        # a new file with zeros first, and commits wait for that.
        running.sql(
            "SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal() "
            f"FROM generate_series(1, {LOG_SEGMENTS})"
        )
        running.sql("CHECKPOINT")
        os.sync()  # the new cluster was not written to the device yet
        yield running.new_database()


AGENTS = 20
DELIVERIES_PER_S = 2
REQUEST_TIMEOUT_S = 30.0
PATH = "/api/v1/flows"
RATE_PER_S = 10_000
SECONDS = 60.0
DASHBOARDS = 20
READY_S = 60.0
TOKEN = "bench"
LOOP_SCHEME = "mlfq-adaptive"
LOOP_LEAVES = 3


def measure_ingestion(
    store: str,
    *,
    rate_per_s: float = RATE_PER_S,
    seconds: float = SECONDS,
    workers: int = 1,
    leaves: int = 0,
    server: Mapping[str, str] = DEFAULTS,
) -> dict[str, Any]:
    """Start all processes, measure, stop them. Returns the results.

    `leaves` is the size of the controller's fabric; 0 runs no controller. `server`: the settings of PostgreSQL.
    """
    with (
        ThreadPoolExecutor(1) as pool,
        worker_processes(2) as helpers,
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as name,
        store_url(store, Path(name), server) as url,
    ):
        folder = Path(name)
        with web_process(folder, url, "--workers", str(workers)) as web:
            watching = helpers.submit(_watch, folder, seconds + 2)
            wait_until((folder / "watch.ready").exists, "the dashboards watch", timeout_s=READY_S)
            helpers.submit(os.getpid).result(READY_S)  # so that the other helper has started, too
            before, began = cpu_s(web), time.monotonic()
            # The control loop is measured for most of the time, because the controller needs some seconds to start.
            loop_s = max(3.0, seconds - 10.0)
            loop = pool.submit(measure_loop, LOOP_SCHEME, leaves, loop_s, url) if leaves else None
            delivered = helpers.submit(_deliver, folder, seconds, rate_per_s).result(seconds + READY_S)
            cpu = (cpu_s(web) - before) / (time.monotonic() - began)
            snapshots_per_s = watching.result(seconds + READY_S)
            memory = measuring.memory_bytes(measuring.with_children(web.pid))
            paced = loop.result() if loop else None
        engine = open_store(url)
        kept = count_flows(engine)
        engine.dispose()
    p50_ms, p99_ms, max_ms = percentiles(delivered.latencies_ms, 50, 99, 100)
    return {
        "store": store,
        "workers": workers,
        "asked_per_s": rate_per_s,
        "accepted_per_s": delivered.accepted / delivered.took_s,
        "p50_ms": p50_ms,
        "p99_ms": p99_ms,
        "max_ms": max_ms,
        "refused": delivered.refused,  # deliveries that got another answer than 200
        "kept": kept,
        "delivered": delivered.accepted,  # records of accepted deliveries: the store must hold as many
        "snapshots_per_s": snapshots_per_s,  # of the slowest dashboard
        "server_cpu": cpu,  # in cores
        "server_mib": memory / 2**20,  # resident memory of all the server's processes at the end
        "loop": asdict(paced) if paced else None,  # of the controller on the same store, if there is one
        "server": dict(server),  # the settings of PostgreSQL that are not its defaults
    }


@contextmanager
def web_process(folder: Path, url: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a web process on a store. Its socket is `web.sock` in the folder, and its token TOKEN."""
    (folder / "token").write_text(TOKEN)
    argv = [*service_argv("web"), "--store", url, "--unix", str(folder / "web.sock")]
    argv += ["--token-file", str(folder / "token"), *options]
    log, address = folder / "web.log", f"unix:{folder / 'web.sock'}"
    process = spawn(argv, log_file=log)
    try:
        wait_until(
            lambda: measuring.web_answers(address, process, log), "the web process answers", timeout_s=READY_S
        )
        yield process
    finally:
        stop(process)


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    return sum(map(measuring.cpu_seconds, measuring.with_children(process.pid)))


# ── The dashboards' process ────────────────────────────────────────────────────────────────────────────────────────


def _watch(folder: Path, seconds: float) -> float:
    """Return the snapshots a second of the slowest dashboard. Drawing is the work of browsers, so it discards them."""
    sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(DASHBOARDS)]
    for dashboard in sockets:
        dashboard.connect(str(folder / "web.sock"))
        dashboard.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    snapshots = dict.fromkeys(sockets, 0)
    began = 0.0
    while not began or time.monotonic() < began + seconds:
        for readable in select.select(sockets, [], [], 1.0)[0]:
            data = readable.recv(1 << 20)
            if not data:
                raise SluiceError("the server closed a dashboard's stream")
            snapshots[readable] += data.count(b"event: snapshot")
        if not began and all(snapshots.values()):
            (folder / "watch.ready").touch()
            began, snapshots = time.monotonic(), dict.fromkeys(sockets, 0)
    return min(snapshots.values()) / (time.monotonic() - began)


# ── The agents' process ──────────────────────────────────────────────────────────────────────────────


class Delivered(NamedTuple):
    """What agents delivered."""

    took_s: float
    accepted: int
    refused: int
    latencies_ms: list[float]


def _deliver(folder: Path, seconds: float, rate_per_s: float) -> Delivered:
    """Deliver until the end. Returns the results of all agents."""
    began = time.monotonic()
    batch = round(rate_per_s / AGENTS / DELIVERIES_PER_S)

    def act(agent: int) -> tuple[list[float], int]:
        """Deliver a batch whenever one is due. Returns latencies, and the number of refused deliveries."""
        connection = UnixConnection(folder / "web.sock", REQUEST_TIMEOUT_S)
        due = began + agent / (AGENTS * DELIVERIES_PER_S)
        latencies_ms: list[float] = []
        refused = 0
        while due < began + seconds:
            body = flow_records(f"h{agent}", len(latencies_ms) * batch, batch)
            wait_for(due)
            connection.request("POST", PATH, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            latencies_ms.append((time.monotonic() - due) * 1000)
            refused += answer.status != 200
            due += 1 / DELIVERIES_PER_S
        return latencies_ms, refused

    with ThreadPoolExecutor(AGENTS) as agents:
        results = list(agents.map(act, range(AGENTS)))
    refused = sum(refused for _, refused in results)
    latencies_ms = [latency for of_agent, _ in results for latency in of_agent]
    took_s = max(time.monotonic() - began, seconds)
    return Delivered(took_s, (len(latencies_ms) - refused) * batch, refused, latencies_ms)


# ── A thousand idle agents ───────────────────────────────────────────────────────────────────────────


IDLE_AGENTS = 1_000
CONNECTIONS = 20
BEATS_S = 15.0


def heartbeat_results() -> Iterator[Result]:
    """The heartbeats of a thousand agents. Raises SluiceError if one is refused."""
    for workers in (1, 2):
        with (
            tempfile.TemporaryDirectory(prefix="sluice-bench-") as name,
            store_url("postgresql", Path(name)) as url,
            web_process(Path(name), url, "--workers", str(workers)),
            worker_processes(1) as helpers,
        ):
            per_s, took_ms = helpers.submit(_beat, Path(name)).result(10 * BEATS_S + READY_S)
        p50_ms, p99_ms = percentiles(took_ms, 50, 99)
        what = f"heartbeats, PostgreSQL, web processes: {workers}"
        yield Result(what, per_s, "a second", IDLE_AGENTS, "agents")
        yield Result(f"{what}, p99", p99_ms, "ms", p50_ms, "median")


def _beat(folder: Path) -> tuple[float, list[float]]:
    """Send the heartbeats of all agents, each of them once a second. Returns the rate, and how long each took in ms."""
    body = json.dumps(heartbeat_document(idle_heartbeat())).encode()
    began = time.monotonic()

    def send(first: int) -> list[float]:
        web = HttpClient(f"unix:{folder / 'web.sock'}", REQUEST_TIMEOUT_S)
        took_ms = []
        for second in range(round(BEATS_S)):
            for number in range(first, IDLE_AGENTS, CONNECTIONS):
                due = began + second + number / IDLE_AGENTS
                wait_for(due)
                answer = web.post(f"/api/v1/agents/h{number}", body)
                took_ms.append((time.monotonic() - due) * 1000)
                if not answer.ok:
                    raise SluiceError(f"a heartbeat was refused: {answer.status}: {answer.body.decode()}")
        web.close()
        return took_ms

    with ThreadPoolExecutor(CONNECTIONS) as senders:
        took_ms = [ms for of_sender in senders.map(send, range(CONNECTIONS)) for ms in of_sender]
    return len(took_ms) / (time.monotonic() - began), took_ms


# ── The cost of fsync ────────────────────────────────────────────────────────────────────────────────


_RECORD = FlowRecord(
    "b/0", "h1", "h2", 10_000, "small", 1.0, 2e3, 1e3, None, None, 0, "cubic", "tcp", "finished"
)
DELIVERY = 200
DELIVERIES = 200
RECORDS_PER_S = 500
SPOOL_S = 6.0
DEVICE_S = 10.0
WRITE_BYTES, WRITES_PER_S = 200_000, 40


def durability_results() -> Iterator[Result]:
    """Deliveries into SQLite and records into a spool, written to the device or not, on the disk of temporary files."""
    for name, took in (
        (f"a delivery of {DELIVERY} records into SQLite", _store_times),
        ("a record into a spool, synced twice a second", _spool_times),
    ):
        synced, unsynced = (percentiles(took(fsync), 50, 99) for fsync in (True, False))
        for what, with_fsync_s, without_s in zip(("median", "p99"), synced, unsynced, strict=True):
            yield Result(f"{name}, {what}", 1e6 * with_fsync_s, "us", 1e6 * without_s, "without fsync")


def measure_device() -> dict[str, float]:
    """Return how many ms a write of WRITE_BYTES takes, as PostgreSQL's log writes for a delivery: into a file that has
    its length already, WRITES_PER_S a second."""
    took_ms: list[float] = []
    writes = round(DEVICE_S * WRITES_PER_S)
    with tempfile.TemporaryFile(prefix="sluice-bench-") as file:
        file.write(bytes(WRITE_BYTES * writes))
        os.fsync(file.fileno())
        began = time.monotonic()
        for number in range(writes):
            wait_for(began + number / WRITES_PER_S)
            at = time.perf_counter()
            os.pwrite(file.fileno(), os.urandom(WRITE_BYTES), number * WRITE_BYTES)
            os.fdatasync(file.fileno())
            took_ms.append((time.perf_counter() - at) * 1000)
    return dict(zip(("p50", "p99", "longest"), percentiles(took_ms, 50, 99, 100), strict=True))


def _store_times(fsync: bool) -> list[float]:
    """Return the seconds of each delivery of DELIVERY records into an SQLite store."""
    took_s = []
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        engine = open_store(f"sqlite:///{folder}/store.db", fsync=fsync)
        for number in range(DELIVERIES):
            delivery = [replace(_RECORD, id=f"b/{number}/{i}") for i in range(DELIVERY)]
            took_s.append(measuring.seconds_of(partial(add_flows, engine, delivery)))
        engine.dispose()
    return took_s


def _spool_times(fsync: bool) -> list[float]:
    """Return what the traffic's thread pays for a record, while another thread syncs the spool as the reporter does."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        spool = Spool(Path(folder), fsync=fsync)
        ended = threading.Event()

        def sync() -> None:
            while not ended.wait(COLLECT_S):
                spool.sync()

        syncing = threading.Thread(target=sync)
        syncing.start()
        took_s, began = [], time.monotonic()
        for number in range(round(SPOOL_S * RECORDS_PER_S)):
            took_s.append(measuring.seconds_of(partial(spool.append, replace(_RECORD, id=f"b/{number}"))))
            wait_for(began + number / RECORDS_PER_S)
        ended.set()
        syncing.join()
        spool.close()
    return took_s


# ── The command ──────────────────────────────────────────────────────────────────────────────────────


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.bench.ingest", description=__doc__)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--rate", type=float, default=RATE_PER_S)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--leaves",
        type=int,
        default=0,
        help="leaves of the fabric of a controller on the same store; 0 runs no controller",
    )
    parser.add_argument(
        "--server",
        choices=SERVERS,
        default="defaults",
        help="settings of PostgreSQL: its defaults, or those of docs/how-to/keep-a-store.md",
    )
    options = parser.parse_args(argv)
    if options.store == "postgresql":
        print(json.dumps({"device_ms": measure_device()}), flush=True)
    ingestion = measure_ingestion(
        options.store,
        rate_per_s=options.rate,
        seconds=options.seconds,
        workers=options.workers,
        leaves=options.leaves,
        server=SERVERS[options.server],
    )
    print(json.dumps(ingestion, indent=2))
    return 0


def ingest_results() -> Iterator[Result]:
    """Flow records to a real web process for a minute, while dashboards watch, on each kind of store."""
    for store in STORES:
        run, what = measure_ingestion(store, leaves=LOOP_LEAVES), f"ingestion, {store}"
        yield Result(what, run["accepted_per_s"], "records/s", run["asked_per_s"], "asked")
        yield Result(f"{what}, latency p50", run["p50_ms"], "ms")
        yield Result(f"{what}, latency p99", run["p99_ms"], "ms")
        yield Result(f"{what}, lost or doubled", run["kept"] - run["delivered"], "records")
        yield Result(f"{what}, each of {DASHBOARDS} dashboards", run["snapshots_per_s"], "snapshots/s")
        yield Result(f"{what}, CPU of the web process", run["server_cpu"], "cores")
        loop = run["loop"]
        beside = f"{what}, control loop on the same store, {loop['ports']} ports"
        yield Result(f"{beside}, polls in time", loop["kept"], "of all")
        yield Result(f"{beside}, p99 from counters to rules", loop["p99_ms"], "ms")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
