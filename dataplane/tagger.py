# SPDX-License-Identifier: Apache-2.0
"""The tagger (bpf/tag.bpf.c) on the interfaces of a host and of its guests. One load serves all of this process."""

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from sluice.dataplane.clsact import Direction, attach_clsact, detach_clsact, is_attached
from sluice.dataplane.libbpf import Resource
from sluice.dataplane.loader import BpfObject, Program, load
from sluice.policy.schemes.ports import written_tag
from sluice.policy.tags import DEFAULT_IDLE_GAP_NS
from sluice.policy.wire.agents import ForeignDscp

_SETTINGS = struct.Struct("=QQQ")
_DEADLINES, _SIZES, _FORGETS_LATE = 1, 2, 4
_COUNTERS = "=QQ"
DSCPS = 64
_GUEST_COUNTS = 4096
"""As in bpf/tag.h."""
_NONE, _LEVEL = 255, 254
_FOREIGN = "=QQIHH"


@dataclass(frozen=True)
class TagSettings:
    """What the tag shows, and when a flow ends."""

    idle_gap_ns: int = DEFAULT_IDLE_GAP_NS
    """A flow ends if its direction of the connection has sent no data for longer than this."""
    deadlines: bool = False
    """The tag of a deadline flow shows its urgency instead of its attained service …"""
    urgent_after_bytes: int = 0
    """… once they have sent this many."""
    sizes: bool = False
    """The tag of a flow of known size shows the size class."""
    forgets_late: bool = False
    """Past its deadline, a flow has the tags of one without a deadline. Otherwise they show the greatest urgency."""
    levels: bool = False
    """The tag of every packet is the level that its program has chosen by SO_PRIORITY: 1 to 7, or else 8."""
    reserved_dscp: tuple[int, ...] = ()
    """DSCPs of others: no tag has them, and packets keep them."""
    writes: bool = True
    """Otherwise packets keep their DSCP, and the tagger only counts."""
    priorities: tuple[int, ...] = ()
    """The priority of a packet by the DSCP with which it leaves, 64 values. It names the packet's class in the qdisc
    of the host's own link (dataplane/link_queues.py). 0, or an empty tuple: the priority stays."""

    def packed(self) -> bytes:
        """As struct tag_settings (bpf/tag.h)."""
        carries = self.deadlines * _DEADLINES | self.sizes * _SIZES | self.forgets_late * _FORGETS_LATE
        return _SETTINGS.pack(self.idle_gap_ns, carries, self.urgent_after_bytes)

    def written(self, dscp: int) -> bytes:
        """What happens to a packet with this DSCP, and what is written for this tag: struct tag_written (bpf/tag.h)."""
        if not self.writes:
            return bytes((True, _NONE))
        tag = _LEVEL if self.levels else written_tag(dscp, self.reserved_dscp)
        return bytes((dscp in self.reserved_dscp, tag))


DEFAULT_SETTINGS = TagSettings()


@dataclass(frozen=True)
class TagCounters:
    """What was sent with one DSCP: packets of local sockets, bytes with the Ethernet header."""

    packets: int
    bytes: int


class Tagger(Resource):
    """A loaded tagger. After `close`, interfaces keep the tagger and its last settings."""

    def __init__(self, settings: TagSettings = DEFAULT_SETTINGS) -> None:
        """Raises EnvironmentLacking when BPF cannot be used here."""
        self._object: BpfObject = load("tag")
        self.program = self._object.program("sluice_tag")
        self.of_guests: dict[Direction, Program] = {
            "ingress": self._object.program("sluice_guest"),
            "egress": self._object.program("sluice_acks"),
        }
        self.set(settings)

    def set(self, settings: TagSettings) -> None:
        """Change the settings from the next packet on."""
        priorities = settings.priorities or (0,) * DSCPS
        of = (settings.written(dscp) + struct.pack("=2xI", priorities[dscp]) for dscp in range(DSCPS))
        self._object.map(".bss").update(0, settings.packed() + b"".join(of))

    def attach(self, ifname: str) -> None:
        """Tag packets that leave through this interface of the current network namespace. Idempotent.

        This replaces the tagger of an earlier process. Running flows then begin again at tag 1.
        """
        attach_clsact(ifname, self.program)

    def detach(self, ifname: str) -> bool:
        """Stop tagging at this interface. False if no tagger was attached."""
        return detach_clsact(ifname, self.program)

    def is_attached(self, ifname: str) -> bool:
        """Return whether this process's tagger is attached, not that of an earlier process."""
        return is_attached(ifname, self.program)

    def attach_guest(self, ifname: str) -> None:
        """Tag packets of the guest behind this interface of the host: a tap, or this side of a veth pair. Idempotent.

        Their way out of this host passes an interface of `attach`, which counts them.
        """
        for direction, program in self.of_guests.items():
            attach_clsact(ifname, program, direction)

    def detach_guest(self, ifname: str) -> None:
        """Stop tagging the packets of a guest. Idempotent."""
        for direction, program in self.of_guests.items():
            detach_clsact(ifname, program, direction)

    def tags_guest(self, ifname: str) -> bool:
        """Return whether this process's programs are attached to a guest's interface."""
        return all(is_attached(ifname, program, direction) for direction, program in self.of_guests.items())

    def guest_seen(self, ifname: str) -> int:
        """Return how many packets the program has seen of the guest behind this interface. Raises OSError without it.

        An interface whose index is the same modulo _GUEST_COUNTS counts, too.
        """
        place = socket.if_nametoindex(ifname) % _GUEST_COUNTS
        return sum(self._object.map("guest_seen").lookup_sum(place, "=Q") or ())

    def seen(self) -> int:
        """Return how many packets the program has seen, at all its interfaces of `attach`."""
        return sum(counted.packets for counted in self.counters(range(DSCPS + 1)))

    def counters(self, dscps: Iterable[int] = range(DSCPS)) -> tuple[TagCounters, ...]:
        """Return the counters of these DSCPs."""
        by_dscp = self._object.map("counters")
        return tuple(TagCounters(*(by_dscp.lookup_sum(dscp, _COUNTERS) or (0, 0))) for dscp in dscps)

    def foreign(self) -> tuple[ForeignDscp, ...]:
        """Return the DSCPs that others use, smallest first."""
        uses = []
        for dscp in range(1, DSCPS):
            values = self._object.map("foreign").lookup_per_cpu(dscp) or []
            by_cpu = sorted(struct.unpack(_FOREIGN, value) for value in values)
            overwritten, forwarded = (sum(row[field] for row in by_cpu) for field in range(2))
            if overwritten or forwarded:
                _, _, *protocol_and_ports = by_cpu[-1]  # the CPU that has seen most of its packets
                uses.append(ForeignDscp(dscp, overwritten, forwarded, *protocol_and_ports))
        return tuple(uses)

    def close(self) -> None:
        self._object.close()
