# SPDX-License-Identifier: Apache-2.0
"""Keeps the port program on every switch port, with its rate, marking and buffer; reports to the web process.

Open vSwitch removes the clsact hook of its ports when it starts anew: the agent hears of it from the kernel and
attaches again within milliseconds; once a second it looks at every port in any case. Without the web process it goes
on with what it has.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dataplane.port import PortProgram, PortSettings
from policy.errors import SluiceError
from policy.graph import Port, Topology
from policy.marking import PortMarking
from topologies.heartbeat import post_heartbeat
from topologies.settings import Settings, load_start, port_settings, read_json, write_json

log = logging.getLogger(__name__)

NAME = "port-agent"
LOOK_S = 0.1
RECONCILE_S = 1.0
HEARTBEAT_S = 1.0

_RTMGRP_LINK, _RTMGRP_TC = 1, 8


@dataclass
class PortAgent:
    """The desired state of the ports and the program that realises it. Times are monotonic seconds."""

    settings: Settings
    graph: Topology
    program: PortProgram
    marking: PortMarking
    policy_version: int = 0
    attached: dict[str, int] = field(default_factory=dict)
    """Interface → how often the program had to be put there."""
    marking_file_ns: int = 0

    def wanted(self, port: Port) -> PortSettings:
        return port_settings(port.rate_bps, self.marking)

    def reconcile(self) -> None:
        """Put the program where it is missing. A port that is gone for the moment is taken up when it is back."""
        for port in self.graph.ports:
            if self.program.is_attached(port.interface):
                continue
            try:
                self.program.attach(port.interface, self.wanted(port))
            except SluiceError as error:
                log.warning("%s", error)
                continue
            self.attached[port.interface] = self.attached.get(port.interface, 0) + 1

    def set_marking(self, marking: PortMarking) -> None:
        """Change all ports; the next packet meets it. FieldError when a value is not possible: nothing is changed."""
        if marking == self.marking:
            return
        port_settings(1, marking)
        self.marking = marking
        for port in self.graph.ports:
            if port.interface in self.attached:
                self.program.set(port.interface, self.wanted(port))
        log.info("%s", marking)

    def read_marking_file(self) -> None:
        """Take up what was written there since the last look."""
        try:
            written_ns = self.settings.marking_file.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if written_ns == self.marking_file_ns:
            return
        self.marking_file_ns = written_ns
        asked = read_json(self.settings.marking_file)
        if asked:
            self.set_marking(PortMarking.from_document(asked))

    def obey(self, answer: Mapping[str, Any]) -> None:
        """Take up the answer to a heartbeat; before the first policy there is no buffer in it, and nothing to do."""
        self.policy_version = answer.get("policy_version", self.policy_version)
        if answer.get("buffer_bytes"):
            self.set_marking(PortMarking.from_document(answer))

    def state(self) -> dict[str, Any]:
        """For whoever waits for a change of ours."""
        return {
            "pid": os.getpid(),
            **asdict(self.marking),
            "policy_version": self.policy_version,
            "attached": dict(self.attached),
        }

    def report(self) -> dict[str, Any]:
        """The heartbeat: state, and counters by port id and queue. `at` is CLOCK_MONOTONIC, the machine's."""
        counters = {
            port.id: [asdict(queue) for queue in self.program.counters(port.interface)]
            for port in self.graph.ports
            if port.interface in self.attached
        }
        return {"kind": "port", **self.state(), "at": time.monotonic(), "ports": counters}


def run(agent: PortAgent) -> None:
    """Until the process is ended."""
    web = Path(agent.settings.web.removeprefix("unix:")) if agent.settings.web else None
    next_look = next_report = 0.0
    said: dict[str, Any] = {}
    with listen_to_kernel() as changes:
        while True:
            if _wait(changes, LOOK_S) or time.monotonic() >= next_look:
                agent.reconcile()
                next_look = time.monotonic() + RECONCILE_S
            agent.read_marking_file()
            if agent.state() == said and time.monotonic() < next_report:
                continue
            report = agent.report()
            write_json(agent.settings.port_agent_file, report)
            said, next_report = agent.state(), time.monotonic() + HEARTBEAT_S
            if web:
                agent.obey(post_heartbeat(web, NAME, report) or {})


def listen_to_kernel() -> socket.socket:
    """A socket that becomes readable when an interface or a qdisc of this network namespace changes."""
    changes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    changes.bind((0, _RTMGRP_LINK | _RTMGRP_TC))
    changes.setblocking(False)
    return changes


def _wait(changes: socket.socket, timeout_s: float) -> bool:
    """Did the kernel report anything within the time? What it was, reconciling finds out."""
    readable, _, _ = select.select([changes], [], [], timeout_s)
    if not readable:
        return False
    try:
        while changes.recv(65536):
            pass
    except BlockingIOError:
        pass
    except OSError:  # ENOBUFS: more changes than the buffer holds; that there were some is all we ask
        log.debug("kernel reports were lost")
    return True


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings, graph = load_start(Path(sys.argv[1]))
    with PortProgram() as program:
        run(PortAgent(settings, graph, program, settings.marking))


if __name__ == "__main__":
    main()
