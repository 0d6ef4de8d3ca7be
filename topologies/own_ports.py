# SPDX-License-Identifier: Apache-2.0
"""The ports of the switches of this machine: makes their queues in Open vSwitch, and gives the ports back as they were.

A port keeps the QoS that it had before in its external_ids, so a port agent that was killed can give it back, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sluice.policy.network.graph import Port, Topology
from sluice.topologies.commands.switches import queues
from sluice.topologies.real_port import own_burst_bytes

log = logging.getLogger(__name__)

_FORMER = "sluice-former-qos"
_NONE = "none"
_VLAN_COLUMNS = ("tag", "trunks", "vlan_mode")
"""They make Open vSwitch keep VLANs apart, but only in its own forwarding."""


class _PortRow(NamedTuple):
    """A Port row of the database."""

    qos: str
    """Its uuid; empty if the port has none."""
    former: str | None
    """The QoS before Sluice's, or _NONE. None if the QoS is not Sluice's."""
    ignored: str
    """The settings of the port that only hold while the switch forwards by itself."""
    interfaces: tuple[str, ...]
    """The uuids of its interfaces. A bond has several."""


class OwnPorts:
    """The Open vSwitch of this machine."""

    def __init__(self, ovs: Callable[[list[str]], str]) -> None:
        """`ovs` runs a tool of Open vSwitch and returns its output. Raises CommandFailed."""
        self._ovs = ovs

    def here(self, topology: Topology) -> tuple[Port, ...]:
        """Return the ports of a network that belong to bridges of this machine."""
        dpids = {
            int(row["datapath_id"], 16) for row in self._rows("Bridge", "datapath_id") if row["datapath_id"]
        }
        names = {switch.name for switch in topology.switches if switch.dpid in dpids}
        return tuple(port for port in topology.ports if port.switch in names)

    def take(self, ports: Iterable[Port], shares: Sequence[float] | None = None) -> None:
        """Give ports the queues of Sluice, unless they have them at the rate of their link."""
        rows, rates_bps = self._ports(), self._rates_bps()
        for port in ports:
            row = rows.get(port.interface)
            if row is None:
                log.warning("%s: Open vSwitch has no port %s", port.id, port.interface)
            elif row.former is None:
                self._make(port, row.qos or _NONE, shares)
            elif rates_bps.get(row.qos) != port.rate_bps:
                self.give_back([port.interface])
                self._make(port, row.former, shares)

    def give_back(self, interfaces: Iterable[str]) -> None:
        """Give ports the QoS that they had before, and delete the rows of Sluice."""
        rows = self._ports()
        for name in interfaces:
            row = rows.get(name)
            if row is None or row.former is None:
                continue
            queue_rows = self._queues_of(row.qos)
            argv = (
                ["clear", "Port", name, "qos"]
                if row.former == _NONE
                else ["set", "Port", name, f"qos={row.former}"]
            )
            argv += ["--", "remove", "Port", name, "external_ids", _FORMER]
            argv += ["--", "--if-exists", "destroy", "QoS", row.qos]
            argv += ["--", "--if-exists", "destroy", "Queue", *queue_rows] if queue_rows else []
            self._ovs(["ovs-vsctl", *argv])
            log.info("%s has the QoS that it had before", name)

    def problems(self, ports: Iterable[Port]) -> tuple[str, ...]:
        """Return what rules of OpenFlow ignore at these ports, although the operator has set it: VLANs and bonds."""
        rows = self._ports()
        bond_of = self._bonds(rows)
        return tuple(
            f"{port.switch}:{port.interface} {problem}"
            for port in ports
            if (problem := _problem(rows.get(port.interface), bond_of.get(port.interface)))
        )

    def interfaces(self) -> frozenset[str]:
        """Return the names of all ports of this machine's bridges."""
        return frozenset(self._ports())

    def held(self) -> frozenset[str]:
        """Return the ports that have queues of Sluice."""
        return frozenset(name for name, row in self._ports().items() if row.former is not None)

    def _make(self, port: Port, former: str, shares: Sequence[float] | None) -> None:
        remember = ["--", "set", "Port", port.interface, f"external_ids:{_FORMER}={former}"]
        made = queues(port, shares, own_burst_bytes(port.rate_bps))
        self._ovs(["ovs-vsctl", *made[1:], *remember])
        log.info("%s: %s has eight queues now", port.id, port.interface)

    # ── The database ───────────────────────────────────────────────────────────────────────────────────────────────

    def _ports(self) -> dict[str, _PortRow]:
        rows = self._rows("Port", "name", "qos", "external_ids", "interfaces", *_VLAN_COLUMNS)
        return {
            row["name"]: _PortRow(
                row["qos"] or "", row["external_ids"].get(_FORMER), _ignored(row), _several(row["interfaces"])
            )
            for row in rows
        }

    def _bonds(self, ports: Mapping[str, _PortRow]) -> dict[str, str]:
        """Return the bond of each interface that belongs to one."""
        bonds = {name: row.interfaces for name, row in ports.items() if len(row.interfaces) > 1}
        if not bonds:
            return {}
        names = {row["_uuid"]: row["name"] for row in self._rows("Interface", "_uuid", "name")}
        return {names[uuid]: bond for bond, members in bonds.items() for uuid in members if uuid in names}

    def _rates_bps(self) -> dict[str, int]:
        rows = self._rows("QoS", "_uuid", "other_config")
        return {row["_uuid"]: int(row["other_config"].get("max-rate", 0)) for row in rows}

    def _queues_of(self, qos: str) -> list[str]:
        rows = self._rows("QoS", "_uuid", "queues")
        return next((list(row["queues"].values()) for row in rows if row["_uuid"] == qos), [])

    def _rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        listing = self._ovs(["ovs-vsctl", "--format=json", f"--columns={','.join(columns)}", "list", table])
        document = json.loads(listing)
        return [
            {heading: _value(cell) for heading, cell in zip(document["headings"], row, strict=True)}
            for row in document["data"]
        ]


def _ignored(row: dict[str, Any]) -> str:
    return ", ".join(f"{column}={_shown(row[column])}" for column in _VLAN_COLUMNS if row[column] is not None)


def _problem(row: _PortRow | None, bond: str | None) -> str:
    """Return what an operator must know of a port; empty if there is nothing."""
    if bond is not None:
        return (
            f"belongs to the bond {bond} of Open vSwitch, and rules of OpenFlow send to each of its interfaces apart,"
            " so broadcasts arrive twice. Make a bond of Linux and add that to the bridge, or leave this switch out"
        )
    if row is None or not row.ignored:
        return ""
    return (
        f"has {row.ignored} in Open vSwitch, and rules of OpenFlow ignore that, so hosts of different VLANs reach each"
        " other. Tag the frames at the hosts, or leave this switch out"
    )


def _several(value: Any) -> tuple[str, ...]:
    """Return the elements of a set, which OVSDB writes as an atom if it has one element."""
    return tuple(value) if isinstance(value, list) else (value,) if value is not None else ()


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _value(cell: Any) -> Any:
    """Return a cell of an OVSDB table (RFC 7047, 5.1): a map, an atom, a list, or None for an empty set."""
    match cell:
        case ["map", pairs]:
            return {key: _value(value) for key, value in pairs}
        case ["uuid", text]:
            return text
        case ["set", []]:
            return None
        case ["set", several]:
            return [_value(one) for one in several]
    return cell
