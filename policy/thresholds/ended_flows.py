# SPDX-License-Identifier: Apache-2.0
"""The sizes of ended flows as far as a port believes them. A hostile host can send FINs with any tag, or tiny flows.

Two rules limit what one ingress port can change. They need the ends by group of ingress ports
(policy/network/graph.py).

1. Payload. A flow that ends beyond the edge e_u has sent the bytes between the edges e_v and e_u through the port:

       N(> e_u)  <=  payload under the tags of (e_v, e_u] / (e_u - e_v - packet) + 1

   `packet` is the longest one: all of it has one tag. v is the largest one with e_u - e_v >= 4 packets. So without
   payload of its own, a group ends at most 5/3 as many flows beyond e_u as honest flows of the port pass e_v, and one
   more. This one stands for a flow that sent these bytes before the window began. The rule holds for each group by
   itself, so forged ends take no room from honest ones.

2. Company. Let f_g be the ends of group g up to an edge, F their sum, and X the flows whose payload stops up to there
   (policy/thresholds/port_traffic.py). X leaves out the sizes that need no payload by rule 1, because little payload
   costs little. Let r_g, R and S be the same beyond the edge. No group counts more than all others together, unless
   payload shows as many flows. Only the largest group can, so

       A = max(min(F, 2 (F - max f_g)), min(F, X))          share of flows up to the edge = A / (A + B)
       B = max(min(R, 2 (R - max r_g)), min(R, S))

   Trunks carry many hosts: they count among the others, and are never the largest. The rule needs at least `least`
   ends without the two largest groups. Otherwise the share is F / (F + R), as without the rule.

The bound: with any number of ends without payload, one group brings A at most to 2 F of the other groups, or to X, and
B to 2 R or to S. It cannot lower them. So where no other group exceeds the rest of them, the odds A / B change by a
factor of 2 at most. A percentile of 10 % becomes one between 5.3 % and 18.2 % of the others' flows, and 50 % one
between 33 % and 67 %. Payload shows honest flows on both sides, so X and S are near F and R. With a share x of all
ends, a group adds at most this share to A + B, so a part p becomes at least (p - x) / (1 - x), at most p / (1 - x).

The method is this project's own. Trimming the largest contribution is a standard step of robust statistics.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.policy import tags
from sluice.policy.network.graph import TRUNKS

Floats = npt.NDArray[np.float64]

_EDGES: Floats = np.asarray(tags.EDGES_BYTES, np.float64)
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
        begins = np.flatnonzero(_EDGES[u] - _SPAN_PACKETS * packet_bytes >= _EDGES)
        if begins.size:
            v = int(begins[-1])
            spans.append((v + 1, u + 1, float(_EDGES[u] - _EDGES[v] - packet_bytes)))
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
    for group in range(
        TRUNKS + 2, counts.shape[1]
    ):  # quicker than a maximum over an axis that is not the last
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
