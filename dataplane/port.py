# SPDX-License-Identifier: Apache-2.0
"""The port program (bpf/port.bpf.c) on the ports of a switch. One load serves all ports of this process.

with PortProgram() as ports:
    ports.attach("s1-eth1", PortSettings(rate_bps=100_000_000, mark_bytes=97_500, buffer_bytes=360_000))
    ports.counters("s1-eth1")[0].marked
"""

import os
import socket
import struct
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from sluice.dataplane import flow_queues, loader
from sluice.dataplane.clsact import attach_clsact, detach_clsact, is_attached
from sluice.dataplane.flow_queues import QUEUES, SUB_QUEUES
from sluice.dataplane.libbpf import ATTACH_RAW_TRACEPOINT, Resource
from sluice.dataplane.loader import BpfObject, load
from sluice.dataplane.port_settings import DSCPS, PortSettings
from sluice.policy.errors import SluiceError
from sluice.policy.figures.validity import DELAYS, NO_DELAYS
from sluice.policy.wire.agents import QueueCounters, TagCounters

_STATE = f"=QQQQ{QUEUES}Q3QIxxxx"
"""Backlog, time, phantom queue, time that the port was late, backlog up to each rank, budget of frames not IP, lock."""
_QUEUE_FIELDS = 5
_COUNTERS = f"={QUEUES * _QUEUE_FIELDS}Q"

_TAG_FIELDS = 3
_TAGS = f"={DSCPS * _TAG_FIELDS}Q"
_FORWARDING = f"={DELAYS}Q"
_PORT_QUEUE = struct.Struct("=II")
_DEPARTURES = struct.Struct(f"={QUEUES * (8 + 4) * SUB_QUEUES + 16}xIxxxx")
"""The port's network namespace. The programs fill the rest."""
_NAMESPACE = Path("/proc/thread-self/ns/net")


