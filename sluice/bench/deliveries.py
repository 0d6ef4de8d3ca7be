# SPDX-License-Identifier: Apache-2.0
"""The process of the agents that deliver flow records to a web process at a fixed rate (sluice/bench/ingest.py)."""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from sluice.runtime.http_client import UnixConnection

AGENTS = 20
DELIVERIES_PER_S = 2
REQUEST_TIMEOUT_S = 30.0
PATH = "/api/v1/flows"
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
    found = {
        "took_s": max(time.monotonic() - began, seconds),
        "accepted": sum(agent.accepted for agent in agents),
        "refused": sum(agent.refused for agent in agents),
        "latencies_ms": [latency for agent in agents for latency in agent.latencies_ms],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    deliver(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
