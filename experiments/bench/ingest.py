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
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.control import Loop, cpu_seconds, measure_loop
from experiments.bench.measuring import Result
from experiments.bench.records import DEFAULTS, SERVERS, STORES, measure_device, store_url
from experiments.kit.heartbeats import idle_heartbeat
from sluice.policy.errors import SluiceError
from sluice.policy.wire.agents import heartbeat_document
from sluice.runs.services import service_argv
from sluice.runtime.http_client import HttpClient, UnixConnection
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from sluice.store.flows import count_flows

AGENTS = 20
DELIVERIES_PER_S = 2
REQUEST_TIMEOUT_S = 30.0
PATH = "/api/v1/flows"
RATE_PER_S = 10_000
SECONDS = 60.0
DASHBOARDS = 20
READY_S = 60.0
LOOP_SCHEME = "mlfq-adaptive"
LOOP_LEAVES = 3


@dataclass(frozen=True)
class Ingestion:
    """The results of a run. Latencies are in milliseconds."""

    store: str
    workers: int
    asked_per_s: float
    accepted_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    refused: int
    """Deliveries that got another answer than 200."""
    kept: int
    delivered: int
    """Records of accepted deliveries. The store must hold as many."""
    snapshots_per_s: float
    """Snapshots that the slowest dashboard got."""
    server_cpu: float
    """In cores."""
    server_mib: float
    """Resident memory of all the server's processes at the end."""
    loop: Loop | None
    """Of the controller on the same store, if there is one."""
    server: dict[str, str]
    """The settings of PostgreSQL that are not its defaults."""


def measure_ingestion(
    store: str,
    *,
    rate_per_s: float = RATE_PER_S,
    seconds: float = SECONDS,
    workers: int = 1,
    leaves: int = 0,
    server: Mapping[str, str] = DEFAULTS,
) -> Ingestion:
    """Start all processes, measure, stop them.

    `leaves` is the size of the controller's fabric; 0 runs no controller. `server`: the settings of PostgreSQL.
    """
    with (
        ThreadPoolExecutor(1) as pool,
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder,
        store_url(store, Path(folder), server) as url,
    ):
        with web_process(Path(folder), url, workers) as web:
            watching = _start_helper(Path(folder), "watch", seconds + 2)
            wait_until(
                lambda: (Path(folder) / "watch.ready").exists(), "the dashboards watch", timeout_s=READY_S
            )
            before, began = cpu_s(web), time.monotonic()
            # The control loop is measured for most of the time, because the controller needs some seconds to start.
            loop_s = max(3.0, seconds - 10.0)
            loop = pool.submit(measure_loop, LOOP_SCHEME, leaves, loop_s, url) if leaves else None
            agents = _start_helper(Path(folder), "deliver", seconds, rate_per_s)
            delivered = _answer(agents, Path(folder) / "deliver.log", seconds)
            cpu = (cpu_s(web) - before) / (time.monotonic() - began)
            watched = _answer(watching, Path(folder) / "watch.log", seconds)
            memory = _memory_mib(web)
            paced = loop.result() if loop else None
        engine = open_store(url)
        kept = count_flows(engine)
        engine.dispose()
    latencies = np.array(delivered["latencies_ms"])
    return Ingestion(
        store=store,
        workers=workers,
        asked_per_s=rate_per_s,
        accepted_per_s=delivered["accepted"] / delivered["took_s"],
        p50_ms=float(np.percentile(latencies, 50)),
        p99_ms=float(np.percentile(latencies, 99)),
        max_ms=float(latencies.max()),
        refused=delivered["refused"],
        kept=kept,
        delivered=delivered["accepted"],
        snapshots_per_s=min(watched["snapshots"]) / watched["took_s"],
        server_cpu=cpu,
        server_mib=memory,
        loop=paced,
        server=dict(server),
    )


