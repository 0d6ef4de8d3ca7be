# SPDX-License-Identifier: Apache-2.0
"""The port agent on a machine whose switches exist already: it follows the network that the web process knows.

It makes the queues of the ports, in Open vSwitch or at other interfaces, and gives the ports back as they were.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sluice.hostagent.port.agent import PortAgent
from sluice.hostagent.port.former_qdiscs import FormerQdiscs, root_qdiscs
from sluice.hostagent.port.queues import FASTEST_BPS, classes, fit, mtu, own_burst_bytes, queues, table_rows
from sluice.policy.errors import SluiceError
from sluice.policy.network.description import DeclaredPort
from sluice.policy.network.graph import Port, Topology
from sluice.policy.network.vlans import VlanMode
from sluice.policy.schema.desired import PortBehaviour
from sluice.policy.schema.field_kinds import name_port
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.http_client import HttpClient, ServerAway

log = logging.getLogger(__name__)

FOLLOW_S = 2.0
EMPTY = Topology("none", (), (), ())
WATCHING = PortBehaviour(acts_at=())
"""Until the first policy, the ports keep the queues that they have."""
_FORMER = "sluice-former-qos"
_NONE = "none"
_MARK = 0x5C1C
_VLAN_COLUMNS = ("tag", "trunks", "vlan_mode")


class _PortRow(NamedTuple):
    """A Port row of the database, at one of its interfaces."""

    name: str
    """Of the row. That of a bond is another than its interfaces have."""
    qos: str
    """Its uuid; empty if the port has none."""
    former: str | None
    """The QoS before Sluice's, or _NONE. None if the QoS is not Sluice's."""
    columns: Mapping[str, Any]
    """_VLAN_COLUMNS, without empty ones."""
    interfaces: tuple[str, ...]
    """The names of its interfaces. A bond has several."""


class OwnPorts:
    """The Open vSwitch of this machine.

    A port keeps the QoS that it had before in its external_ids, so a port agent that was killed can give it back, too.
    """

    def __init__(self, ovs: Callable[[list[str]], str], former: FormerQdiscs) -> None:
        """`ovs` runs a tool of Open vSwitch and returns its output. Raises CommandFailed."""
        self._ovs, self._former = ovs, former
        self._rows = partial(table_rows, ovs)
        self.problems: dict[str, str] = {}
        """Interface → why it has no queues."""

    def here(self, topology: Topology) -> tuple[Port, ...]:
        """Return the ports of a network that belong to bridges of this machine."""
        dpids = {
            int(row["datapath_id"], 16) for row in self._rows("Bridge", "datapath_id") if row["datapath_id"]
        }
        names = {switch.name for switch in topology.switches if switch.forwards and switch.dpid in dpids}
        return tuple(port for port in topology.ports if port.switch in names)

    def take(self, ports: Iterable[Port], shares: Sequence[float] | None = None) -> None:
        """Give ports the queues of Sluice, unless they have them at the rate of their link."""
        rows, qos_rows = self._ports(), self._rows("QoS", "_uuid", "other_config")
        rates_bps = {qos["_uuid"]: int(qos["other_config"].get("max-rate", 0)) for qos in qos_rows}
        self.problems = {}
        done: set[str] = set()
        for port in ports:
            row = rows.get(port.interface)
            if row is None:
                log.warning("%s: Open vSwitch has no port %s", port.id, port.interface)
            elif row.name in done:
                continue  # the interfaces of a bond have one QoS
            elif row.former is None:
                self._make(port, row, row.qos or _NONE, shares)
            elif rates_bps.get(row.qos) != port.rate_bps:
                self.give_back([port.interface])
                self._make(port, row, row.former, shares)
            done |= {row.name} if row else set()

    def give_back(self, interfaces: Iterable[str]) -> None:
        """Give ports the QoS that they had before, and delete the rows of Sluice."""
        rows = self._ports()
        for row in {row.name: row for name in interfaces if (row := rows.get(name))}.values():
            if row.former is None:
                continue
            name = row.name
            queues_of = {qos["_uuid"]: qos["queues"] for qos in self._rows("QoS", "_uuid", "queues")}
            queue_rows = list(queues_of.get(row.qos, {}).values())
            argv = (
                ["clear", "Port", name, "qos"]
                if row.former == _NONE
                else ["set", "Port", name, f"qos={row.former}"]
            )
            argv += ["--", "remove", "Port", name, "external_ids", _FORMER]
            argv += ["--", "--if-exists", "destroy", "QoS", row.qos]
            argv += ["--", "--if-exists", "destroy", "Queue", *queue_rows] if queue_rows else []
            self._ovs(["ovs-vsctl", *argv])
            for interface in row.interfaces:
                _restore(self._former, interface)
            log.info("%s has the QoS that it had before", name)

    def columns(self, ports: Iterable[Port]) -> tuple[dict[str, DeclaredPort], dict[str, str]]:
        """Return the VLANs of these ports in the database, and what rules would not keep at them.

        Port ("rack1:eth1") → its VLANs in the words of a description, or what an operator must know of it.
        """
        rows = self._ports()
        kept, unkept = {}, {}
        for port in ports:
            where, row = f"{port.switch}:{port.interface}", rows.get(port.interface)
            if row is not None and (problem := _problem(row, described=row.name == port.bond)):
                unkept[where] = problem
            elif row is not None and row.columns:
                tag, trunks, mode = (row.columns.get(column) for column in _VLAN_COLUMNS)
                trunks = tuple(sorted(_elements(trunks)))
                kept[where] = DeclaredPort(port.interface, tag=tag, trunks=trunks, vlan_mode=mode)
        return kept, unkept

    def interfaces(self) -> frozenset[str]:
        """Return the names of all ports of this machine's bridges."""
        return frozenset(self._ports())

    def row_names(self) -> dict[str, str]:
        """Return the name of the Port row of each interface. A bond has one row for several interfaces."""
        return {interface: row.name for interface, row in self._ports().items()}

    def held(self, beside: Iterable[str] = ()) -> frozenset[str]:
        """Return the interfaces that have queues of Sluice, without these and others of their bonds."""
        rows = self._ports()
        kept = {rows[name].name for name in beside if name in rows}
        return frozenset(i for i, row in rows.items() if row.former is not None and row.name not in kept)

    def _make(self, port: Port, row: _PortRow, former: str, shares: Sequence[float] | None) -> None:
        roots = root_qdiscs() if former == _NONE else {}
        for interface in row.interfaces:
            root = roots.get(interface)
            if root and (problem := self._former.make_room(interface, root)):
                self.problems[interface] = f"{port.id}: {problem}"
                return
        remember = ["--", "set", "Port", row.name, f"external_ids:{_FORMER}={former}"]
        command = queues(port, shares, own_burst_bytes(port.rate_bps), row.name)
        self._ovs(["ovs-vsctl", *command[1:], *remember])
        log.info("%s: %s has eight queues now", port.id, port.interface)

    # ── The database ───────────────────────────────────────────────────────────────────────────────────────────────

    def _ports(self) -> dict[str, _PortRow]:
        """Return the rows of all ports by interface."""
        ports: dict[str, _PortRow] = {}
        rows = self._rows("Port", "name", "qos", "external_ids", "interfaces", *_VLAN_COLUMNS)
        names: dict[str, str] = {}
        if any(len(_elements(row["interfaces"])) > 1 for row in rows):
            names = {row["_uuid"]: row["name"] for row in self._rows("Interface", "_uuid", "name")}
        for row in rows:
            uuids, name = _elements(row["interfaces"]), row["name"]
            interfaces = tuple(names[u] for u in uuids if u in names) if len(uuids) > 1 else (name,)
            held = {column: row[column] for column in _VLAN_COLUMNS if row[column] is not None}
            former = row["external_ids"].get(_FORMER)
            for interface in interfaces:
                ports[interface] = _PortRow(name, row["qos"] or "", former, held, interfaces)
        return ports


