# SPDX-License-Identifier: Apache-2.0
"""The first process of a testbed's namespaces. It starts the switches, the network and the port agent.

topologies.testbed runs it under `unshare`. It restarts services that end. It is process 1 of its PID namespace, so
the kernel ends all other processes when it ends. No other clean-up is needed. Its status file says when the network is
ready, and lists the processes.

Switches of the userspace datapath have cheaper turns of ovs-vswitchd's main loop (turns.c).
"""

import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from sluice.dataplane import build
from sluice.hostagent.port.settings import try_write_json
from sluice.policy.network.graph import Topology
from sluice.policy.units import BITS_PER_BYTE, FRAME_BYTES, NS_PER_S
from sluice.runtime import logs
from sluice.runtime.command import CommandFailed
from sluice.runtime.lifecycle import Watchdog, socket_path
from sluice.runtime.process import Priority, allowed_priority, reap_orphans, spawn
from sluice.runtime.wait import wait_until
from sluice.topologies import commands, emulation, ovs
from sluice.topologies.settings import Settings, load_start

TURNS_SOURCE = Path(__file__).with_name("turns.c")
_PART_OF_FRAME = 10


def cheap_turns(topology: Topology) -> dict[str, str]:
    """Return the variables with which ovs-vswitchd has cheaper turns. Builds the library if it is stale.

    A packet waits for a pause at most a tenth of the time that a full packet takes on the fastest link.
    """
    fastest_bps = max(port.rate_bps for port in topology.ports)
    pause_ns = FRAME_BYTES * BITS_PER_BYTE * NS_PER_S // fastest_bps // _PART_OF_FRAME
    return {"LD_PRELOAD": str(build.shared_library(TURNS_SOURCE)), "SLUICE_PAUSE_NS": str(pause_ns)}


log = logging.getLogger(__name__)

TICK_S = 0.1
SOCKETS_S = 1.0
"""Interval at which new ports get larger packet sockets. A restarted ovs-vswitchd gets them at once."""
READY_TIMEOUT_S = 120.0

DATABASE, SWITCH, PORT_AGENT = "ovsdb-server", "ovs-vswitchd", "port-agent"

_PRIMER = "0180c200000e02000000ffff88b5" + "00" * 46
"""A frame of the local experimental EtherType to a link-local address. No host forwards or answers it."""


ASK_EVERY_S = 3.0


