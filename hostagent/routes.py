# SPDX-License-Identifier: Apache-2.0
"""The routes to the network that Sluice schedules: by `congctl`, their connections get its congestion control.

All other connections keep the control that they have without Sluice. A route with a control that needs ECN asks for it
at both ends, also of connections to listeners from before. Routes inside a prefix get the attribute. A prefix without a
route of its own gets one, a copy of the route that leads there now. Routes by router advertisements stay as they are,
because a changed one would not expire.
"""

import ipaddress
import logging
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sluice.dataplane.rtnetlink import Kind, attributes, dump, make, packed, remove
from sluice.hostagent.port.settings import read_json, write_json

log = logging.getLogger(__name__)

Prefix = ipaddress.IPv4Network | ipaddress.IPv6Network

_RTMSG = struct.Struct("=BBBBBBBBI")
"""struct rtmsg: family, bits of destination, of source, TOS, table, protocol, scope, type, flags."""
_DESTINATION, _PRIORITY, _METRICS, _TABLE, _NEXT_HOP_ID = 1, 6, 8, 15, 30
_NEXT_HOPS = (4, 5, 9, 18)
"""Interface, gateway, several next hops, gateway of another family."""
_TO_MAKE = (_DESTINATION, *_NEXT_HOPS, _PRIORITY, 7, _METRICS, _TABLE, 20, 21, 22, _NEXT_HOP_ID)
"""With the preferred source, the preference, and the encapsulation."""
_CONTROL = 16
"""In the metrics: RTAX_CC_ALGO."""
_MAIN, _UNICAST, _ONLINK = 254, 1, 4
LOOK_S = 5.0
_BY_ADVERTISEMENT, _OURS = 9, 92
"""Who has made a route (RTPROT_*). 92 belongs to no one else."""


class _Route(NamedTuple):
    prefix: Prefix
    protocol: int
    scope: int
    flags: int
    values: dict[int, bytes]

    @property
    def key(self) -> str:
        """The same in two routes of which the kernel can have only one."""
        return f"{self.prefix} {self.values.get(_PRIORITY, b'').hex()}"

    @property
    def metrics(self) -> dict[int, bytes]:
        return attributes(self.values.get(_METRICS, b""))

    @property
    def control(self) -> str:
        return self.metrics.get(_CONTROL, b"").rstrip(b"\0").decode()

    @property
    def next_hops(self) -> list[bytes | None]:
        return [self.values.get(kind) for kind in (*_NEXT_HOPS, _NEXT_HOP_ID)]

    def with_metrics(self, metrics: dict[int, bytes]) -> "_Route":
        return self._replace(values=self.values | {_METRICS: packed(metrics)})

    def with_control(self, control: str) -> "_Route":
        return self.with_metrics(self.metrics | {_CONTROL: control.encode() + b"\0"})

    def copied_to(self, prefix: Prefix) -> "_Route":
        """Return a route of Sluice to a part of what this one reaches."""
        kept = {kind: value for kind, value in self.values.items() if kind != _PRIORITY}
        return _Route(
            prefix, _OURS, self.scope, self.flags, kept | {_DESTINATION: prefix.network_address.packed}
        )

    def message(self) -> bytes:
        family = socket.AF_INET if self.prefix.version == 4 else socket.AF_INET6
        head = (family, self.prefix.prefixlen, 0, 0, _MAIN, self.protocol, self.scope, _UNICAST)
        return _RTMSG.pack(*head, self.flags & _ONLINK) + packed(self.values)