def _problem(row: _PortRow, *, described: bool) -> str:
    """Return what rules would not keep at a port; empty if they keep all. `described`: the description has its bond."""
    leaves = "So Sluice leaves the whole switch its own forwarding, without queues by tag."
    if len(row.interfaces) > 1 and not described:
        return (
            f"belongs to the bond {row.name} of Open vSwitch, and rules of OpenFlow would send to each interface."
            f' {leaves} If the other end joins them, too (LACP, or a static group), write bond = "{row.name}" at these'
            ' ports in the description. Otherwise, describe the switch with forwarding = "leave"'
        )
    if (mode := row.columns.get("vlan_mode")) in (None, *VlanMode):
        return ""
    return (
        f"has vlan_mode={mode} in Open vSwitch, which rules of Sluice do not keep. {leaves} Describe the switch with"
        ' forwarding = "leave"'
    )


def _elements(value: Any) -> tuple[Any, ...]:
    """Return the elements of a set, which OVSDB writes as an atom if it has one element."""
    return tuple(value) if isinstance(value, list) else (value,) if value is not None else ()


class LinkPorts:
    """Interfaces that are no ports of Open vSwitch: of a Linux bridge, a router, a bond, a tunnel's card.

    The qdisc has the classes of Open vSwitch's linux-htb, so the port program and the flow queues are the same. Packets
    that no program has classified pass it by, so making it changes nothing yet. Its default class does not exist: by
    that number an agent recognises what a killed one has left.
    """

    def __init__(self, former: FormerQdiscs) -> None:
        self.former = former
        self.problems: dict[str, str] = {}
        """Interface → why it has no queues."""
        self._made: dict[str, str] = {}
        """Interface → the classes that this process has made there."""

    def take(self, ports: Iterable[Port], shares: Sequence[float] | None) -> None:
        """Give interfaces the queues of Sluice with these shares, unless they have them."""
        roots = root_qdiscs()
        self.problems = {}
        for port in ports:
            root = roots.get(port.interface)
            if root is None:
                self.problems[port.interface] = f"{port.id}: this machine has no interface {port.interface}"
            elif not _is_ours(root) and (problem := self.former.make_room(port.interface, root)):
                self.problems[port.interface] = f"{port.id}: {problem}"
            else:
                self._make(port, classes(port, shares, "replace"), anew=not _is_ours(root))

    def _make(self, port: Port, wanted: str, *, anew: bool) -> None:
        """Make the classes, below a root of ours if there is none. Waiting packets stay where they are."""
        if not anew and self._made.get(port.interface) == wanted:
            return
        root = f"qdisc replace dev {port.interface} root handle 1: htb default {_MARK:x}\n" if anew else ""
        try:
            run(["tc", "-batch", "-"], stdin=root + wanted)
        except CommandFailed as error:
            self.problems[port.interface] = f"{port.id}: {port.interface} takes no queues: {error}"
            self.give_back([port.interface])
            return
        self._made[port.interface] = wanted
        log.info("%s: %s has eight queues now", port.id, port.interface)

    def give_back(self, interfaces: Iterable[str]) -> None:
        """Make the qdiscs again that were there before; without one, the kernel makes its own."""
        for name in interfaces:
            self._made.pop(name, None)
            try:
                run(["tc", "qdisc", "del", "dev", name, "root"])
            except CommandFailed as error:
                log.warning("%s keeps its qdisc: %s", name, error)
            else:
                _restore(self.former, name)
                log.info("%s has the qdisc again that it had before", name)

    def held(self) -> frozenset[str]:
        """Return the interfaces that have queues of Sluice."""
        return frozenset(name for name, root in root_qdiscs().items() if _is_ours(root))