class Probe:
    """Finds a process that lives but does nothing: asks it every ASK_EVERY_S, without waiting for the answer.

    SIGALRM ends `argv` if there is none within its limit, as `ovs-appctl --timeout` does. Another failure is no sign,
    because the process may have ended.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = argv
        self._asking: subprocess.Popen[bytes] | None = None
        self._due_s = 0.0

    def hangs(self) -> bool:
        """Return whether the last question had no answer. It is true once for each such question."""
        if self._asking is None:
            if time.monotonic() >= self._due_s:
                self._asking = spawn(self._argv, log_file=Path(os.devnull))
            return False
        code = self._asking.poll()
        if code is None:
            return False
        self._asking, self._due_s = None, time.monotonic() + ASK_EVERY_S
        return code == -signal.SIGALRM


@dataclass
class Service:
    """A process that the supervisor restarts when it ends."""

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    ready: Callable[[], bool] = lambda: True
    after: Callable[[], None] = lambda: None
    """Called each time that the process becomes ready."""
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    hangs: Callable[[], bool] = lambda: False
    """Whether the process lives but does nothing."""

    def run(self) -> None:
        """Start the process and wait until it is ready."""
        self.process = self.start()
        wait_until(self._up, f"{self.name} answers", timeout_s=READY_TIMEOUT_S)
        self.after()

    def _up(self) -> bool:
        if self.died():
            raise RuntimeError(f"{self.name} ended (exit code {self.process and self.process.returncode})")
        return self.ready()

    def died(self) -> bool:
        return self.process is not None and self.process.poll() is not None


@dataclass
class Inside:
    """All processes in the namespaces."""

    settings: Settings
    graph: Topology
    services: list[Service] = field(default_factory=list)
    hosts: dict[str, int] = field(default_factory=dict)
    datapath_type: str = "netdev"
    priority: Priority = Priority.ORDINARY
    known_sockets: frozenset[str] = frozenset()
    unsaid: str = ""
    """The state that the status file lacks because the disk did not take it; empty if it has the newest."""

    def ovs(self, argv: list[str]) -> str:
        return ovs.tool(argv, self.settings.ovs_dir)

    def start(self) -> None:
        self.say("starting")
        self.datapath_type = ovs.datapath_type(self.settings.datapath)
        folder = self.settings.ovs_dir
        ovs.make_database(folder)
        self._add(DATABASE, ovs.database_argv(folder), lambda: ovs.database_answers(folder))
        self.service(DATABASE).hangs = Probe(ovs.life_argv(folder, DATABASE)).hangs
        self.ovs(commands.ovs_settings().argv)
        self.priority = allowed_priority()
        self._add(SWITCH, ovs.switch_argv(folder, self.priority), lambda: ovs.switch_answers(folder))
        self.service(SWITCH).hangs = Probe(ovs.life_argv(folder, SWITCH)).hangs
        self.hosts = emulation.start(self.graph, self.settings, self.datapath_type, self.ovs)
        self.service(SWITCH).after = self._prepare_switches
        self._prepare_switches()
        self._check_ports()
        self.settings.port_agent_file.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "sluice", "port-agent", "--config", os.devnull]
        argv += ["--testbed", str(self.settings.start_file)]
        watchdog = Watchdog(socket_path(self.settings.run_dir, PORT_AGENT))
        self._add(PORT_AGENT, argv, self.settings.port_agent_file.exists, watchdog)
        self.say("ready")

    def _add(
        self, name: str, argv: list[str], ready: Callable[[], bool], watchdog: Watchdog | None = None
    ) -> None:
        env = ovs.environment(self.settings.ovs_dir)
        if name == SWITCH and self.datapath_type == "netdev" and self.settings.cheap_turns:
            env |= cheap_turns(self.graph)
        env |= watchdog.env if watchdog else {}
        log_file = self.settings.log_dir / f"{name}.log"

        def start() -> subprocess.Popen[bytes]:
            if watchdog:
                watchdog.begin()
            return spawn(argv, log_file=log_file, env=env)

        service = Service(name, start, ready)
        service.hangs = watchdog.hangs if watchdog else service.hangs
        self.services.append(service)
        service.run()

    def service(self, name: str) -> Service:
        return next(service for service in self.services if service.name == name)

    def _check_ports(self) -> None:
        """Raise if a port could not be made. Open vSwitch accepts the transaction and notes errors at the interface."""
        for port in self.graph.ports:
            number = self.ovs(["ovs-vsctl", "get", "Interface", port.interface, "ofport"]).strip()
            if number != str(port.number):
                error = self.ovs(["ovs-vsctl", "get", "Interface", port.interface, "error"]).strip()
                raise RuntimeError(f"port {port.id} has OpenFlow number {number}: {error}")

    def _prepare_switches(self) -> None:
        self.make_room()
        if not self.settings.controllers:
            return
        log_file, env = self.settings.log_dir / "ovs-vsctl.log", ovs.environment(self.settings.ovs_dir)
        for switch in self.graph.switches:
            for row in commands.controller_rows(self.ovs(commands.controllers_of(switch.name).argv)):
                now, when_connected = commands.configure_once_connected(row)
                self.ovs(now.argv)
                spawn(when_connected.argv, log_file=log_file, env=env)

    def make_room(self) -> None:
        """Enlarge the sockets of ovs-vswitchd. One packet goes out first, because it opens the sending socket."""
        if self.datapath_type != "netdev":
            return
        port = next(port for port in self.graph.ports if port.edge)
        action = f"in_port=controller,packet={_PRIMER},actions=output:{port.number}"
        self.ovs(["ovs-ofctl", "-O", "OpenFlow13", "packet-out", port.switch, action])
        self.known_sockets = frozenset()
        self.enlarge_new_sockets()

    def enlarge_new_sockets(self) -> None:
        process = self.service(SWITCH).process
        assert process is not None
        # The command that raises ovs-vswitchd executes it, so both have one process id.
        self.known_sockets |= ovs.enlarge(process.pid, self.known_sockets)

    def supervise(self) -> None:
        """Restart services that end or hang, until this process ends."""
        next_look = 0.0
        while True:
            time.sleep(TICK_S)
            for service in self.services:
                if service.hangs() and service.process is not None:
                    log.warning("%s lives but does nothing: killing it", service.name)
                    service.process.kill()
                    service.process.wait()
                if service.died():
                    self._restart(service)
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + SOCKETS_S
                if self.datapath_type == "netdev":
                    self.enlarge_new_sockets()
                if self.unsaid:
                    self.say(self.unsaid)
                reap_orphans()

    def _restart(self, service: Service) -> None:
        log.warning(
            "%s ended (exit code %s): restarting it",
            service.name,
            service.process and service.process.returncode,
        )
        service.restarts += 1
        self.say("restarting")
        try:
            service.run()
        except (RuntimeError, TimeoutError, CommandFailed, OSError) as error:
            log.error("%s: %s", service.name, error)  # the next round restarts it
        self.say("ready")

    def say(self, state: str, error: str = "") -> None:
        """Write the status file. Its process ids are those of this PID namespace.

        A full disk must not end the network, so `supervise` writes again what the disk has refused.
        """
        document: dict[str, Any] = {
            "state": state,
            "error": error,
            "datapath": self.datapath_type,
            "priority": self.priority,
            "hosts": self.hosts,
            "services": {s.name: s.process.pid for s in self.services if s.process},
            "restarts": {s.name: s.restarts for s in self.services},
        }
        problem = try_write_json(self.settings.status_file, document)
        if problem and not self.unsaid:
            log.warning("%s", problem)
        self.unsaid = state if problem else ""


def main() -> None:
    logs.start()
    signal.signal(signal.SIGTERM, _end)
    settings, graph = load_start(Path(sys.argv[1]))
    inside = Inside(settings, graph)
    try:
        inside.start()
    except Exception as error:
        traceback.print_exc()
        inside.say("failed", f"{type(error).__name__}: {error}")
        raise
    inside.supervise()


def _end(signal_number: int, frame: FrameType | None) -> None:
    os._exit(0)  # the kernel ends everything else in this PID namespace


if __name__ == "__main__":
    main()
