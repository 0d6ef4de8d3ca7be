# SPDX-License-Identifier: Apache-2.0
"""The port agent applies the policy to every switch port and reports to the web process.

The port program does marking, buffer and flow queues. Open vSwitch does the shares. A restarted Open vSwitch removes
the clsact hook of its ports. The kernel notifies the agent, and the agent attaches the program again within
milliseconds. The agent also checks every port once a second. If the web process is away, the agent keeps its settings.
"""

import logging
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sluice.dataplane.clsact import RunCheck, skipped
from sluice.dataplane.port import PortProgram
from sluice.dataplane.port_settings import PortSettings
from sluice.hostagent.link import traffic
from sluice.hostagent.port import settings as files
from sluice.hostagent.port.machine_watch import MachineWatch, switch_losses
from sluice.hostagent.port.queues import FASTEST_BPS, queue_rows, share_out
from sluice.hostagent.port.settings import PortAgentSettings, port_settings
from sluice.hostagent.reporter import Channel
from sluice.policy.errors import SluiceError
from sluice.policy.network.description import DeclaredPort
from sluice.policy.network.graph import Port, Topology
from sluice.policy.schema.desired import PortBehaviour
from sluice.policy.schema.entries import read, write
from sluice.policy.version import VERSION
from sluice.policy.wire.access import Holder
from sluice.policy.wire.agents import AgentSettings, PortHeartbeat, QueueCounters, reason
from sluice.runtime.command import CommandFailed
from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.runtime.lifecycle import Notifier

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
LOOK_S = 0.1
RECONCILE_S = 1.0
HEARTBEAT_S = 1.0

_RTMGRP_LINK, _RTMGRP_TC = 1, 8


