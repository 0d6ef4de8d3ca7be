# SPDX-License-Identifier: Apache-2.0
"""What a port's tag counters tell about its flows: how many there are of which size, and the load up to each edge.

Three cumulative counters a tag: packets, bytes, and completed flows (packets with a FIN). With n flows of size S in the
window, and e_k the upper edge of bucket k:

    payload of packets that begin within the first e_k bytes of their flow  =  n E[min(S, y_k)]
    y_k  the end of the last full packet that begins there: e_k, up to a packet
    flows of at least about e_k bytes                                       ~  (E_k - E_{k-1}) / (e_k - e_{k-1}) n

The byte counters alone are the survival function of the sizes, so traffic without FINs (persistent connections) is
measured as well; where FINs tell of at least half the flows that the bytes tell of, they are taken, for they are exact.
A port that counts only FINs is measured, too: the bytes follow from the sizes. Ours, all of it.

Arrays are of P ports at once: the rows. An ACK counts in its own direction's bucket, with no payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from policy import tags
from policy.framing import HEADER_BYTES, MSS_BYTES

Floats = npt.NDArray[np.float64]
Counters = npt.NDArray[np.int64]

BUCKETS = tags.ATTAINED_BUCKETS
EDGES: Floats = np.asarray(tags.EDGES_BYTES, np.float64)
_FROM: Floats = np.concatenate([[0.0], EDGES[:-1]])
_ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)

FIN_SHARE = 0.5

TYPICAL_BYTES: Floats = np.sqrt(np.maximum(_FROM, EDGES[0] / 4) * EDGES)
"""The size that stands for the flows that end in a bucket: its geometric middle."""


@dataclass(frozen=True)
class PortTraffic:
    """Growth of the counters of P ports within their windows."""

    packets: Counters
    """Shape (P, 62), by tag, as the two below."""
    bytes: Counters
    completed: Counters
    seconds: Floats
    """Time in which they grew, shape (P,)."""
    rate_bps: Floats
    """Of the links, shape (P,)."""

    @cached_property
    def payload(self) -> Floats:
        """`payload_up_to`, which all that is told of a port's flows begins with."""
        payload = self.bytes[:, _ATTAINED] - HEADER_BYTES * self.packets[:, _ATTAINED]
        counted = _up_to_edges(np.maximum(payload, 0).astype(float))
        told = self.completed[:, _ATTAINED] @ _UP_TO
        return np.where(_counts_bytes(self), counted, told)


@dataclass(frozen=True)
class FlowSizes:
    """Flows without deadline and of unknown size, by where they ended."""

    ends: Floats
    """Flows by bucket, shape (P, 40)."""
    size_bytes: Floats
    """The size that stands for those of a bucket, shape (P, 40)."""

    @property
    def flows(self) -> Floats:
        """Shape (P,)."""
        return np.asarray(self.ends.sum(axis=1))


def _at_edges() -> Floats:
    """Matrix from the sums of packets that begin up to each edge to the sums of bytes up to each edge.

    Packets begin at multiples of the MSS: the sum of those that begin up to e_k is known at y_k, and linear between.
    """
    ends = MSS_BYTES * (np.floor(EDGES / MSS_BYTES) + 1)
    last = np.flatnonzero(np.diff(ends, append=np.inf))  # of the edges that no packet's begin parts
    matrix = np.zeros((BUCKETS, BUCKETS))
    for j in last:
        column = np.concatenate([[0.0], (last == j).astype(float)])
        matrix[:, j] = np.interp(EDGES, np.concatenate([[0.0], ends[last]]), column)
    matrix[-1] = np.eye(BUCKETS)[-1]  # the last bucket has no upper end: all there is
    return matrix


_AT_EDGES = _at_edges()
_UP_TO: Floats = np.minimum(TYPICAL_BYTES[:, None], EDGES[None, :])
"""Bytes that a flow which ends in bucket j has sent up to edge k."""


def _up_to_edges(by_bucket: Floats) -> Floats:
    return np.asarray(np.cumsum(by_bucket, axis=1) @ _AT_EDGES.T)


def payload_up_to(traffic: PortTraffic) -> Floats:
    """Payload of the flows' first e_k bytes, shape (P, 40); from the FINs where nobody counts bytes."""
    return traffic.payload


def _counts_bytes(traffic: PortTraffic) -> npt.NDArray[np.bool_]:
    return np.asarray(np.any(traffic.bytes, axis=1))[:, None]


def flow_sizes(traffic: PortTraffic) -> FlowSizes:
    """How many flows ended in which bucket: by FINs, or by what the bytes tell."""
    by_bytes = _ends_by_bytes(payload_up_to(traffic))
    by_fins = traffic.completed[:, _ATTAINED].astype(float)
    fins = by_fins.sum(axis=1) >= FIN_SHARE * by_bytes.sum(axis=1)
    return FlowSizes(
        ends=np.where(fins[:, None], by_fins, by_bytes),
        size_bytes=np.where(fins[:, None], TYPICAL_BYTES, EDGES),
    )


def _ends_by_bytes(payload_up_to_edge: Floats) -> Floats:
    """Flows that ended about edge k: by how much fewer go through the next bucket. What noise lets rise is levelled."""
    through = np.diff(payload_up_to_edge, axis=1, prepend=0.0) / (EDGES - _FROM)
    through = np.maximum.accumulate(through[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(-np.diff(through, axis=1, append=0.0))


def load_up_to(traffic: PortTraffic) -> Floats:
    """Part of the link that the flows' first e_k bytes take, headers and ACKs included, shape (P, 40)."""
    frames = _up_to_edges(traffic.bytes[:, _ATTAINED].astype(float))
    told = payload_up_to(traffic) * (1 + HEADER_BYTES / MSS_BYTES)
    frames = np.where(_counts_bytes(traffic), frames, told)
    return frames * 8 / (traffic.rate_bps * traffic.seconds)[:, None]


def load_of_tags(traffic: PortTraffic) -> Floats:
    """Part of the link by tag, shape (P, 62)."""
    return traffic.bytes * 8 / (traffic.rate_bps * traffic.seconds)[:, None]
