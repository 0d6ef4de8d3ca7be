# SPDX-License-Identifier: Apache-2.0
"""The heartbeats of a thousand idle agents to a real web process on PostgreSQL.

Each agent sends one a second, evenly spread, over CONNECTIONS connections of a process of its own. A heartbeat's
latency counts from the moment when it was due.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sluice.bench.deliveries import REQUEST_TIMEOUT_S
from sluice.bench.heartbeats import idle_heartbeat
from sluice.bench.ingest import READY_S, web_process
from sluice.bench.stores import store_url
from sluice.policy.errors import SluiceError
from sluice.policy.wire.agents import heartbeat_document
from sluice.runtime.http_client import HttpClient
from sluice.runtime.process import spawn

AGENTS = 1_000
CONNECTIONS = 20
SECONDS = 15.0


@dataclass(frozen=True)
class Beats:
    """What the web process took."""

    asked_per_s: float
    per_s: float
    p50_ms: float
    p99_ms: float


def measure_heartbeats(agents: int = AGENTS, workers: int = 1, seconds: float = SECONDS) -> Beats:
    """Return the figures of a run. Raises SluiceError if a heartbeat is refused."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as name,
        store_url("postgresql", Path(name)) as url,
        web_process(Path(name), url, workers),
    ):
        log = Path(name) / "beat.log"
        argv = [sys.executable, "-m", "sluice.bench.thousand_agents", name, str(agents), str(seconds)]
        sender = spawn(argv, log_file=log)
        sender.wait(10 * seconds + READY_S)
        lines = log.read_text(errors="replace").splitlines()
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


def main(argv: list[str]) -> int:
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
    took_ms = [one for sender in senders for one in sender.took_ms]
    p50, p99 = np.percentile(took_ms, (50, 99))
    per_s = len(took_ms) / (time.monotonic() - began)
    print(json.dumps({"asked_per_s": agents, "per_s": per_s, "p50_ms": float(p50), "p99_ms": float(p99)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
