# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one cable, without a switch, and real agents on them that report to a fake web process.

The network namespaces of the hosts end with the process that made them.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self

from sluice.hostagent.traffic import write_start
from sluice.policy.schema.entries import write
from sluice.policy.tags import DEFAULT_IDLE_GAP_NS
from sluice.policy.wire.agents import AgentSettings, HostSettings
from sluice.policy.wire.records import FlowRecord, ScheduledFlow
from sluice.runtime import command
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
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
        self._holders = {name: spawn(["unshare", "--net", "sleep", "infinity"]) for name in HOSTS}
        self._children: list[subprocess.Popen[bytes]] = []
        try:
            self._lay(rate)
        except BaseException:
            self.close()
            raise

    def exec(self, host: str, argv: Sequence[str], timeout_s: float = 30.0) -> str:
        return command.run([*self._enter(host), *argv], timeout_s=timeout_s)

    def spawn(self, host: str, argv: Sequence[str], log_file: Path | None = None) -> subprocess.Popen[bytes]:
        child = spawn([*self._enter(host), *argv], log_file=log_file)
        self._children.append(child)
        return child

    def close(self) -> None:
        for process in [*self._children, *self._holders.values()]:
            stop(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _enter(self, host: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holders[host].pid}/ns/net"]

    def _lay(self, rate: str | None) -> None:
        for process in self._holders.values():
            wait_until(partial(_is_elsewhere, process.pid), "the host has its network namespace")
        peer = str(self._holders["h2"].pid)
        self.exec("h1", f"ip link add h1-eth0 type veth peer name h2-eth0 netns {peer}".split())
        for name in HOSTS:
            for line in _host_commands(f"{name}-eth0", ADDRESSES[name], rate):
                self.exec(name, line.split())


def _is_elsewhere(pid: int) -> bool:
    """Whether a process has left this process's network namespace."""
    return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


def _host_commands(interface: str, address: str, rate: str | None) -> list[str]:
    commands = [
        "sysctl -q -w net.ipv4.tcp_ecn=1 net.ipv4.tcp_no_metrics_save=1",
        f"ethtool -K {interface} tx off tso off gso off gro off",
        f"ip link set {interface} gso_max_segs 1",
        f"ip address add {address}/24 dev {interface}",
        "ip link set lo up",
        f"ip link set {interface} up",
    ]
    if rate:
        commands += [
            f"tc qdisc add dev {interface} root handle 1: htb default 1",
            f"tc class add dev {interface} parent 1: classid 1:1 htb rate {rate}",
        ]
    return commands


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
