# SPDX-License-Identifier: Apache-2.0
"""LLDP frames on their way between two switches, and what ports count, for tests of the controller."""

import numpy as np
import numpy.typing as npt
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.openflow.answers import Neighbour, read_neighbour
from sluice.controller.openflow.frames import Framer, MessageType, message
from sluice.policy import tags
from sluice.policy.network.graph import TRUNKS
from sluice.policy.thresholds.adaptation import PortCounters
from sluice.policy.units import HEADER_BYTES, MSS_BYTES


def frame_in(sent: bytes) -> bytes:
    """Return the Ethernet frame in a packet-out: header, fixed part and one action come before it."""
    return sent[24 + 16 :]


def arrived(frame: bytes, port: int = 7) -> Neighbour | None:
    """Return what the controller reads when the frame arrives at a port."""
    match = bytearray()
    length = parser.OFPMatch(in_port=port).serialize(match, 0)
    head = bytes(4) + len(frame).to_bytes(2, "big") + bytes(2) + bytes(8)
    data = message(MessageType.PACKET_IN, head + bytes(match[:length]) + bytes(2) + frame)
    return read_neighbour(next(Framer().feed(data)))


_ENDS = np.asarray([*tags.EDGES_BYTES[:-1], 2**62])
_ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)


def counted(sizes: npt.ArrayLike, *, fins: bool = True, acks: int = 0, group: int = TRUNKS) -> PortCounters:
    """Return the counters after whole flows of these sizes have crossed the port.

    `acks`: how many ACKs of flows in the other direction crossed it as well. `group`: of ingress ports.
    """
    values = np.asarray(sizes, np.int64)
    # Packets of each flow that begin up to each edge, and their payload.
    begun = np.minimum(_ENDS, values[:, None] - 1) // MSS_BYTES + 1
    sent = np.minimum(begun * MSS_BYTES, values[:, None])
    counters = PortCounters.zero(1)
    packets, frame_bytes = counters.packets.copy(), counters.bytes.copy()
    packets[0, _ATTAINED] = np.diff(begun.sum(axis=0), prepend=0)
    frame_bytes[0, _ATTAINED] = np.diff(sent.sum(axis=0), prepend=0)
    packets[0, tags.ATTAINED_FIRST] += acks
    if fins:
        ends = np.searchsorted(_ENDS, values)
        counters.completed[0, group] = np.bincount(ends, minlength=tags.ATTAINED_BUCKETS)
    return PortCounters(packets, frame_bytes + HEADER_BYTES * packets, counters.completed)


def plus(one: PortCounters, other: PortCounters) -> PortCounters:
    return PortCounters(one.packets + other.packets, one.bytes + other.bytes, one.completed + other.completed)


def nothing() -> PortCounters:
    return counted([])
