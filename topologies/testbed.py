# SPDX-License-Identifier: Apache-2.0
"""A network of real switches and real TCP stacks on this machine, in its own namespaces.

    with Testbed.start(topologies.build("single", hosts=3), run_dir) as bed:
        bed.exec("h1", ["ping", "-c", "1", "10.0.0.2"])
        bed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", "s1"])

The end of the testbed's first process ends all of it. The kernel ends that process when the process that started the
testbed dies. So even kill -9 leaves no process, namespace or interface behind. Several testbeds run side by side.

A run with packets lost anywhere but in the emulated queues does not represent a network (`Testbed.losses`). The network
itself drops packets beyond a port's buffer. The port program counts those drops, not this file.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sluice.hostagent.port.machine_watch import interface_drops, qdisc_drops, switch_side
from sluice.hostagent.port.settings import last_report, read_json, write_json
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import PortBehaviour
from sluice.policy.schema.entries import read, write
from sluice.policy.schemes.ports import DEFAULT_BUFFER_BYTES
from sluice.policy.units import BITS_PER_BYTE, NS_PER_S
from sluice.policy.wire.agents import PortHeartbeat, QueueCounters
from sluice.runtime.command import run
from sluice.runtime.identity import started
from sluice.runtime.process import Priority, spawn
from sluice.runtime.wait import wait_until
from sluice.topologies import ovs, processes
from sluice.topologies.qdiscs import has_netem, needs_delays, without_delays
from sluice.topologies.settings import Settings

_LOST_UPCALLS = re.compile(r"\blost:(\d+)")
_HOST_COUNTERS = (
    "TcpExtTCPBacklogDrop",
    "TcpExtTCPRcvQDrop",
    "TcpExtListenDrops",
    "IpInDiscards",
    "TcpInCsumErrors",
)


def lost_upcalls(text: str) -> int:
    """Return packets of new flows that the switches had no time for, from `ovs-appctl dpctl/show`."""
    return sum(int(lost) for lost in _LOST_UPCALLS.findall(text))


def host_counters(host: str, text: str) -> dict[str, int]:
    """Return packets that arrived at a host and were dropped there, from `nstat -j`."""
    counters = json.loads(text)["kernel"]
    return {f"{name} at {host}": counters.get(name, 0) for name in _HOST_COUNTERS}


log = logging.getLogger(__name__)

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0

_UNSHARE = ["unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]


class PortService(NamedTuple):
    """How a port has served its packets since a moment."""

    busy_s: float
    """Transmission time at the port's rate of all that it sent."""
    late_s: float
    """Time in which the port had packets but did not send at its rate. See dataplane.port.PortProgram.late_ns."""


