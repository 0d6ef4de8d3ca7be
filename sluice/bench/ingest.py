# SPDX-License-Identifier: Apache-2.0
"""Flow records sent to a real web process at a fixed rate, while dashboards watch: how many it
accepts, and how fast.

Agents, dashboards and server are separate processes, as in a real deployment. An agent delivers
its records twice a second (hostagent/reporter.py). A delivery's latency counts from the moment when
it was due. So if the server falls behind, every later delivery shows it.

A controller with a few switches can run on the same store (sluice/bench/control.py), to see
whether its loop keeps its pace.

Before a run on PostgreSQL, it prints how long the device takes for a write by itself. A delivery that waits for the
device cannot be faster.

    python -m sluice.bench.ingest --seconds 60 --rate 10000 --workers 1 --store sqlite --leaves 3
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sluice.bench.control import Loop, measure_loop
from sluice.bench.deliveries import REQUEST_TIMEOUT_S
from sluice.bench.durability import measure_device
from sluice.bench.stores import DEFAULTS, SERVERS, STORES, store_url
from sluice.policy.errors import SluiceError
from sluice.runs.process_input import service_argv
from sluice.runtime.http_client import UnixConnection
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from sluice.store.flows import count_flows

RATE_PER_S = 10_000
SECONDS = 60.0
DASHBOARDS = 20
READY_S = 60.0
LOOP_SCHEME = "mlfq-adaptive"
LOOP_LEAVES = 3
_PAGE = os.sysconf("SC_CLK_TCK")


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
            watching = _dashboards(Path(folder), seconds + 2)
            wait_until(
                lambda: (Path(folder) / "watch.ready").exists(), "the dashboards watch", timeout_s=READY_S
            )
            before, began = _cpu_s(web), time.monotonic()
            loop = pool.submit(_loop, leaves, seconds, url)
            agents = _agents(Path(folder), seconds, rate_per_s)
            delivered = _answer(agents, Path(folder) / "deliver.log", seconds)
            cpu = (_cpu_s(web) - before) / (time.monotonic() - began)
            watched = _answer(watching, Path(folder) / "watch.log", seconds)
            memory = _memory_mib(web)
            paced = loop.result()
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


def _loop(leaves: int, seconds: float, url: str) -> Loop | None:
    """Measure the control loop for most of the time, because the controller needs some seconds to start."""
    return measure_loop(LOOP_SCHEME, leaves, max(3.0, seconds - 10.0), url) if leaves else None


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


def _agents(folder: Path, seconds: float, rate_per_s: float) -> subprocess.Popen[bytes]:
    argv = [
        sys.executable,
        "-m",
        "sluice.bench.deliveries",
        str(folder),
        str(seconds),
        str(rate_per_s),
    ]
    return spawn(argv, log_file=folder / "deliver.log")


def _dashboards(folder: Path, seconds: float) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "sluice.bench.ingest", "watch", str(folder), str(seconds)]
    return spawn(argv, log_file=folder / "watch.log")


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


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    ticks = 0
    for pid in _tree(process):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _PAGE


def _memory_mib(process: subprocess.Popen[bytes]) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in _tree(process))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# ── The dashboards' process ────────────────────────────────────────────────────────────────────────────────────────


def watch(folder: Path, seconds: float) -> None:
    """Print how many snapshots each dashboard got. It discards them, because drawing is the browser's work."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sockets = [_listening(folder / "web.sock") for _ in range(DASHBOARDS)]
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


def _listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.connect(str(path))
    listener.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return listener


def main(argv: list[str]) -> int:
    if argv[:1] == ["watch"]:
        watch(Path(argv[1]), float(argv[2]))
        return 0
    parser = argparse.ArgumentParser(prog="python -m sluice.bench.ingest", description=__doc__)
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
    found = measure_ingestion(
        options.store,
        rate_per_s=options.rate,
        seconds=options.seconds,
        workers=options.workers,
        leaves=options.leaves,
        server=SERVERS[options.server],
    )
    print(json.dumps(asdict(found), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
