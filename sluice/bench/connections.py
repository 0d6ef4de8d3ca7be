# SPDX-License-Identifier: Apache-2.0
"""The cost of flow watch: at the start and end of each connection, and for each record that is made.

One process opens short connections to itself, one after the other, over the loopback device of a
namespace of its own. For this the module runs itself again under `unshare --net`. Flow watch sees
both ends, and no other work happens between them.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from sluice.dataplane.watch import Connection, Watch
from sluice.hostagent.spool import Spool
from sluice.hostagent.watch import Host, to_record
from sluice.runtime.command import run

CONNECTIONS = 500
PAIRS = 50
_PAYLOAD = bytes(100)


@dataclass(frozen=True)
class ConnectionRates:
    """Medians over PAIRS, with and without the watch in turns. Rates are per second of CPU time:
    others may use the machine."""

    watched_per_cpu_s: float
    unwatched_per_cpu_s: float
    ratio: float
    """Median of the ratios of neighbouring measurements."""
    us_per_record: float
    """User space: from the ring buffer to the spool, for each connection that gets a record."""


def measure_connections() -> ConnectionRates:
    argv = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", __name__]
    return ConnectionRates(**json.loads(run(argv, timeout_s=300)))


def _measure_inside() -> dict[str, float]:
    run(["ip", "link", "set", "lo", "up"])
    # Otherwise the ports of closed connections stay taken for a minute, and there are too few of
    # them.
    run(["sysctl", "-qw", "net.ipv4.tcp_max_tw_buckets=0"])
    _connections_per_cpu_s(CONNECTIONS)  # warm-up
    rates: dict[bool, list[float]] = {True: [], False: []}
    costs = []
    for number in range(PAIRS):
        for with_watch in (number % 2 == 0, number % 2 == 1):
            with Watch() if with_watch else nullcontext() as watch:
                rates[with_watch].append(_connections_per_cpu_s(CONNECTIONS))
                if watch is not None:
                    costs.append(_us_per_record(watch))
    return {
        "watched_per_cpu_s": statistics.median(rates[True]),
        "unwatched_per_cpu_s": statistics.median(rates[False]),
        "ratio": statistics.median(a / b for a, b in zip(rates[True], rates[False], strict=True)),
        "us_per_record": statistics.median(costs),
    }


def _connections_per_cpu_s(count: int) -> float:
    """Return connections per second of CPU time. Over the loopback device, the calling process
    does all the kernel's work."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        began = time.process_time()
        for _ in range(count):
            _connect_once(listener)
        return count / (time.process_time() - began)


def _connect_once(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as client:
        server, _ = listener.accept()
        with server:
            client.sendall(_PAYLOAD)
            client.shutdown(socket.SHUT_WR)
            while server.recv(4096):
                pass


def _us_per_record(watch: Watch) -> float:
    host = Host("h1", {}, "0123456789ab", time.time_ns() - time.monotonic_ns())
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder))
        began = time.perf_counter()
        made = sum(_keep(connection, host, spool) for connection in watch.ended())
        elapsed_s = time.perf_counter() - began
        spool.close()
    if made != CONNECTIONS:
        raise RuntimeError(f"{CONNECTIONS} connections, but {made} records: the watch missed some")
    return elapsed_s / made * 1e6


def _keep(connection: Connection, host: Host, spool: Spool) -> bool:
    record = to_record(connection, host, "none")
    if record is not None:
        spool.append(record)
    return record is not None


if __name__ == "__main__":
    print(json.dumps(_measure_inside()))
