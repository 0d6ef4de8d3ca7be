# SPDX-License-Identifier: Apache-2.0
"""Queues at interfaces that are no ports of Open vSwitch: of a Linux bridge, a router, a bond, a tunnel's card.

The qdisc has the classes of Open vSwitch's linux-htb, so the port program and the flow queues are the same. Packets
that no program has classified pass it by, so making it changes nothing yet. Its default class does not exist: by that
number an agent recognises what a killed one has left. A qdisc of anyone else stays.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from sluice.hostagent.port.queues import classes
from sluice.policy.network.graph import Port
from sluice.runtime.command import CommandFailed, run

log = logging.getLogger(__name__)

_MARK = 0x5C1C
_KERNELS_OWN = "0:"
"""The handle of a qdisc that no one has made."""


class LinkPorts:
    """The interfaces of this network namespace."""

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}
        """Interface → why it has no queues."""
        self._made: dict[str, str] = {}
        """Interface → the classes that this process has made there."""

    def take(self, ports: Iterable[Port], shares: Sequence[float] | None) -> None:
        """Give interfaces the queues of Sluice with these shares, unless they have them."""
        roots = _roots()
        self.problems = {}
        for port in ports:
            root = roots.get(port.interface)
            if root is None:
                self.problems[port.interface] = f"{port.id}: this machine has no interface {port.interface}"
            elif not _is_ours(root) and root.get("handle") != _KERNELS_OWN and root["kind"] != "noqueue":
                self.problems[port.interface] = (
                    f"{port.id}: {port.interface} has a qdisc of another program, {root['kind']} {root['handle']},"
                    f" which stays; to give the port queues, remove it: tc qdisc del dev {port.interface} root"
                )
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
        """Let the kernel make its own qdisc again."""
        for name in interfaces:
            self._made.pop(name, None)
            try:
                run(["tc", "qdisc", "del", "dev", name, "root"])
            except CommandFailed as error:
                log.warning("%s keeps its qdisc: %s", name, error)
            else:
                log.info("%s has the kernel's own qdisc again", name)

    def held(self) -> frozenset[str]:
        """Return the interfaces that have queues of Sluice."""
        return frozenset(name for name, root in _roots().items() if _is_ours(root))


def _roots() -> dict[str, dict[str, Any]]:
    """Return the root qdisc of each interface. One without any, such as a bridge's, has the kind noqueue."""
    names = [link["ifname"] for link in json.loads(run(["ip", "-j", "link", "show"]))]
    roots = {name: {"kind": "noqueue", "handle": _KERNELS_OWN} for name in names}
    for qdisc in json.loads(run(["tc", "-j", "qdisc", "show"])):
        if qdisc.get("root"):
            roots[qdisc["dev"]] = qdisc
    return roots


def _is_ours(root: dict[str, Any]) -> bool:
    default = str(root.get("options", {}).get("default", "0"))
    return root["kind"] == "htb" and root["handle"] == "1:" and int(default, 16) == _MARK
