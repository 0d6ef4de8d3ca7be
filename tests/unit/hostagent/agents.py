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

from sluice.hostagent.traffic import write_start
from sluice.policy.schema.entries import write
from sluice.policy.tags import DEFAULT_IDLE_GAP_NS
from sluice.policy.wire.agents import AgentSettings, HostSettings
from sluice.policy.wire.records import FlowRecord, ScheduledFlow
from sluice.runtime.wait import wait_until
from tests.unit.hostagent.fake_web import FakeWeb
from tests.unit.hostagent.namespaces import ADDRESSES, HOSTS, Cable

REPORT_TIMEOUT_S = 300.0
START_LEAD_S = 0.5
"""Time from the reports of both agents to the first flow."""


class Agents:
    """An agent on h1 and one on h2. The `start_s` of a flow counts from `start_at`."""

    def __init__(
        self, *, rate: str | None = None, control: str = "sluice_dctcp", scheme: str = "dctcp"
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-"))
        self.web = FakeWeb(self.folder / "web.sock").start()
        self.set_settings(1, control, scheme)
        self.cable = Cable(rate)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.start_at = 0.0
        self._arguments: list[str] = []
        self.prefix: dict[str, list[str]] = {}
        """Host → a command that becomes its agent."""

    def set_settings(self, version: int, control: str, scheme: str) -> None:
        """Let the web process answer heartbeats with these settings from now on."""
        host = HostSettings(
            scheme=scheme,
            congestion_control=control,
            tags_deadlines=False,
            urgent_after_bytes=0,
            tags_sizes=False,
            idle_gap_ns=DEFAULT_IDLE_GAP_NS,
        )
        self.web.settings = write(AgentSettings(version, host))

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
        start_file = self.folder / "start"
        start_file.unlink(missing_ok=True)
        self._arguments = ["--schedule", str(schedule), "--start-file", str(start_file), *arguments]
        for host in HOSTS:
            self.start_agent(host)
        wait_until(
            lambda: len({beat["pid"] for beat in self.web.heartbeats}) == 2,
            "both agents report",
            timeout_s=REPORT_TIMEOUT_S,
        )
        self.start_at = time.time() + START_LEAD_S
        write_start(start_file, self.start_at)

    def start_agent(self, host: str) -> None:
        argv = [
            *self.prefix.get(host, []),
            sys.executable,
            "-m",
            "sluice",
            "agent",
            "--name",
            host,
            "--interface",
            f"{host}-eth0",
        ]
        argv += ["--run-dir", str(self.folder / host), "--web", self.web.target, *self._arguments]
        self.processes[host] = self.cable.spawn(host, argv, self.folder / f"{host}.log")

    def status(self, host: str) -> dict[str, Any]:
        """Return the agent's newest heartbeat."""
        pid = self.processes[host].pid
        return next((beat for beat in reversed(self.web.heartbeats) if beat["pid"] == pid), {})

    def connections(self, host: str) -> list[dict[str, Any]]:
        """Return the connections of other programs, from the newest heartbeat of the agent."""
        return list(self.status(host).get("watch", {}).get("connections", []))

    def records(self, count: int, timeout_s: float = 60.0) -> dict[str, FlowRecord]:
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