def _restore(former: FormerQdiscs, interface: str) -> None:
    try:
        former.restore(interface)
    except (SluiceError, OSError) as error:
        log.warning("%s lacks the qdisc that it had before Sluice: %s", interface, error)


def _is_ours(root: dict[str, Any]) -> bool:
    default = str(root.get("options", {}).get("default", "0"))
    return root["kind"] == "htb" and root["handle"] == "1:" and int(default, 16) == _MARK


class NetworkPorts:
    """Gives a port agent the ports of this machine, and those ports their queues.

    All ports of the network have the port program, because it removes the priority tag. Only ports at which the policy
    acts have queues of Sluice.
    """

    def __init__(self, agent: PortAgent, own: OwnPorts, links: LinkPorts) -> None:
        self._agent, self._own, self._links = agent, own, links
        agent.classes_made = self._fit
        self._mtu: dict[str, int] = {}
        """Interface → the MTU that its queues fit."""
        self._due_s = 0.0

    def follow(self, web: HttpClient | None) -> None:
        """Look for another network from time to time, and adapt the ports to it and to the policy."""
        if web is None or time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + FOLLOW_S
        try:
            answer = web.get("/api/v1/topology")
            if not answer.ok:
                raise ServerAway(f"it answers {answer.status}")
            document = answer.json()["topology"]  # null if there is no network
            self._adapt(Topology.from_document(document) if document else EMPTY)
        except ServerAway as away:
            log.debug("the web process is away, so the ports stay as they are: %s", away)
        except CommandFailed as error:
            log.warning("the ports stay as they are: %s", error)

    def release(self) -> None:
        """Give all ports back as they were before the first agent, also those of an agent that has ended."""
        self._adapt(EMPTY)
        for interface in self._links.former.held():  # of an agent that was killed while it gave the port back
            _restore(self._links.former, interface)
        for interface in self._own.interfaces() | self._links.held():
            self._agent.program.detach(interface)

    def _here(self, topology: Topology) -> tuple[Port, ...]:
        """Return the ports of this machine: of its bridges, and of this agent's switches that forward by themselves."""
        if not topology.learns:
            return ()
        name = self._agent.settings.agent_name
        left = {switch.name for switch in topology.switches if switch.port_agent == name}
        return (*self._own.here(topology), *(port for port in topology.ports if port.switch in left))

    def _adapt(self, topology: Topology) -> None:
        agent, here = self._agent, self._here(topology)
        ports = tuple(port for port in here if port.managed)
        names = {port.interface for port in ports}
        for port in agent.graph.ports:
            if port.interface not in names:
                agent.program.detach(port.interface)
                agent.attached.pop(port.interface, None)
                agent.refused.pop(port.interface, None)
        agent.graph = replace(topology, ports=ports)
        acting = [port for port in ports if name_port(agent.behaviour.acts_at, port.id)]
        self._queue(acting)
        problems = self._own.problems | self._links.problems
        agent.unqueued = frozenset(names - {port.interface for port in acting} | problems.keys())
        agent.columns, agent.unkept = self._own.columns(port for port in here if self._forwards(port))
        agent.set_vlans(known=bool(topology.vlans))
        agent.problems = tuple(text for name, text in problems.items() if name not in agent.refused)
        for port in acting:
            if port.interface in agent.attached and not self._is_fitted(port):
                self._fit(port)

    def _queue(self, acting: Sequence[Port]) -> None:
        """Give these ports queues, and all others back. Open vSwitch makes those of its own ports."""
        row_of = self._own.row_names()
        by_switch = [port for port in acting if row_of.get(port.interface) in (port.interface, port.bond)]
        by_tc = [port for port in acting if port not in by_switch and not self._forwards(port)]
        self._own.give_back(self._own.held(beside=(port.interface for port in by_switch)))
        self._links.give_back(self._links.held() - {port.interface for port in by_tc})
        self._own.take(by_switch, self._agent.behaviour.guaranteed)
        self._links.take(by_tc, self._agent.behaviour.guaranteed)

    def _forwards(self, port: Port) -> bool:
        return self._agent.graph.switch_by_name[port.switch].forwards

    def _is_fitted(self, port: Port) -> bool:
        """Whether the queues fit. Above FASTEST_BPS, each change of shares makes Open vSwitch set wrong rates again."""
        if port.rate_bps > FASTEST_BPS:
            return False
        try:
            return self._mtu.get(port.interface) == mtu(port.interface)
        except OSError:
            return True  # the interface is gone

    def _fit(self, port: Port) -> None:
        try:
            fit(port, self._agent.behaviour.guaranteed)
            self._mtu[port.interface] = mtu(port.interface)
        except (CommandFailed, OSError) as error:
            log.warning("%s: cannot fit its queues to its rate and MTU: %s", port.id, error)
