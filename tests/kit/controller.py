# SPDX-License-Identifier: Apache-2.0
"""LLDP frames on their way between two switches, for tests of the controller."""

import numpy as np
import numpy.typing as npt
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.openflow.answers import Neighbour, read_neighbour
from sluice.controller.openflow.frames import Framer, MessageType, message
from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS, TRUNKS
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


_EDGES = np.asarray(tags.EDGES_BYTES)


def counted(sizes: npt.ArrayLike, *, fins: bool = True, acks: int = 0, group: int = TRUNKS) -> PortCounters:
    """Return the counters after whole flows of these sizes have crossed the port.

    `acks`: how many ACKs of flows in the other direction crossed it as well. `group`: of ingress ports.
    """
    packets = np.zeros(tags.TAG_COUNT, np.int64)
    size_bytes = packets.copy()
    completed = np.zeros((INGRESS_GROUPS, tags.ATTAINED_BUCKETS), np.int64)
    values, counts = np.unique(np.asarray(sizes, np.int64), return_counts=True)
    for size, count in zip(values, counts, strict=True):
        offsets = np.arange(0, size, MSS_BYTES)
        payload = np.minimum(MSS_BYTES, size - offsets)
        tag = _tags(offsets)
        packets += count * np.bincount(tag, minlength=tags.TAG_COUNT)
        size_bytes += count * np.bincount(
            tag, weights=payload + HEADER_BYTES, minlength=tags.TAG_COUNT
        ).astype(int)
        if fins:
            completed[group, _tags(np.asarray([size]))[0] - tags.ATTAINED_FIRST] += count
    packets[tags.ATTAINED_FIRST] += acks
    size_bytes[tags.ATTAINED_FIRST] += acks * HEADER_BYTES
    return PortCounters(packets[None], size_bytes[None], completed[None])


def _tags(attained: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return tags.ATTAINED_FIRST + np.minimum(np.searchsorted(_EDGES, attained), tags.ATTAINED_BUCKETS - 1)


def plus(one: PortCounters, other: PortCounters) -> PortCounters:
    return PortCounters(one.packets + other.packets, one.bytes + other.bytes, one.completed + other.completed)


def nothing() -> PortCounters:
    return counted([])