@dataclass
class PortAgent:
    """The desired state of the ports and the program that realises it. Times are monotonic seconds."""

    settings: PortAgentSettings
    graph: Topology
    program: PortProgram
    ovs: Callable[[list[str]], str]
    """Runs a tool of this testbed's Open vSwitch."""
    behaviour: PortBehaviour
    policy_version: int = 0
    attached: dict[str, int] = field(default_factory=dict)
    """Interface → how often the agent attached the program."""
    shares_stand: bool = False
    """Open vSwitch has the shares of the behaviour."""
    behaviour_file_ns: int = 0
    emulated: bool = False
    """Whether this machine emulates the network. Then the agent also measures how long the switch takes."""
    queues: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Port of a switch that forwards by itself → the queue of each DSCP."""
    unqueued: frozenset[str] = frozenset()
    """Interfaces without queues of Sluice. There, the program only takes the priority tag off."""
    classes_made: Callable[[Port], None] = lambda port: None
    """Called when Open vSwitch has made the queues of a port, at first or again."""
    problems: tuple[str, ...] = ()
    """What the operator must mend at the ports."""
    unkept: Mapping[str, str] = field(default_factory=dict)
    """Port ("rack1:eth1") with VLANs or bonds that rules would not keep → what an operator must know of it."""
    columns: Mapping[str, DeclaredPort] = field(default_factory=dict)
    """Port → its VLANs in the database of Open vSwitch."""
    vlans_known: bool = False
    """Rules forward by VLAN, so each frame has a header, which may carry the queue."""
    checks: dict[str, RunCheck] = field(default_factory=dict)
    """Interface → whether the program runs there."""
    refused: dict[str, str] = field(default_factory=dict)
    """Interface → why the program cannot be attached there."""
    disk_problem: str = ""
    """Why the report cannot be written into its file; empty if it can."""
    web_problem: str = ""
    """Why the last report had no answer; empty if it had one. It is logged when it changes."""
    machine: MachineWatch | None = None
    """Judges how well the machine serves the ports; None: no one does."""
    follow: Callable[[HttpClient | None], None] = lambda web: None
    """Called in each round, before the ports are checked."""

    def desired(self, port: Port) -> PortSettings:
        switch = self.graph.switch_by_name[port.switch]
        return port_settings(
            port,
            self.behaviour,
            forwards=switch.forwards,
            queue_of=self.queues.get(port.id, ()),
            in_vlan_header=self.vlans_known and switch.priority_tags,
        )

    def set_vlans(self, *, known: bool) -> None:
        """Take whether rules forward by VLAN."""
        if known != self.vlans_known:
            self.vlans_known = known
            self._set_all()

    def _set_all(self) -> None:
        for port in self.graph.ports:
            if port.interface in self.attached:
                self.program.set(port.interface, self.desired(port))

    def reconcile(self) -> None:
        """Attach what is missing. A port that is absent now is attached when it is back."""
        bare = self.program.without_flow_queues(port.interface for port in self.graph.ports)
        for port in self.graph.ports:
            interface = port.interface
            try:
                if interface in bare - self.unqueued:
                    self.program.make_flow_queues(interface)
                    self.classes_made(port)
                if not self.program.is_attached(interface):
                    self._attach(port)
                self.refused.pop(interface, None)
            except (SluiceError, CommandFailed) as error:
                problem = reason(str(error))  # of a command, it has several lines
                if self.refused.get(interface) != problem:
                    log.warning("%s: %s", port.id, problem)
                self.refused[interface] = problem
        if not self.shares_stand:
            self._share_out()

    def _attach(self, port: Port) -> None:
        self.program.attach(port.interface, self.desired(port))
        if self.emulated:
            self.program.follow_arrivals(port.interface)
        self.attached[port.interface] = self.attached.get(port.interface, 0) + 1

    def _share_out(self) -> None:
        """Set the shares in Open vSwitch, which keeps them even after its restart."""
        try:
            rows = queue_rows(self.ovs)
            change = share_out(rows, self.graph.ports, self.behaviour.guaranteed)
            if change:
                self.ovs(change)
                for port in self.graph.ports:
                    if port.rate_bps > FASTEST_BPS and port.interface in self.attached.keys() - self.unqueued:
                        self.classes_made(port)  # Open vSwitch has just set wrong rates
        except CommandFailed as error:
            log.warning("shares are not set yet: %s", error)
            return
        self.shares_stand = True

    def set_behaviour(self, behaviour: PortBehaviour) -> None:
        """Change all ports from the next packet on."""
        if behaviour == self.behaviour:
            return
        self.shares_stand = self.shares_stand and behaviour.guaranteed == self.behaviour.guaranteed
        self.behaviour = behaviour
        self._set_all()
        if not self.shares_stand:
            self._share_out()
        log.info("%s", behaviour)

    def read_behaviour_file(self) -> None:
        """Apply the behaviour file if it was written since the last call."""
        try:
            written_ns = self.settings.behaviour_file.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if written_ns == self.behaviour_file_ns:
            return
        self.behaviour_file_ns = written_ns
        document = files.read_json(self.settings.behaviour_file)
        if document:
            self.set_behaviour(read(PortBehaviour, document))

    def report_wanted(self) -> bool:
        """Return whether another process wants a report, once for each time."""
        try:
            self.settings.report_wanted_file.unlink()
        except FileNotFoundError:
            return False
        return True

    def apply(self, settings: AgentSettings) -> None:
        """Apply the answer to a heartbeat. Before the first policy, the answer has no port settings."""
        self.policy_version = settings.policy_version
        if settings.ports is not None:
            self.set_behaviour(settings.ports)
        for port in self.graph.ports:
            wanted = settings.queues.get(port.id)
            if wanted and wanted != self.queues.get(port.id):
                self.queues[port.id] = wanted
                if port.interface in self.attached:
                    self.program.set(port.interface, self.desired(port))

    def exchange(self, channel: Channel, report: PortHeartbeat) -> None:
        """Send a report and apply the answer. If the web process is away or refuses, the settings stay."""
        problem = ""
        try:
            self.apply(channel.ask(report))
            channel.renew()
        except ServerAway as away:
            problem = f"the web process does not serve this agent: {away}"
        if problem and problem != self.web_problem:
            log.warning("%s; keeping the last settings", problem)
        self.web_problem = problem

    def state(self) -> PortHeartbeat:
        """Return the heartbeat without counters, which shows when a change is in effect."""
        return PortHeartbeat(
            pid=os.getpid(),
            policy_version=self.policy_version,
            behaviour=self.behaviour,
            shares_stand=self.shares_stand,
            attached=dict(self.attached),
            at=0.0,
            ports={},
            late_ns={},
            version=VERSION,
            problems=(
                *(f"{port} {text}" for port, text in self.unkept.items()),
                *self.problems,
                *self.refused.values(),
                *(skipped(name) for name, check in sorted(self.checks.items()) if check.is_skipped),
                *([self.disk_problem] if self.disk_problem else []),
            ),
            unkept=self.unkept,
            columns=self.columns,
        )

    def report(self) -> PortHeartbeat:
        """Return the heartbeat: state, counters of each queue, and how late each port was."""
        ports = [port for port in self.graph.ports if port.interface in self.attached]
        counters = {port.id: self.program.counters(port.interface) for port in ports}
        late_ns = {port.id: self.program.late_ns(port.interface) for port in ports}
        forwarding = self.program.forwarding()
        self._check({port.interface: counters[port.id] for port in ports})
        switch_of = self.graph.switch_by_name
        left = [port for port in ports if not switch_of[port.switch].forwards]
        return replace(
            self.state(),
            at=time.monotonic(),
            ports=counters,
            late_ns=late_ns,
            tags={port.id: self.program.tags(port.interface) for port in left},
            forwarding=forwarding,
            machine=self.machine.look(ports, counters, late_ns, forwarding) if self.machine else None,
        )

    def _check(self, counters: Mapping[str, Sequence[QueueCounters]]) -> None:
        """Go before a filter that has come later. A program that is skipped all the same is a problem."""
        sent = traffic()
        for interface in counters.keys() & sent.keys():
            seen = sum(queue.packets + queue.dropped for queue in counters[interface])
            check = self.checks.setdefault(interface, RunCheck())
            check.look(sent[interface].sent_packets, seen, partial(self._go_first, interface))

    def _go_first(self, interface: str) -> None:
        try:
            self.program.go_first(interface)
        except SluiceError as error:
            log.warning("%s", error)


def serve(agent: PortAgent, notifier: Notifier) -> None:
    """Run the agent until its process ends. It reports its life to systemd once in each round."""
    channel = open_channel(agent.settings)
    # Only queues of Sluice are judged: in them, only a full buffer may lose packets.
    agent.machine = MachineWatch(lambda: switch_losses(frozenset(agent.attached) - agent.unqueued))
    agent.machine.start()
    next_look = next_report = 0.0
    reported: PortHeartbeat | None = None
    with listen_to_kernel() as changes:
        while True:
            agent.follow(channel.web if channel else None)
            if _wait(changes, LOOK_S) or time.monotonic() >= next_look:
                agent.reconcile()
                next_look = time.monotonic() + RECONCILE_S
            notifier.alive()
            agent.read_behaviour_file()
            wanted = agent.report_wanted()
            if not wanted and agent.state() == reported and time.monotonic() < next_report:
                continue
            report = agent.report()
            agent.disk_problem = files.try_write_json(agent.settings.port_agent_file, write(report))
            if reported is None:
                notifier.ready(f"{len(agent.attached)} of {len(agent.graph.ports)} ports have the program")
            reported, next_report = agent.state(), time.monotonic() + HEARTBEAT_S
            if channel is not None:
                agent.exchange(channel, report)


def open_channel(settings: PortAgentSettings) -> Channel | None:
    """Return the channel that the settings name; None without one. Raises SluiceError."""
    if settings.web is None:
        return None
    holder = Holder(settings.agent_name, PortHeartbeat.KIND)
    return Channel.open(settings.web, holder, settings.run_dir / "identity", settings.enrol, TIMEOUT_S)


def listen_to_kernel() -> socket.socket:
    """Return a socket that is readable when an interface or a qdisc of this network namespace changes."""
    changes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    changes.bind((0, _RTMGRP_LINK | _RTMGRP_TC))
    changes.setblocking(False)
    return changes


def _wait(changes: socket.socket, timeout_s: float) -> bool:
    """Return whether the kernel reported a change in time. The agent then checks all ports, so it reads no details."""
    readable, _, _ = select.select([changes], [], [], timeout_s)
    if not readable:
        return False
    try:
        while changes.recv(65536):
            pass
    except BlockingIOError:
        pass
    except OSError:  # ENOBUFS: more changes than the buffer holds
        log.debug("kernel reports were lost")
    return True


def last_behaviour(settings: PortAgentSettings) -> PortBehaviour:
    """Return the behaviour that the agent before this one reported last. The first agent gets the testbed's."""
    report = files.last_report(settings)
    return settings.behaviour if report is None else report.behaviour