class Testbed:
    """A running testbed, made by `start`. It is a context manager."""

    __test__ = False  # pytest would take it for a test by its name

    def __init__(self, topology: Topology, settings: Settings, process: subprocess.Popen[bytes]) -> None:
        self.topology = topology
        self.settings = settings
        self._process = process
        self._init_pid = 0
        self._host_pids: dict[str, int] = {}

    @classmethod
    def start(
        cls,
        topology: Topology,
        run_dir: Path,
        *,
        controller: str | Sequence[str] | None = "tcp:127.0.0.1:6653",
        datapath: str = "auto",
        web: str | None = None,
        log_dir: Path | None = None,
        behaviour: PortBehaviour | None = None,
        rto_min_ms: int = 10,
        initial_window: int = 10,
        cheap_turns: bool = True,
    ) -> Testbed:
        """Start a network and wait until it is ready. See topologies.settings.Settings for the arguments.

        If `controller` names several, each switch connects to all of them. Call this from a thread that lives as long
        as the testbed. Raises EnvironmentLacking if the caller is not root or a tool or kernel feature is missing.
        Raises SluiceError, which names the log, if the testbed does not start.
        """
        if os.geteuid() != 0:
            raise EnvironmentLacking(
                "a testbed makes network namespaces, which needs root: run this with sudo"
            )
        settings = Settings(
            run_dir=run_dir.resolve(),
            log_dir=(log_dir or run_dir / "log").resolve(),
            controllers=(controller,) if isinstance(controller, str) else tuple(controller or ()),
            datapath=datapath,
            web=web,
            behaviour=behaviour or PortBehaviour(),
            rto_min_ms=rto_min_ms,
            initial_window=initial_window,
            cheap_turns=cheap_turns,
        )
        if needs_delays(topology) and not has_netem():
            log.warning("%s", without_delays(topology))
        bed = cls(topology, settings, _spawn_inside(topology, settings))
        try:
            bed._wait_ready()
            for port in topology.ports:
                if not port.up:
                    bed.exec(None, ["ip", "link", "set", port.interface, "down"])
        except BaseException:
            bed.stop()
            raise
        return bed

    def _wait_ready(self) -> None:
        wait_until(self._ready, "the testbed is ready", timeout_s=START_TIMEOUT_S)
        self._init_pid = processes.children(self._process.pid)[0]
        inner = self._status()["hosts"]
        outer = processes.translate(self._init_pid, set(inner.values()))
        self._host_pids = {name: outer[pid] for name, pid in inner.items()}

    def _ready(self) -> bool:
        status = read_json(self.settings.status_file) or {}
        if status.get("state") == "failed" or self._process.poll() is not None:
            reason = status.get("error") or f"exit code {self._process.poll()}"
            raise SluiceError(f"the testbed did not start: {reason}\nSee {self.settings.log_dir}/testbed.log")
        return status.get("state") == "ready"

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] | None = read_json(self.settings.status_file)
        assert status is not None, "a started testbed has a status file"
        return status

    @property
    def pid(self) -> int:
        """Process id of the testbed's first process, which lives as long as the testbed."""
        return self._init_pid

    @property
    def netns(self) -> str:
        """Path of the network namespace of the switches."""
        return f"/proc/{self._init_pid}/ns/net"

    def host_netns(self, name: str) -> str:
        """Path of a host's network namespace."""
        return f"/proc/{self._host_pids[name]}/ns/net"

    @property
    def datapath_type(self) -> str:
        """ "netdev" or "system"."""
        return str(self._status()["datapath"])

    @property
    def priority(self) -> Priority:
        """What runs the switch before other processes."""
        return Priority(self._status()["priority"])

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the running ovsdb-server, ovs-vswitchd and port-agent, in this PID namespace."""
        inner = self._status()["services"]
        outer = processes.translate(self._init_pid, set(inner.values()))
        return {name: outer[pid] for name, pid in inner.items() if pid in outer}

    def switch_cpu_s(self) -> float:
        """Return the CPU time of the thread that forwards the packets; 0 if it has ended."""
        pid = self.pids.get("ovs-vswitchd", 0)
        try:
            return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / NS_PER_S
        except FileNotFoundError:
            return 0.0

    @property
    def restarts(self) -> Mapping[str, int]:
        """How often the testbed restarted each process of `pids`."""
        return dict(self._status()["restarts"])

    def enter(self, host: str | None) -> list[str]:
        """Return the prefix that runs a command in a host's network namespace. None: the switches'."""
        return ["nsenter", f"--net={self.netns if host is None else self.host_netns(host)}"]

    def exec(
        self,
        host: str | None,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 300.0,
    ) -> str:
        """Run a command to its end in a host's network namespace (None: the switches') and return its output.

        The command dies with the calling thread. Raises the errors of runtime.command.run.
        """
        prefix = ["setpriv", "--pdeathsig", "KILL", *self.enter(host)]
        return run([*prefix, *argv], stdin=stdin, timeout_s=timeout_s)

    def spawn(
        self,
        host: str | None,
        argv: Sequence[str],
        *,
        log_file: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process in a host's network namespace (None: the switches'). It dies with the calling thread."""
        return spawn([*self.enter(host), *argv], log_file=log_file, env=env)

    def ovs(self, argv: Sequence[str], *, stdin: str | None = None) -> str:
        """Run ovs-vsctl, ovs-ofctl (with -O OpenFlow13) or ovs-appctl against this testbed's Open vSwitch."""
        return ovs.tool(argv, self.settings.ovs_dir, stdin=stdin)

    def set_marking(self, mark_bytes: int | None, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> None:
        """Set threshold and buffer of every port, with strict priorities and no flow queues. Wait for the effect."""
        self.set_behaviour(PortBehaviour(mark_bytes, buffer_bytes))

    def set_behaviour(self, behaviour: PortBehaviour) -> None:
        """Set the behaviour of every port and wait until it is in effect.

        If there is a web process, its policy replaces this at the port agent's next heartbeat. On FieldError, nothing
        has changed.
        """
        document = write(behaviour)
        read(PortBehaviour, document)  # here and not in the port agent, which would end
        write_json(self.settings.behaviour_file, document)

        def in_effect() -> bool:
            state = self.port_agent_state()
            return state.behaviour == behaviour and state.shares_stand

        wait_until(in_effect, "the ports have the new behaviour")

    def port_agent_state(self) -> PortHeartbeat:
        """Return the port agent's latest report. Waits for its first."""
        return wait_until(lambda: last_report(self.settings), "the port agent reports")

    def port_counters(self, port_id: str) -> tuple[QueueCounters, ...]:
        """Return the port program's counters by queue, not older than this call.

        The port agent looks ten times a second whether a report is wanted, so this takes about a tenth of a second.
        """
        return self.port_report().ports[port_id]

    def port_service(self, report: PortHeartbeat) -> dict[str, PortService]:
        """Return the service of each port by id, since its program was attached."""
        return {
            port.id: PortService(
                busy_s=BITS_PER_BYTE * sum(queue.bytes for queue in report.ports[port.id]) / port.rate_bps,
                late_s=report.late_ns[port.id] / NS_PER_S,
            )
            for port in self.topology.ports
            if port.id in report.ports
        }

    def port_report(self) -> PortHeartbeat:
        """Return the port agent's report, not older than this call. Waits as `port_counters` does."""
        called_at = time.monotonic()
        self.settings.report_wanted_file.touch()

        def newer() -> PortHeartbeat | None:
            report = self.port_agent_state()
            return report if report.at > called_at else None

        return wait_until(newer, "the port agent reports")

    def crash(self, service: str) -> None:
        """Kill one of `pids` with SIGKILL. The testbed restarts it (`wait_restarted`)."""
        os.kill(self.pids[service], signal.SIGKILL)

    def wait_restarted(self, service: str, restarts: int) -> None:
        """Wait until a service has restarted `restarts` times and the testbed is ready."""

        def ready() -> bool:
            status = self._status()
            return bool(status["state"] == "ready" and status["restarts"][service] >= restarts)

        wait_until(ready, f"{service} is back")

    def losses(self) -> dict[str, int]:
        """Return packets lost outside the emulated queues, by place, without places that lost none.

        Each place counts from the start of the testbed, or of the process that counts there.
        """
        lost = {
            **switch_side(partial(self.exec, None)),
            "upcalls of the switches": lost_upcalls(self.ovs(["ovs-appctl", "dpctl/show"])),
        }
        for host in self.topology.hosts:
            lost |= interface_drops("host side", self.exec(host.name, ["ip", "-s", "-j", "link", "show"]))
            lost |= qdisc_drops("send queue of", self.exec(host.name, ["tc", "-s", "-j", "qdisc", "show"]))
            lost |= host_counters(host.name, self.exec(host.name, ["nstat", "-a", "-s", "-z", "-j"]))
        return {place: packets for place, packets in lost.items() if packets}

    def stop(self) -> None:
        """End the testbed. A second call does nothing."""
        inits = processes.children(self._process.pid)
        self._process.kill()
        self._process.wait()
        wait_until(
            lambda: not any(map(started, inits)),
            "the testbed has ended",
            timeout_s=STOP_TIMEOUT_S,
        )

    def __enter__(self) -> Testbed:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _spawn_inside(topology: Topology, settings: Settings) -> subprocess.Popen[bytes]:
    for folder in (settings.run_dir, settings.log_dir):
        folder.mkdir(parents=True, exist_ok=True)
    for file in (settings.status_file, settings.behaviour_file, settings.port_agent_file):
        file.unlink(missing_ok=True)
    settings.save(topology)
    argv = [*_UNSHARE, sys.executable, "-m", "sluice.topologies.supervisor", str(settings.start_file)]
    return spawn(argv, log_file=settings.log_dir / "testbed.log")
