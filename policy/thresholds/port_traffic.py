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
that, no group of ingress ports counts more than all others together: one host must not make the FINs decide.

Every array has one row for each of P ports. An ACK counts in the bucket of its own direction, with no payload.

A hostile host can send FINs with any tag, or tiny flows. Two rules limit what one ingress port can change of the sizes.
They need the ends by group of ingress ports (policy/network/graph.py).

1. Payload. A flow that ends beyond the edge e_u has sent the bytes between the edges e_v and e_u through the port:

       N(> e_u)  <=  payload under the tags of (e_v, e_u] / (e_u - e_v - packet) + 1

   `packet` is the longest one: all of it has one tag. v is the largest one with e_u - e_v >= 4 packets. So without
   payload of its own, a group ends at most 5/3 as many flows beyond e_u as honest flows of the port pass e_v, and one
   more. This one stands for a flow that sent these bytes before the window began. The rule holds for each group by
   itself, so forged ends take no room from honest ones.

2. Company. Let f_g be the ends of group g up to an edge, F their sum, and X the flows whose payload stops up to there
   by the bytes. X leaves out the sizes that need no payload by rule 1, because little payload costs little. Let r_g, R
   and S be the same beyond the edge. No group counts more than all others together, unless payload shows as many flows.
   Only the largest group can, so

       A = max(min(F, 2 (F - max f_g)), min(F, X))          share of flows up to the edge = A / (A + B)
       B = max(min(R, 2 (R - max r_g)), min(R, S))

   Trunks carry many hosts: they count among the others, and are never the largest. The rule needs at least `least`
   ends without the two largest groups. Otherwise the share is F / (F + R), as without the rule.

The bound: with any number of ends without payload, one group brings A at most to 2 F of the other groups, or to X, and
B to 2 R or to S. It cannot lower them. So where no other group exceeds the rest of them, the odds A / B change by a
factor of 2 at most. A percentile of 10 % becomes one between 5.3 % and 18.2 % of the others' flows, and 50 % one
between 33 % and 67 %. Payload shows honest flows on both sides, so X and S are near F and R. With a share x of all
ends, a group adds at most this share to A + B, so a part p becomes at least (p - x) / (1 - x), at most p / (1 - x).

Both methods are this project's own. Trimming the largest contribution is a standard step of robust statistics.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.policy import tags
from sluice.policy.network.graph import TRUNKS
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
    """What rules 1 and 2 need to know."""

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
        """Payload of the flows' first e_k bytes, shape (P, 40)."""
        return _up_to_edges(payload_by_bucket(self.packets, self.bytes))

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
        robust = self.robust
        if robust is None:
            return np.asarray(self.ends.sum(axis=1))
        shown = confirmed_sizes(self.shown_by_bytes, robust.packet_bytes, robust.reserved)
        return sizes_in_company(self.ends, shown, robust.least)


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


def _up_to_edges(by_bucket: Floats) -> Floats:
    return np.asarray(np.cumsum(by_bucket, axis=1) @ _AT_EDGES.T)


def payload_by_bucket(packets: Counters, frame_bytes: Counters) -> Floats:
    """Payload by attained-service bucket, shape (P, 40), of packets and bytes by tag, shape (P, 62)."""
    payload = frame_bytes[:, _ATTAINED] - HEADER_BYTES * packets[:, _ATTAINED]
    return np.asarray(np.maximum(payload, 0), float)


def flow_sizes(traffic: PortTraffic) -> FlowSizes:
    """The number of flows that ended in each bucket, by FINs if they are enough, otherwise by bytes."""
    by_bytes, by_fins = traffic.shown_by_bytes, traffic.believed_sizes
    by_group = traffic.ends.sum(axis=2)
    shown = by_group.sum(axis=1) if traffic.robust is None else in_company(by_group)
    fins = np.asarray(shown >= MIN_FIN_SHARE * by_bytes.sum(axis=1))
    return FlowSizes(
        ends=np.where(fins[:, None], by_fins, by_bytes),
        size_bytes=np.where(fins[:, None], TYPICAL_BYTES, EDGES),
    )


def load_up_to(traffic: PortTraffic) -> Floats:
    """Part of the link that the flows' first e_k bytes take, headers and ACKs included, shape (P, 40)."""
    frames = _up_to_edges(traffic.bytes[:, _ATTAINED].astype(float))
    return frames * 8 / (traffic.rate_bps * traffic.seconds)[:, None]


def load_of_tags(traffic: PortTraffic) -> Floats:
    """Part of the link that each tag takes, shape (P, 62)."""
    return traffic.bytes * 8 / (traffic.rate_bps * traffic.seconds)[:, None]


# ── Ends of flows as far as a port believes them ───────────────────────────────────────────────────────────────────


_SPAN_PACKETS = 4
"""The width of the buckets whose payload confirms an end, in packets of the longest kind."""


class _Spans(NamedTuple):
    """For each bucket: where the buckets lie whose payload an end in it needs. Shape (40,)."""

    first: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    """One after the last of them; 0: an end in this bucket needs no payload."""
    needed_bytes: Floats


