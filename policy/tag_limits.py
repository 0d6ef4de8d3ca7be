# SPDX-License-Identifier: Apache-2.0
"""Do a host's tags tell the truth? What honest traffic can have sent under each tag, and the first tag that says no.

A tag of attained service is a promise: a packet under tag t begins within the first EDGE(t) bytes of its flow. So the
packets of one flow under tags up to t carry at most EDGE(t) bytes and one burst (what leaves a host under one tag: a
segment, or more with segmentation offload); and one direction of a 5-tuple begins a new flow only after an idle gap
(dataplane/laws/tag.h): within `duration` it can have had duration / gap + 2, the first and the last one cut off. Twice
that leaves room for retransmissions, which carry the tag of their place. Whoever sends more lies. A known-size class is
the same promise. Urgency is no promise about bytes: nothing is said here of deadline flows, nor of untagged ones.

    breach(payload, duration_s=0.5, idle_gap_ms=10)                # of one direction of a 5-tuple: proof
    suspicion(payload, rates_bps, duration_s=0.5, idle_gap_ms=10)  # of ports, many connections each: may be

A port with many honest connections may be suspected, too, since the connections on it are not counted; a port with one
whose lie is worth it always is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policy import tags
from policy.framing import MSS_BYTES

MOST_HEADER_BYTES = 14 + 40 + 60
"""Ethernet, IPv6, and TCP with all the options that there is room for."""
RETRANSMITTED = 2
"""How often an honest flow sends its bytes, at most, in the mean over a tag."""

NO_TRIFLE = 0.05
"""Of a link."""

ByTag = npt.NDArray[np.float64]
"""Shape (62,); of P ports (P, 62)."""


@dataclass(frozen=True)
class Breach:
    """More was sent under a tag than honest flows can have."""

    tag: int
    """The lowest one."""
    sent_bytes: float
    """Payload under the tags up to this one (attained service), or under this one (known size)."""
    limit_bytes: float


def payload_bytes(packets: npt.ArrayLike, frame_bytes: npt.ArrayLike) -> ByTag:
    """At least so much payload was in these frames: what goes into `breach`. Acknowledgements have none."""
    least = np.asarray(frame_bytes, float) - MOST_HEADER_BYTES * np.asarray(packets, float)
    payload: ByTag = np.maximum(least, 0.0)
    return payload


def limits_bytes(duration_s: float, idle_gap_ms: int, burst_bytes: int = MSS_BYTES) -> ByTag:
    """Most payload of one direction of a 5-tuple within `duration_s`, by tag; infinite where nothing is promised.

    Under the tags up to t where t is of attained service, under t itself where it is a class of known sizes.
    """
    flows = 2 + int(duration_s * 1000 / idle_gap_ms)
    of_flow = np.full(tags.TAG_COUNT, np.inf)
    of_flow[tags.ATTAINED_FIRST : tags.ATTAINED_LAST] = tags.EDGES_BYTES[:-1]  # the last bucket has no end
    of_flow[tags.KNOWN_SIZE_FIRST : tags.KNOWN_SIZE_LAST] = tags.KNOWN_SIZE_EDGES_BYTES
    return RETRANSMITTED * flows * (of_flow + burst_bytes)


def breach(
    payload: ByTag, duration_s: float, idle_gap_ms: int, burst_bytes: int = MSS_BYTES
) -> Breach | None:
    """The first tag under which more was sent within `duration_s` than is possible; None when all may be true."""
    sent, limits = _under_limits(payload), limits_bytes(duration_s, idle_gap_ms, burst_bytes)
    over = np.flatnonzero(sent > limits)
    if not over.size:
        return None
    return Breach(int(over[0]), float(sent[over[0]]), float(limits[over[0]]))


def suspicion(
    payload: ByTag,
    rates_bps: npt.NDArray[np.float64],
    duration_s: float,
    idle_gap_ms: int,
    burst_bytes: int = MSS_BYTES,
) -> npt.NDArray[np.float64]:
    """For P ports, payload of shape (P, 62): how many times more was sent than one connection can have.

    Up to 1 there is no suspicion. A twentieth of the link is believed in any case: by less, little is gained.
    """
    trifle = NO_TRIFLE * np.asarray(rates_bps, float) / 8 * duration_s
    limits = limits_bytes(duration_s, idle_gap_ms, burst_bytes)
    return np.asarray((_under_limits(payload) / np.maximum(limits, trifle[:, None])).max(axis=-1))


def _under_limits(payload: ByTag) -> ByTag:
    """What each limit is about."""
    sent = np.array(payload, float)
    attained = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
    sent[..., attained] = np.cumsum(sent[..., attained], axis=-1)
    return sent