class PortProgram(Resource):
    """A loaded port program. After `close`, ports keep the program and their last settings.

    The count of departures from flow queues ends with this process. Until another process counts, an assigned flow
    queue stays assigned while the port is busy. Flows without a queue then share the queues by their hash.
    """

    def __init__(self) -> None:
        """Raises EnvironmentLacking when BPF cannot be used here."""
        self._object: BpfObject = load("port")
        self._program = self._object.program("sluice_port")
        self._arrival = self._object.program("sluice_arrival")
        self._indices: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._links: list[int] = []

    def attach(self, ifname: str, settings: PortSettings) -> None:
        """Attach the program to an interface of this network namespace. Idempotent: counters and backlog stay.

        A new port with an old name starts from zero. So does a port of an earlier process.
        """
        index = _index(ifname)
        if self._indices.get(ifname) != index:
            self.forget(ifname)
            place = next(place for place in count() if place not in self._places.values())
            for array in map(self._object.map, ("states", "counters", "tags")):
                array.update(place, bytes(array.value_size))
            self._indices[ifname], self._places[ifname] = index, place
        flow_queues = self._object.map("flow_queues")
        departures = _DEPARTURES.pack(_NAMESPACE.stat().st_ino)
        self._object.map("departures").update(index, departures, only_new=True)
        for queue in range(QUEUES):
            flow_queues.update(_PORT_QUEUE.pack(index, queue), bytes(flow_queues.value_size), only_new=True)
        self.set(ifname, settings)
        if not self.is_attached(ifname):
            attach_clsact(ifname, self._program)

    def set(self, ifname: str, settings: PortSettings) -> None:
        """Change the settings of an attached port, from the next packet on. KeyError: it is not attached."""
        if settings.sub_queues:
            self.follow_departures()
        self._object.map("settings").update(self._indices[ifname], settings.pack(self._places[ifname]))

    def follow_arrivals(self, ifname: str) -> None:
        """Measure from now on how long packets that arrive at this interface take through the switch. Idempotent."""
        attach_clsact(ifname, self._arrival, "ingress")

    def forwarding(self) -> tuple[int, ...]:
        """Return the forwarding delays of sampled packets at all ports, by policy.validity.delay_class.

        The unit is the time of a full frame at the egress port. Only packets that arrived at an interface of
        `follow_arrivals` count.
        """
        return self._object.map("forwarding").lookup_sum(0, _FORWARDING) or NO_DELAYS

    def follow_departures(self) -> None:
        """Count departures from the flow queues from now on. Idempotent.

        The programs see every packet of the machine that leaves a qdisc or is dropped. So call this only if there are
        flow queues.
        """
        for name in ("sluice_departure", "sluice_drop")[len(self._links) :]:
            self._links.append(loader.attach(self._object.program(name), ATTACH_RAW_TRACEPOINT))

    def make_flow_queues(self, ifname: str) -> None:
        """Make the flow queues below the port's eight queues. Waiting packets are lost. See dataplane.flow_queues.

        Raises SluiceError if there is no such port.
        """
        _index(ifname)
        flow_queues.make(ifname)

    def without_flow_queues(self, ifnames: Iterable[str]) -> frozenset[str]:
        """Return the ports among these that lack flow queues or do not exist."""
        standing = flow_queues.standing()
        whole = {index for index, queues in standing.items() if len(queues) == QUEUES}
        indices = {name: index for index, name in socket.if_nameindex()}
        return frozenset(name for name in ifnames if indices.get(name) not in whole)

    def is_attached(self, ifname: str) -> bool:
        """Return whether this process's program is attached to the port, and the port is still the same interface."""
        try:
            current = self._indices.get(ifname) == socket.if_nametoindex(ifname)
        except OSError:
            return False
        return current and is_attached(ifname, self._program)

    def go_first(self, ifname: str) -> None:
        """Attach the program of a port before the filters of others. Raises SluiceError."""
        attach_clsact(ifname, self._program)

    def counters(self, ifname: str) -> tuple[QueueCounters, ...]:
        """Return the counters of queues 0 … 7. KeyError: the port was never attached."""
        fields = self._object.map("counters").lookup_sum(self._places[ifname], _COUNTERS) or ()
        starts = range(0, len(fields), _QUEUE_FIELDS)
        return tuple(QueueCounters(*fields[start : start + _QUEUE_FIELDS]) for start in starts)

    def tags(self, ifname: str) -> tuple[TagCounters, ...]:
        """Return what the port was given, by DSCP; only those that occur. KeyError: the port was never attached."""
        fields = self._object.map("tags").lookup_sum(self._places[ifname], _TAGS) or ()
        rows = (fields[start : start + _TAG_FIELDS] for start in range(0, len(fields), _TAG_FIELDS))
        return tuple(TagCounters(dscp, *row) for dscp, row in enumerate(rows) if any(row))

    def late_ns(self, ifname: str) -> int:
        """Return the total time in which the port had packets but did not send at its rate.

        Late timers and a late CPU cause it. Its bursts make up for some of that time, which does not count here.
        KeyError: the port was never attached.
        """
        state = self._object.map("states").lookup(self._places[ifname]) or b""
        return int(struct.unpack(_STATE, state)[3])

    def detach(self, ifname: str) -> None:
        """Detach the program, whatever process has attached it, and forget the port.

        Idempotent, even if the interface is gone.
        """
        if ifname in (name for _, name in socket.if_nameindex()):
            detach_clsact(ifname, self._program)
            detach_clsact(ifname, self._arrival, "ingress")
        self.forget(ifname)

    def forget(self, ifname: str) -> None:
        """Delete the settings, counters and state of a port."""
        index = self._indices.pop(ifname, None)
        if index is not None:
            del self._places[ifname]
            for name in ("settings", "departures"):
                self._object.map(name).delete(index)
            for queue in range(QUEUES):
                self._object.map("flow_queues").delete(_PORT_QUEUE.pack(index, queue))

    def close(self) -> None:
        while self._links:
            os.close(self._links.pop())
        self._object.close()


def _index(ifname: str) -> int:
    try:
        return socket.if_nametoindex(ifname)
    except OSError as error:
        raise SluiceError(
            f"there is no interface {ifname} in this network namespace, so no program works at this port; leave ports"
            " without an interface, as Open vSwitch's patch ports, out of the description"
        ) from error
