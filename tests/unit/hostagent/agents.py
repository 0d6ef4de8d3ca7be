# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one cable, without a switch, and real agents on them that report to a fake web process."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from sluice.hostagent.port.settings import write_json
from sluice.policy.schema.entries import write
from sluice.policy.tags import DEFAULT_IDLE_GAP_NS
from sluice.policy.wire.agents import AgentSettings, HostSettings
from sluice.policy.wire.records import FlowRecord, ScheduledFlow
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from tests.kernel.lab import Namespace, address, connect
from tests.unit.hostagent.fake_web import FakeWeb

HOSTS = ("h1", "h2")
ADDRESSES = {"h1": "10.9.0.1", "h2": "10.9.0.2"}
REPORT_TIMEOUT_S = 300.0
START_LEAD_S = 0.5
"""Time from the reports of both agents to the first flow."""


class Cable:
    """The hosts h1 (10.9.0.1 on h1-eth0) and h2 (10.9.0.2 on h2-eth0).

    `rate`, for example "100mbit", shapes both directions.
    """

    def __init__(self, rate: str | None = None) -> None:
        self.hosts = {name: Namespace() for name in HOSTS}
        self._children: list[subprocess.Popen[bytes]] = []
        connect(self.hosts["h1"], "h1-eth0", self.hosts["h2"], "h2-eth0")
        for name, host in self.hosts.items():
            host.run("sysctl", "-q", "-w", "net.ipv4.tcp_ecn=1", "net.ipv4.tcp_no_metrics_save=1")
            address(host, f"{name}-eth0", f"{ADDRESSES[name]}/24")
            if rate:
                qdisc, of = f"tc qdisc add dev {name}-eth0", f"tc class add dev {name}-eth0"
                host.run(*f"{qdisc} root handle 1: htb default 1".split())
                host.run(*f"{of} parent 1: classid 1:1 htb rate {rate}".split())

    def exec(self, host: str, argv: Sequence[str]) -> str:
        return self.hosts[host].run(*argv)

    def spawn(self, host: str, argv: Sequence[str], log_file: Path) -> subprocess.Popen[bytes]:
        with self.hosts[host]:
            self._children.append(spawn(argv, log_file=log_file))
        return self._children[-1]

    def close(self) -> None:
        for child in self._children:
            stop(child)
        for host in self.hosts.values():
            host.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
        write_json(start_file, self.start_at)

    def start_agent(self, host: str) -> None:
        argv = [*self.prefix.get(host, []), sys.executable, "-m", "sluice", "agent", "--name", host]
        argv += ["--interface", f"{host}-eth0"]
        argv += ["--run-dir", str(self.folder / host), "--web", self.web.target, *self._arguments]
        self.processes[host] = self.cable.spawn(host, argv, self.folder / f"{host}.log")

    def kill(self, host: str) -> None:
        self.processes[host].kill()
        self.processes[host].wait()

    def status(self, host: str) -> dict[str, Any]:
        """Return the agent's newest heartbeat."""
        pid = self.processes[host].pid
        return next((beat for beat in reversed(self.web.heartbeats) if beat["pid"] == pid), {})

    def connections(self, host: str) -> list[dict[str, Any]]:
        """Return the connections of other programs, from the newest heartbeat of the agent."""
        return list(self.status(host).get("watch", {}).get("connections", []))

    def records(self, count: int) -> dict[str, FlowRecord]:
        """Wait until the web process has that many records, and return them by id."""
        try:
            wait_until(lambda: len(self.web.records) >= count, f"{count} records")
        except TimeoutError:
            print(self.logs(), self.web.heartbeats[-2:])
            raise
        return dict(self.web.records)

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))

    def close(self) -> None:
        self.cable.close()
        self.web.stop()
        shutil.rmtree(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            print(self.logs())
        self.close()