@lru_cache
def _spans(packet_bytes: int, reserved: frozenset[int]) -> _Spans:
    """`reserved` tags carry no payload of their own: it is under the next tag that is free."""
    spans = []
    for bucket in range(tags.ATTAINED_BUCKETS):
        ends = (u for u in range(bucket - 1, -1, -1) if tags.ATTAINED_FIRST + u not in reserved)
        u = next(ends, 0)
        begins = np.flatnonzero(EDGES[u] - _SPAN_PACKETS * packet_bytes >= EDGES)
        if begins.size:
            v = int(begins[-1])
            spans.append((v + 1, u + 1, float(EDGES[u] - EDGES[v] - packet_bytes)))
        else:
            spans.append((0, 0, 1.0))
    first, end, needed = zip(*spans, strict=True)
    return _Spans(np.asarray(first), np.asarray(end), np.asarray(needed))


def most_ends(payload: Floats, packet_bytes: int, reserved: Iterable[int] = ()) -> Floats:
    """Return the most ends in each bucket and beyond it that the payload confirms, shape (P, 40).

    `payload`: by bucket, shape (P, 40). `packet_bytes`: payload of the longest packet. `reserved`: tags of others.
    """
    spans = _spans(packet_bytes, frozenset(reserved))
    up_to = np.cumsum(payload, axis=1)
    up_to = np.concatenate([np.zeros((len(payload), 1)), up_to], axis=1)
    carried = up_to[:, spans.end] - up_to[:, spans.first]
    most = np.where(spans.end > 0, carried / spans.needed_bytes + 1, np.inf)
    # A flow that ends beyond a later edge has passed this one, too.
    return np.asarray(np.maximum.accumulate(most[:, ::-1], axis=1)[:, ::-1])


def confirmed_sizes(shown: Floats, packet_bytes: int, reserved: Iterable[int] = ()) -> Floats:
    """Return the flows by bucket that payload shows, without those so small that ends need none, shape (P, 40)."""
    return np.asarray(np.where(_spans(packet_bytes, frozenset(reserved)).end > 0, shown, 0.0))


def believed_ends(ends: npt.NDArray[np.int64], most: Floats) -> Floats:
    """Return the ends by group and bucket that the payload confirms, shape (P, G, 40).

    What exceeds `most` in a bucket and beyond it is dropped: a false end says nothing about any size.
    """
    up_to = np.cumsum(ends, axis=2)
    before, total = up_to - ends, up_to[:, :, -1:]
    if (total - before <= most[:, None, :]).all():
        return ends.astype(float)
    with_total = np.concatenate([most[:, None, :] + before, total], axis=2)
    # kept(k) = min(kept(k + 1) + ends(k), most(k)), so kept(k) + before(k) is a minimum over all later buckets
    kept = np.minimum.accumulate(with_total[:, :, ::-1], axis=2)[:, :, ::-1]
    kept[:, :, :-1] -= before
    kept[:, :, -1] = 0.0
    return np.asarray(-np.diff(kept, axis=2))


def in_company(counts: Floats) -> Floats:
    """Return the sum over groups in which no group of hosts counts more than all others together.

    `counts`: shape (P, G, …); the result has no axis of groups.
    """
    total = counts.sum(axis=1)
    largest = counts[:, TRUNKS + 1]
    # Quicker than a maximum over an axis that is not the last.
    for group in range(TRUNKS + 2, counts.shape[1]):
        largest = np.maximum(largest, counts[:, group])
    return np.asarray(np.minimum(total, 2 * (total - largest)))


def sizes_in_company(ends: Floats, shown: Floats, least: int) -> Floats:
    """Return the ends by bucket, shape (P, 40), with the shares that follow from rule 2 and the same total.

    `ends`: by group and bucket, shape (P, G, 40). `shown`: by `confirmed_sizes`, shape (P, 40).
    """
    has = has_company(ends, least)
    if not has.any():
        return np.asarray(ends.sum(axis=1))
    up_to, shown_up_to = np.cumsum(ends, axis=2), np.cumsum(shown, axis=1)
    below = _confirmed(up_to, shown_up_to)
    above = _confirmed(up_to[:, :, -1:] - up_to, shown_up_to[:, -1:] - shown_up_to)
    total = up_to[:, :, -1].sum(axis=1)
    share = below / np.maximum(below + above, 1e-9)
    trimmed = np.maximum(np.diff(share, axis=1, prepend=0.0), 0.0) * total[:, None]
    return np.asarray(np.where(has[:, None], trimmed, ends.sum(axis=1)))


def _confirmed(counts: Floats, shown: Floats) -> Floats:
    """Return how many of the ends on one side count, by company or by payload."""
    return np.asarray(np.maximum(in_company(counts), np.minimum(counts.sum(axis=1), shown)))


def has_company(ends: Floats, least: int) -> npt.NDArray[np.bool_]:
    """Return whether at least `least` ends remain without the two largest groups of hosts, shape (P,)."""
    counts = ends.sum(axis=2)
    two_largest = np.sort(counts[:, TRUNKS + 1 :], axis=1)[:, -2:].sum(axis=1)
    return np.asarray(counts.sum(axis=1) - two_largest >= least)
