# SPDX-License-Identifier: Apache-2.0
"""Real agents on two cabled hosts that report to a fake web process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostagent.schedule import ScheduledFlow
from policy.records import FlowRecord
from runtime.wait import wait_until
from tests.unit.hostagent.fake_web import FakeWeb
from tests.unit.hostagent.namespaces import ADDRESSES, HOSTS, Cable

START_DELAY_S = 5.0
"""From the agents' start to the first flow. On a busy machine, loading BPF programs takes up to two seconds."""


class Agents:
    """An agent on h1 and one on h2. The `start_s` of a flow counts from `start_at`."""

    def __init__(
        self, *, rate: str | None = None, control: str = "sluice_dctcp", scheme: str = "dctcp"
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-"))
        self.web = FakeWeb(self.folder / "web.sock").start()
        self.web.settings = {
            "policy_version": 1,
            "congestion_control": control,
            "scheme": scheme,
            "idle_gap_ns": 10_000_000,
        }
        self.cable = Cable(rate)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.start_at = 0.0
        self._arguments: list[str] = []

    def start(
        self,
        *flows: ScheduledFlow,
        connections: str = "new",
        scheme: str = "dctcp",
        arguments: tuple[str, ...] = (),
    ) -> None:
        """Start both agents and wait until they report."""
        schedule = self.folder / "schedule.json"
        document = {"connections": connections, "scheme": scheme, "addresses": ADDRESSES}
        schedule.write_text(json.dumps(document | {"flows": [asdict(f) for f in flows]}))
        self.start_at = time.time() + START_DELAY_S
        self._arguments = ["--schedule", str(schedule), "--start-at", repr(self.start_at), *arguments]
        for host in HOSTS:
            self.start_agent(host)
        wait_until(lambda: len({beat["pid"] for beat in self.web.heartbeats}) == 2, "both agents report")
        assert time.time() < self.start_at, (
            "the machine is too busy: the agents started after the first flow's time"
        )

    def start_agent(self, host: str) -> None:
        argv = [sys.executable, "-m", "hostagent", "--name", host, "--interface", f"{host}-eth0"]
        argv += ["--run-dir", str(self.folder / host), "--web", self.web.target, *self._arguments]
        self.processes[host] = self.cable.spawn(host, argv, self.folder / f"{host}.log")

    def status(self, host: str) -> dict[str, Any]:
        """Return the agent's newest heartbeat."""
        pid = self.processes[host].pid
        return next((beat for beat in reversed(self.web.heartbeats) if beat["pid"] == pid), {})

    def records(self, count: int, timeout_s: float = 40.0) -> dict[str, FlowRecord]:
        """Wait until the web process has that many records, and return them by id."""
        wait_until(lambda: len(self.web.records) >= count, f"{count} records", timeout_s=timeout_s)
        return dict(self.web.records)

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))

    def close(self) -> None:
        self.cable.close()
        self.web.stop()
        shutil.rmtree(self.folder)

    def __enter__(self) -> Agents:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            print(self.logs())
        self.close()
