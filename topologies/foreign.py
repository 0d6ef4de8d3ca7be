# SPDX-License-Identifier: Apache-2.0
"""A Mininet network that somebody else's script has started: its hosts, its switches, and how they are wired.

Mininet starts a shell for each node. The last word of its command line is "mininet:NAME". A node in this network
namespace is a switch or a controller, any other one is a host. A switch NAME has the interfaces NAME-eth1, NAME-eth2 …
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.policy.units import rate_bps as rate_of
from sluice.runtime.command import run

PORT_AGENT = "mininet"
"""Name of the port agent of all its switches."""
_SHELL = "mininet:"
_SHAPED = re.compile(r"\b(?:rate|m2) (\d+[KMG]?bit)")
"""What tc says of the rates of HTB, TBF and HFSC, of which Mininet's TCLink uses one."""
_FEW = 6


@dataclass(frozen=True)
class ForeignHost:
    """A host, whose network namespace is that of the process `pid`."""

    name: str
    pid: int
    interface: str
    mac: str
    ipv4: str | None
    queues_at: str | None
    """The class of the interface's HTB that shapes its link. None: nothing shapes it, or delays packets there."""

    def inside(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs another one in the host's network namespace."""
        return inside(self.pid, argv)


@dataclass(frozen=True)
class ForeignPort:
    """An interface of a switch."""

    switch: str
    interface: str
    rate_bps: int | None
    """What shapes the link; None: nothing."""
    shaped: bool
    """Whether someone has made a qdisc there."""
    host: str | None = None
    to: str | None = None
    """The interface at the other end of a link between switches."""


@dataclass(frozen=True)
class ForeignNetwork:
    hosts: tuple[ForeignHost, ...]
    ports: tuple[ForeignPort, ...]

    def description(self, rate_bps: int | None) -> dict[str, Any]:
        """Return the description of the network, as for `sluice network apply`. Its switches forward by themselves.

        `rate_bps`: of links that nothing shapes. Raises SluiceError if one is needed.
        """
        without = [port.interface for port in self.ports if port.rate_bps is None]
        if without and rate_bps is None:
            raise SluiceError(
                f"give the rate of the links with --rate, because nothing shapes {_listed(without)}"
            )
        switch_of = {port.interface: port.switch for port in self.ports}

        def table(port: ForeignPort) -> dict[str, str]:
            shown = {"name": port.interface, "rate": f"{port.rate_bps or rate_bps}bit"}
            if port.host:
                shown["host"] = port.host
            if port.to:
                shown["to"] = f"{switch_of[port.to]}:{port.to}"
            return shown

        return {
            "name": PORT_AGENT,
            "switch": [
                {
                    "name": switch,
                    "forwarding": "leave",
                    "agent": PORT_AGENT,
                    "port": [table(port) for port in self.ports if port.switch == switch],
                }
                for switch in dict.fromkeys(port.switch for port in self.ports)
            ],
            "host": [
                {"name": host.name, "mac": host.mac} | ({"ipv4": host.ipv4} if host.ipv4 else {})
                for host in self.hosts
            ],
        }

    def shaped(self) -> list[str]:
        """Return the interfaces of switches that have a qdisc of somebody else."""
        return [port.interface for port in self.ports if port.shaped]


def inside(pid: int, argv: Sequence[str]) -> list[str]:
    """Return the command that runs another one in a process's network namespace."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *argv]


def hosts_and_switches(proc: Path = Path("/proc")) -> tuple[dict[str, int], list[str]]:
    """Return the hosts by name, with the process of each one's shell, and the other nodes, which share this namespace.

    Raises SluiceError if two networks run.
    """
    here = _namespace(proc / "self")
    hosts: dict[str, int] = {}
    others: list[str] = []
    for process in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            word = (
                (process / "cmdline").read_bytes().rstrip(b"\0").rpartition(b"\0")[2].decode(errors="replace")
            )
            namespace = _namespace(process)
        except OSError:
            continue  # the process has just ended
        if not word.startswith(_SHELL):
            continue
        name = word.removeprefix(_SHELL)
        if name in hosts or name in others:
            raise SluiceError(
                f"two Mininet networks run here, because two nodes are called {name}: stop one of them"
            )
        if namespace == here:
            others.append(name)
        else:
            hosts[name] = int(process.name)
    return hosts, others


def find_network() -> ForeignNetwork:
    """Return the Mininet network whose switches are in this network namespace. Raises SluiceError without one."""
    host_pids, others = hosts_and_switches()
    links = {link["ifname"]: link for link in _ip("link")}
    qdiscs = _made_qdiscs([])
    switch_of = {name: name.rpartition("-")[0] for name in links}
    ports = {name: switch for name, switch in switch_of.items() if switch in others}
    if not ports or not host_pids:
        raise SluiceError(
            "no Mininet network runs here: start its script first and keep it running, for example at its prompt, and"
            " call this as root in the network namespace of its switches"
        )
    hosts: list[ForeignHost] = []
    host_at: dict[str, str] = {}
    for name, pid in host_pids.items():
        for link in _ip("address", pid):
            port = next((port for port in ports if _are_ends(links[port], link)), None)
            if port is not None and name not in host_at.values():
                host_at[port] = name
                hosts.append(_host(name, pid, link))
    return ForeignNetwork(
        tuple(hosts),
        tuple(
            ForeignPort(
                switch,
                name,
                _shaped_bps(name) if name in qdiscs else None,
                name in qdiscs,
                host_at.get(name),
                peer if (peer := links[name].get("link")) in ports else None,
            )
            for name, switch in ports.items()
        ),
    )


def _host(name: str, pid: int, link: Mapping[str, Any]) -> ForeignHost:
    interface = link["ifname"]
    ipv4 = next((each["local"] for each in link["addr_info"] if each["family"] == "inet"), None)
    made = _made_qdiscs(inside(pid, [])).get(interface, [])
    # A single HTB: below its one class is place for queues. A second qdisc delays or loses packets there.
    at = next((f"{qdisc['handle']}1" for qdisc in made if len(made) == 1 and qdisc["kind"] == "htb"), None)
    return ForeignHost(name, pid, interface, link["address"], ipv4, at)


def _are_ends(port: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two interfaces, of this namespace and of another one, are the ends of one link."""
    return bool(port.get("link_index") == other["ifindex"] and other.get("link_index") == port["ifindex"])


def _made_qdiscs(enter: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the qdiscs that someone has made, by interface."""
    found: dict[str, list[dict[str, Any]]] = {}
    for qdisc in json.loads(run([*enter, "tc", "-j", "qdisc", "show"])):
        if qdisc["handle"] != "0:" and qdisc["kind"] not in ("noqueue", "clsact", "ingress"):
            found.setdefault(qdisc["dev"], []).append(qdisc)
    return found


def _shaped_bps(interface: str) -> int | None:
    """Return the greatest rate to which an interface is shaped."""
    said = (run(["tc", what, "show", "dev", interface]) for what in ("class", "qdisc"))
    return max((rate_of("rate", text) for text in _SHAPED.findall("".join(said))), default=None)


def _ip(what: str, pid: int | None = None) -> Iterator[dict[str, Any]]:
    argv = ["ip", "-j", what, "show"]
    yield from json.loads(run(argv if pid is None else inside(pid, argv)))


def _namespace(process: Path) -> str:
    return str((process / "ns/net").readlink())


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more