@contextmanager
def web_process(folder: Path, url: str, workers: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a web process on a store. Its socket is `web.sock` in the folder."""
    (folder / "token").write_text("bench")
    argv = [*service_argv("web"), "--store", url, "--unix", str(folder / "web.sock")]
    argv += ["--token-file", str(folder / "token"), "--workers", str(workers)]
    process = spawn(argv, log_file=folder / "web.log")
    try:
        wait_until(lambda: _answers(folder, process), "the web process answers", timeout_s=READY_S)
        yield process
    finally:
        stop(process)


def _answers(folder: Path, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise SluiceError(
            f"the web process ended; its log:\n{(folder / 'web.log').read_text(errors='replace')}"
        )
    try:
        connection = UnixConnection(folder / "web.sock", REQUEST_TIMEOUT_S)
        connection.request("GET", "/api/v1/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


def _start_helper(folder: Path, task: str, *values: float) -> subprocess.Popen[bytes]:
    """Start this module with a task of `main`. What it prints goes to `<task>.log` in the folder."""
    argv = [sys.executable, "-m", "experiments.bench.ingest", task, str(folder), *map(str, values)]
    return spawn(argv, log_file=folder / f"{task}.log")


def _answer(process: subprocess.Popen[bytes], log: Path, seconds: float) -> dict[str, Any]:
    """Return the last line that the helper process printed."""
    process.wait(seconds + READY_S)
    lines = log.read_text(errors="replace").splitlines()
    if process.returncode or not lines:
        raise SluiceError("\n".join(["a helper process of the benchmark failed:", *lines]))
    return dict(json.loads(lines[-1]))


def _tree(process: subprocess.Popen[bytes]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [process.pid, *map(int, children)]


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    return sum(map(cpu_seconds, _tree(process)))


def _memory_mib(process: subprocess.Popen[bytes]) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in _tree(process))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# ── The dashboards' process ────────────────────────────────────────────────────────────────────────────────────────


def watch(folder: Path, seconds: float) -> None:
    """Print how many snapshots each dashboard got. It discards them, because drawing is the browser's work."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
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
    print(json.dumps({"took_s": time.monotonic() - began, "snapshots": list(snapshots.values())}))


# ── The agents' process ──────────────────────────────────────────────────────────────────────────────


_RECORD = (
    '{{"id":"bench/{agent}/{number}","src":"h{agent}","dst":"h2","bytes":{size},"size_class":"small",'
    '"started_at":{at:.6f},"fct_us":{fct},"ideal_us":900.0,"deadline_us":{deadline},"met":{met},'
    '"retransmissions":0,"congestion_control":"sluice_dctcp","scheme":"mlfq-adaptive","status":"finished",'
    '"reason":"","source":"scheduled","src_port":null,"dst_port":null,"lasted_us":null,"timeouts":0,"srtt_us":812.5}}'
)


@dataclass
class Agent:
    """Delivers a batch whenever one is due."""

    number: int
    path: Path
    batch: int
    until: float
    """End of the run, by the monotonic clock."""

    def __post_init__(self) -> None:
        self.latencies_ms: list[float] = []
        self.accepted = self.refused = 0
        self._sent = 0

    def body(self) -> bytes:
        at = time.time() - 0.3
        records = [
            _RECORD.format(
                agent=self.number,
                number=self._sent + i,
                size=1000 + i,
                at=at,
                fct=1000.0 + 37 * i,
                deadline="null" if i % 3 else "5000.0",
                met="null" if i % 3 else str(i % 2 == 0).lower(),
            )
            for i in range(self.batch)
        ]
        self._sent += self.batch
        return f"[{','.join(records)}]".encode()

    def run(self) -> None:
        connection = UnixConnection(self.path, REQUEST_TIMEOUT_S)
        due = time.monotonic() + self.number / (AGENTS * DELIVERIES_PER_S)
        while due < self.until:
            body = self.body()
            time.sleep(max(0.0, due - time.monotonic()))  # the fixed rate is the point of this benchmark
            connection.request("POST", PATH, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            self.latencies_ms.append((time.monotonic() - due) * 1000)
            if answer.status == 200:
                self.accepted += self.batch
            else:
                self.refused += 1
            due += 1 / DELIVERIES_PER_S


def deliver(folder: Path, seconds: float, rate_per_s: float) -> None:
    """Deliver until the end and print the results of all agents."""
    began = time.monotonic()
    batch = round(rate_per_s / AGENTS / DELIVERIES_PER_S)
    agents = [Agent(number, folder / "web.sock", batch, began + seconds) for number in range(AGENTS)]
    threads = [threading.Thread(target=agent.run) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results = {
        "took_s": max(time.monotonic() - began, seconds),
        "accepted": sum(agent.accepted for agent in agents),
        "refused": sum(agent.refused for agent in agents),
        "latencies_ms": [latency for agent in agents for latency in agent.latencies_ms],
    }
    print(json.dumps(results))


# ── A thousand idle agents ───────────────────────────────────────────────────────────────────────────


IDLE_AGENTS = 1_000
CONNECTIONS = 20
BEATS_S = 15.0


@dataclass(frozen=True)
class Beats:
    """What the web process took."""

    asked_per_s: float
    per_s: float
    p50_ms: float
    p99_ms: float


def measure_heartbeats(agents: int = IDLE_AGENTS, workers: int = 1, seconds: float = BEATS_S) -> Beats:
    """Return the figures of a run. Raises SluiceError if a heartbeat is refused."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as name,
        store_url("postgresql", Path(name)) as url,
        web_process(Path(name), url, workers),
    ):
        sender = _start_helper(Path(name), "beat", agents, seconds)
        sender.wait(10 * seconds + READY_S)
        lines = (Path(name) / "beat.log").read_text(errors="replace").splitlines()
        if sender.returncode or not lines:
            raise SluiceError("\n".join(["the agents of the benchmark failed:", *lines]))
        return Beats(**json.loads(lines[-1]))


class _Sender(threading.Thread):
    """Sends the heartbeats of some agents, each of them once a second."""

    def __init__(self, socket: Path, names: range, agents: int, began: float, seconds: float) -> None:
        super().__init__()
        self._web = HttpClient(f"unix:{socket}", REQUEST_TIMEOUT_S)
        self._names, self._agents, self._began, self._seconds = names, agents, began, seconds
        self.took_ms: list[float] = []
        self.refused = ""

    def run(self) -> None:
        body = json.dumps(heartbeat_document(idle_heartbeat())).encode()
        for second in range(round(self._seconds)):
            for number in self._names:
                due = self._began + second + number / self._agents
                time.sleep(max(0.0, due - time.monotonic()))  # the fixed rate is the point
                answer = self._web.post(f"/api/v1/agents/h{number}", body)
                self.took_ms.append((time.monotonic() - due) * 1000)
                if not answer.ok:
                    self.refused = f"{answer.status}: {answer.body.decode()}"
                    return
        self._web.close()


def heartbeat_results() -> Iterator[Result]:
    """The heartbeats of a thousand agents."""
    for workers in (1, 2):
        beats, name = measure_heartbeats(workers=workers), f"heartbeats, PostgreSQL, web processes: {workers}"
        yield Result(name, beats.per_s, "a second", beats.asked_per_s, "agents")
        yield Result(f"{name}, p99", beats.p99_ms, "ms", beats.p50_ms, "median")


def beat(argv: list[str]) -> int:
    """Send the heartbeats, and print what became of them."""
    socket, agents, seconds = Path(argv[0]) / "web.sock", int(argv[1]), float(argv[2])
    began = time.monotonic()
    senders = [
        _Sender(socket, range(first, agents, CONNECTIONS), agents, began, seconds)
        for first in range(CONNECTIONS)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    refused = [sender.refused for sender in senders if sender.refused]
    if refused:
        print(refused[0])
        return 1
    took_ms = [ms for sender in senders for ms in sender.took_ms]
    p50, p99 = np.percentile(took_ms, (50, 99))
    per_s = len(took_ms) / (time.monotonic() - began)
    print(json.dumps({"asked_per_s": agents, "per_s": per_s, "p50_ms": float(p50), "p99_ms": float(p99)}))
    return 0


def main(argv: list[str]) -> int:
    match argv:
        case ["watch", folder, seconds]:
            watch(Path(folder), float(seconds))
            return 0
        case ["deliver", folder, seconds, rate]:
            deliver(Path(folder), float(seconds), float(rate))
            return 0
        case ["beat", *words]:
            return beat(words)
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
        print(json.dumps({"device_ms": asdict(measure_device())}), flush=True)
    ingestion = measure_ingestion(
        options.store,
        rate_per_s=options.rate,
        seconds=options.seconds,
        workers=options.workers,
        leaves=options.leaves,
        server=SERVERS[options.server],
    )
    print(json.dumps(asdict(ingestion), indent=2))
    return 0


def ingest_results() -> Iterator[Result]:
    """Flow records to a real web process for a minute, while dashboards watch, on each kind of store."""
    for store in STORES:
        run, what = measure_ingestion(store, leaves=LOOP_LEAVES), f"ingestion, {store}"
        yield Result(what, run.accepted_per_s, "records/s", run.asked_per_s, "asked")
        yield Result(f"{what}, latency p50", run.p50_ms, "ms")
        yield Result(f"{what}, latency p99", run.p99_ms, "ms")
        yield Result(f"{what}, lost or doubled", run.kept - run.delivered, "records")
        yield Result(f"{what}, each of {DASHBOARDS} dashboards", run.snapshots_per_s, "snapshots/s")
        yield Result(f"{what}, CPU of the web process", run.server_cpu, "cores")
        if run.loop is not None:
            beside = f"{what}, control loop on the same store, {run.loop.ports} ports"
            yield Result(f"{beside}, polls in time", run.loop.kept, "of all")
            yield Result(f"{beside}, p99 from counters to rules", run.loop.p99_ms, "ms")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