class FabricRoutes:
    """The routes of this network namespace that lead to some prefixes."""

    def __init__(self, prefixes: Sequence[str], file: Path) -> None:
        """`file`: notes each route that is changed or added until all are as before, for one after a killed agent."""
        self._prefixes = [ipaddress.ip_network(prefix) for prefix in prefixes]
        self._file = file
        self._before: dict[str, str] = read_json(file) or {}
        """Key of a route that has another control now → its metrics before, hexadecimal."""
        self._used = "", 0.0
        """The control in use, and when the routes were looked at last, in monotonic seconds."""
        self.problem = ""
        """Which prefixes keep the machine's control, and why; empty if none does."""

    def use(self, control: str) -> None:
        """Let new connections to the prefixes have this control, which is registered.

        Call it from time to time, because others change routes, too. What the kernel refuses is a `problem`.
        """
        before, looked_s = self._used
        if control == before and time.monotonic() - looked_s < LOOK_S:
            return
        self._used = control, time.monotonic()
        problem = "; ".join(filter(None, (self._use_to(prefix, control) for prefix in self._prefixes)))
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem

    def _use_to(self, prefix: Prefix, control: str) -> str:
        """Give the routes to a prefix this control. Returns why one does not get it; empty if all do."""
        try:
            routes = list(_to(prefix))
            if not routes:
                return f"no route leads to {prefix}, so its connections keep the machine's control"
            for route in (route for route in routes if route.control != control):
                if route.key not in self._before:
                    before = self._before | {route.key: route.values.get(_METRICS, b"").hex()}
                    write_json(self._file, before)
                    self._before = before
                make(Kind.ROUTES, route.with_control(control).message(), replaces=True)
                log.info("connections to %s use %s", route.prefix, control)
        except OSError as error:
            return f"connections to {prefix} keep the machine's control: {error}"
        return ""

    def restore(self) -> None:
        """Let all routes be as before. A second call does nothing."""
        for version in {ipaddress.ip_network(key.split()[0]).version for key in self._before}:
            for route in list(_routes(version)):
                try:
                    if route.protocol == _OURS:
                        remove(Kind.ROUTES, route.message())
                    elif (metrics := self._before.get(route.key)) is not None:
                        before = route.with_metrics(attributes(bytes.fromhex(metrics)))
                        make(Kind.ROUTES, before.message(), replaces=True)
                except OSError as error:
                    log.warning(
                        "the route to %s keeps its congestion control: %s", route.prefix, error.strerror
                    )
        self._before.clear()
        self._file.unlink(missing_ok=True)
        self._used, self.problem = ("", 0.0), ""


def _to(prefix: Prefix) -> Iterator[_Route]:
    """Yield the routes that connections to a prefix take, as they are or as they should be but for the control."""
    routes = list(_routes(prefix.version))
    inside = [
        route for route in routes if _is_in(route.prefix, prefix) and route.protocol != _BY_ADVERTISEMENT
    ]
    yield from (route for route in inside if route.protocol != _OURS)
    if any(route.prefix == prefix and route.protocol != _OURS for route in inside):
        return
    around = [route for route in routes if _is_in(prefix, route.prefix) and route.protocol != _OURS]
    if around:
        copied = max(around, key=lambda route: route.prefix.prefixlen).copied_to(prefix)
        ours = next((route for route in inside if route.protocol == _OURS), None)
        yield ours if ours is not None and ours.next_hops == copied.next_hops else copied


def _is_in(inner: Prefix, outer: Prefix) -> bool:
    return inner.subnet_of(outer)  # type: ignore[arg-type]  # of one family


def _routes(version: int) -> Iterator[_Route]:
    """Yield the unicast routes of the main table. Raises OSError."""
    family, bits = (socket.AF_INET, 32) if version == 4 else (socket.AF_INET6, 128)
    for body in dump(Kind.ROUTES, _RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
        _, length, _, tos, table, protocol, scope, kind, flags = _RTMSG.unpack_from(body)
        values = attributes(body[_RTMSG.size :])
        if table != _MAIN or kind != _UNICAST or tos:
            continue
        destination = values.get(_DESTINATION, bytes(bits // 8))
        kept = {each: value for each, value in values.items() if each in _TO_MAKE}
        if _NEXT_HOP_ID in kept:  # the kernel then takes nothing else that says where the packets go
            kept = {each: value for each, value in kept.items() if each not in _NEXT_HOPS}
        yield _Route(ipaddress.ip_network((destination, length)), protocol, scope, flags, kept)
