# SPDX-License-Identifier: Apache-2.0
"""The flows of a port, measured by its tag counters: the number of flows of each size, and the load up to each edge.

A port has three cumulative counters for each tag: packets, bytes, and completed flows (packets with a FIN). With n
flows of random size S in the window, and e_k the upper edge of bucket k:

    payload of packets that begin within the first e_k bytes of their flow:  n E[min(S, y_k)]
    y_k = the end of the last full packet that begins there:                 e_k, up to one packet
    number of flows of at least about e_k bytes:                             (E_k - E_{k-1}) / (e_k - e_{k-1}) n
    E_k = E[min(S, e_k)]

The byte counters alone give the survival function of the sizes. So flows without FINs (persistent connections) are
measured as well. FINs are exact, so they are used where they show at least half as many flows as the bytes do. For
that, no group of ingress ports counts more than all others together: one host must not make the FINs decide. A port
that counts only FINs is measured, too, because the bytes follow from the sizes. The method is this project's own.

Every array has one row for each of P ports. An ACK counts in the bucket of its own direction, with no payload.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sluice.policy import tags
from sluice.policy.thresholds.ended_flows import confirmed_sizes, in_company, sizes_in_company
from sluice.policy.units import HEADER_BYTES, MSS_BYTES

Floats = npt.NDArray[np.float64]
Counters = npt.NDArray[np.int64]

BUCKETS = tags.ATTAINED_BUCKETS
EDGES: Floats = np.asarray(tags.EDGES_BYTES, np.float64)
_LOWER_EDGES: Floats = np.concatenate([[0.0], EDGES[:-1]])
_ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)

MIN_FIN_SHARE = 0.5
"""FINs are used if they show at least this share of the flows that the bytes show."""

TYPICAL_BYTES: Floats = np.sqrt(np.maximum(_LOWER_EDGES, EDGES[0] / 4) * EDGES)
"""The size that represents the flows which end in a bucket: the geometric mean of its edges."""


@dataclass(frozen=True)
class Robust:
    """What rule 2 of policy/thresholds/ended_flows.py needs to know."""

    least: int
    """Ends without the two largest groups."""
    packet_bytes: int
    """Payload of the longest packet, all of which has one tag."""
    reserved: tuple[int, ...] = ()


@dataclass(frozen=True)
class PortTraffic:
    """Growth of the counters of P ports within their windows."""

    packets: Counters
    """By tag, shape (P, 62)."""
    bytes: Counters
    """The same shape."""
    ends: Floats
    """Ended flows that the port believes, by group of ingress ports and bucket, shape (P, G, 40)."""
    seconds: Floats
    """Length of the window, shape (P,)."""
    rate_bps: Floats
    """Rates of the links, shape (P,)."""
    robust: Robust | None = None
    """None: all ends count as they are."""

    @cached_property
    def payload(self) -> Floats:
        """Payload of the flows' first e_k bytes, shape (P, 40). It follows from the FINs of a port that counts no
        bytes."""
        by_bytes = _up_to_edges(payload_by_bucket(self.packets, self.bytes))
        by_fins = self.ends.sum(axis=1) @ _UP_TO
        return np.where(_counts_bytes(self), by_bytes, by_fins)

    @cached_property
    def shown_by_bytes(self) -> Floats:
        """Flows that ended near edge k, as the bytes show them, shape (P, 40).

        That is the number in bucket k minus the number in bucket k + 1. The number of flows in a bucket cannot rise
        with k, so a rise by noise is flattened.
        """
        through = np.diff(self.payload, axis=1, prepend=0.0) / (EDGES - _LOWER_EDGES)
        through = np.maximum.accumulate(through[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(-np.diff(through, axis=1, append=0.0))

    @cached_property
    def believed_sizes(self) -> Floats:
        """Ended flows by bucket, as far as the port believes them, shape (P, 40)."""
        plain = np.asarray(self.ends.sum(axis=1))
        robust = self.robust
        if robust is None:
            return plain
        shown = confirmed_sizes(self.shown_by_bytes, robust.packet_bytes, robust.reserved)
        return sizes_in_company(self.ends, np.where(_counts_bytes(self), shown, plain), robust.least)


@dataclass(frozen=True)
class FlowSizes:
    """Flows without deadline and of unknown size, by the bucket in which they ended."""

    ends: Floats
    """Flows by bucket, shape (P, 40)."""
    size_bytes: Floats
    """The size that represents the flows of a bucket, shape (P, 40)."""

    @property
    def flows(self) -> Floats:
        """Number of flows, shape (P,)."""
        return np.asarray(self.ends.sum(axis=1))


def _at_edges() -> Floats:
    """Matrix that turns sums over packets that begin up to each edge into sums over bytes up to each edge.

    Packets begin at multiples of the MSS. So the sum for e_k is the exact sum over bytes up to y_k. The sums over bytes
    up to the edges between are interpolated linearly.
    """
    ends = MSS_BYTES * (np.floor(EDGES / MSS_BYTES) + 1)
    last = np.flatnonzero(np.diff(ends, append=np.inf))  # the last of the edges with the same y_k
    matrix = np.zeros((BUCKETS, BUCKETS))
    for j in last:
        column = np.concatenate([[0.0], (last == j).astype(float)])
        matrix[:, j] = np.interp(EDGES, np.concatenate([[0.0], ends[last]]), column)
    matrix[-1] = np.eye(BUCKETS)[-1]  # the last bucket has no upper edge: its sum is the total
    return matrix


_AT_EDGES = _at_edges()
_UP_TO: Floats = np.minimum(TYPICAL_BYTES[:, None], EDGES[None, :])
"""Bytes up to edge k of a flow that ends in bucket j, shape (40, 40)."""


def _up_to_edges(by_bucket: Floats) -> Floats:
    return np.asarray(np.cumsum(by_bucket, axis=1) @ _AT_EDGES.T)


def payload_by_bucket(packets: Counters, frame_bytes: Counters) -> Floats:
    """Payload by attained-service bucket, shape (P, 40), of packets and bytes by tag, shape (P, 62)."""
    payload = frame_bytes[:, _ATTAINED] - HEADER_BYTES * packets[:, _ATTAINED]
    return np.asarray(np.maximum(payload, 0), float)


def _counts_bytes(traffic: PortTraffic) -> npt.NDArray[np.bool_]:
    return np.asarray(np.any(traffic.bytes, axis=1))[:, None]


def flow_sizes(traffic: PortTraffic) -> FlowSizes:
    """The number of flows that ended in each bucket, by FINs if they are enough, otherwise by bytes."""
    by_bytes, by_fins = traffic.shown_by_bytes, traffic.believed_sizes
    by_group = traffic.ends.sum(axis=2)
    shown = by_group.sum(axis=1)
    if traffic.robust is not None:
        shown = np.where(_counts_bytes(traffic)[:, 0], in_company(by_group), shown)
    fins = np.asarray(shown >= MIN_FIN_SHARE * by_bytes.sum(axis=1))
    return FlowSizes(
        ends=np.where(fins[:, None], by_fins, by_bytes),
        size_bytes=np.where(fins[:, None], TYPICAL_BYTES, EDGES),
    )


def load_up_to(traffic: PortTraffic) -> Floats:
    """Part of the link that the flows' first e_k bytes take, headers and ACKs included, shape (P, 40)."""
    by_bytes = _up_to_edges(traffic.bytes[:, _ATTAINED].astype(float))
    by_fins = traffic.payload * (1 + HEADER_BYTES / MSS_BYTES)
    frames = np.where(_counts_bytes(traffic), by_bytes, by_fins)
    return frames * 8 / (traffic.rate_bps * traffic.seconds)[:, None]


def load_of_tags(traffic: PortTraffic) -> Floats:
    """Part of the link that each tag takes, shape (P, 62)."""
    return traffic.bytes * 8 / (traffic.rate_bps * traffic.seconds)[:, None]
