# SPDX-License-Identifier: Apache-2.0
"""Limits on the payload that correct tags allow, and the check of measured traffic against them.

A tag of attained service is a promise: a packet with tag t begins within the first EDGE(t) bytes of its flow.
So the payload of one direction of a 5-tuple within a time `duration` is bounded:

    payload under tags up to t  <=  2 * flows * (EDGE(t) + burst)
    flows                        =  duration / idle gap + 2

- One flow sends at most EDGE(t) bytes and one burst under tags up to t. A burst is the payload that leaves a host
  under one tag: one segment, or more with segmentation offload.
- A new flow begins only after an idle gap (dataplane/laws/tag.h). The 2 flows more are the first and the last one,
  which are only partly within the duration.
- The factor 2 leaves room for retransmissions, which carry the tag of their place in the flow.

A known-size class makes the same promise for its own tag. Urgency promises nothing about bytes, so deadline flows have
no limit here. Neither have untagged flows.

    breach(payload, duration_s=0.5, idle_gap_ms=10)                # one direction of a 5-tuple: a proof
    suspicion(payload, rates_bps, duration_s=0.5, idle_gap_ms=10)  # ports with many connections each: no proof

`suspicion` does not count the connections of a port, so it may also suspect a port with many honest connections. If
a host gains something from wrong tags, its port is always suspected.

The treatment of an edge port follows from its host's tags. Suspicion starts a check; a proof demotes the host.

            suspected                          proven
    free ─────────────▶ watched ─────────────────────────────▶ demoted ⟲ proven
      ◀─ WATCH_NS without suspicion ─┘ ◀─ a term without proof ─┘

Suspicion comes from the port's counters and proves nothing: many flows with correct tags can look
like one with wrong tags (policy/policing/limits.py). While a port is watched, the switch counts its
flows one by one. If one flow sent more than its tags allow, that is proof.

A demoted host gets little bandwidth, so it also sends few wrong tags. Therefore the term doubles
with each offence. A host that sends wrong tags whenever it is restored is demoted nearly always.
Correct tags for FORGET_NS reset the term.

Pure: the time is an argument, of any clock that does not jump.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from sluice.policy import tags
from sluice.policy.schemes.ports import last_attained
from sluice.policy.units import MSS_BYTES, NS_PER_S

MAX_HEADER_BYTES = 14 + 40 + 60
"""Ethernet, IPv6, and TCP with the largest options."""
MAX_TRANSMISSIONS = 2
"""How often an honest flow sends each byte, as a mean over the bytes of one tag."""

NEGLIGIBLE_SHARE = 0.05
"""Share of a link. Wrong tags on less traffic gain too little to matter."""

ByTag = npt.NDArray[np.float64]
"""Shape (62,); of P ports (P, 62)."""


@dataclass(frozen=True)
class Breach:
    """A flow sent more under a tag than an honest flow can send."""

    tag: int
    """The lowest tag whose limit is exceeded."""
    sent_bytes: float
    """Payload under all tags up to this one (attained service), or under this tag (known size)."""
    limit_bytes: float


def payload_bytes(packets: npt.ArrayLike, frame_bytes: npt.ArrayLike) -> ByTag:
    """The least payload that these frames can hold, as `breach` takes it. Acknowledgements hold none."""
    least = np.asarray(frame_bytes, float) - MAX_HEADER_BYTES * np.asarray(packets, float)
    payload: ByTag = np.maximum(least, 0.0)
    return payload


def limits_bytes(
    duration_s: float, idle_gap_ms: int, burst_bytes: int = MSS_BYTES, reserved: Collection[int] = ()
) -> ByTag:
    """Maximum payload of one direction of a 5-tuple within `duration_s`, by tag; infinite for a tag without limit.

    The limit of a tag of attained service holds for all tags up to it, that of a known-size class for its own tag.
    Payload under a `reserved` DSCP is no payload under a tag: the caller leaves it out.
    """
    flows = 2 + int(duration_s * 1000 / idle_gap_ms)
    of_flow = np.full(tags.TAG_COUNT, np.inf)
    of_flow[tags.ATTAINED_FIRST : tags.ATTAINED_LAST] = tags.EDGES_BYTES[
        :-1
    ]  # the last bucket has no upper edge
    of_flow[tags.KNOWN_SIZE_FIRST : tags.KNOWN_SIZE_LAST] = tags.KNOWN_SIZE_EDGES_BYTES
    of_flow[last_attained(reserved) : tags.ATTAINED_LAST] = np.inf
    if not set(reserved).isdisjoint(range(tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST + 1)):
        # A larger flow may then carry the tag of a smaller class.
        of_flow[tags.KNOWN_SIZE_FIRST : tags.KNOWN_SIZE_LAST] = np.inf
    return MAX_TRANSMISSIONS * flows * (of_flow + burst_bytes)


def breach(
    payload: ByTag,
    duration_s: float,
    idle_gap_ms: int,
    burst_bytes: int = MSS_BYTES,
    reserved: Collection[int] = (),
) -> Breach | None:
    """The lowest tag whose limit the payload within `duration_s` exceeds; None if it exceeds no limit."""
    sent = _limited_bytes(payload, reserved)
    limits = limits_bytes(duration_s, idle_gap_ms, burst_bytes, reserved)
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
    reserved: Collection[int] = (),
) -> npt.NDArray[np.float64]:
    """The largest ratio of payload to limit at each port, shape (P,). `payload` has shape (P, 62).

    The limits are those of one connection, and at least NEGLIGIBLE_SHARE of the link. A ratio up to 1 is no suspicion.
    """
    negligible = NEGLIGIBLE_SHARE * np.asarray(rates_bps, float) / 8 * duration_s
    limits = limits_bytes(duration_s, idle_gap_ms, burst_bytes, reserved)
    return np.asarray(
        (_limited_bytes(payload, reserved) / np.maximum(limits, negligible[:, None])).max(axis=1)
    )


def _limited_bytes(payload: ByTag, reserved: Collection[int]) -> ByTag:
    """The bytes that each tag's limit bounds: summed over the tags up to it for attained service."""
    sent = np.array(payload, float)
    sent[..., list(reserved)] = 0.0
    attained = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
    sent[..., attained] = np.cumsum(sent[..., attained], axis=-1)
    return sent


WATCH_NS = 5 * NS_PER_S
FIRST_TERM_NS = 5 * NS_PER_S
LONGEST_TERM_NS = 320 * NS_PER_S
FORGET_NS = 600 * NS_PER_S


class Treatment(Enum):
    FREE = auto()
    WATCHED = auto()
    """The switch counts its flows one by one. Its packets go to their usual queues."""
    DEMOTED = auto()
    """As WATCHED, and all packets are background traffic, with a limit on their rate."""


@dataclass(frozen=True)
class HostState:
    """The state of one port. Every method returns the state that follows."""

    treatment: Treatment = Treatment.FREE
    since_ns: int = 0
    """Time of the last suspicion while watched, otherwise of the last proof."""
    offences: int = 0
    """Number of demotions since the last reset."""

    @property
    def term_ns(self) -> int:
        """How long a demoted host must send correct tags before it is restored."""
        return min(FIRST_TERM_NS << max(0, self.offences - 1), LONGEST_TERM_NS)

    @property
    def term_s(self) -> float:
        return self.term_ns / NS_PER_S

    def suspected(self, now_ns: int) -> HostState:
        if self.treatment is Treatment.DEMOTED:
            return self
        return replace(self, treatment=Treatment.WATCHED, since_ns=now_ns)

    def released(self, now_ns: int) -> HostState:
        """Return the state of a port that is no longer watched, because others must be watched."""
        return replace(self, treatment=Treatment.FREE, since_ns=now_ns)

    def proven(self, now_ns: int) -> HostState:
        again = self.treatment is not Treatment.DEMOTED
        return HostState(Treatment.DEMOTED, now_ns, self.offences + again)

    def after(self, now_ns: int) -> HostState:
        """Return the state after the time since the last event."""
        quiet_ns = now_ns - self.since_ns
        match self.treatment:
            case Treatment.DEMOTED if quiet_ns >= self.term_ns:
                return replace(self, treatment=Treatment.WATCHED, since_ns=now_ns)
            case Treatment.WATCHED if quiet_ns >= WATCH_NS:
                return replace(self, treatment=Treatment.FREE, since_ns=now_ns)
            case Treatment.FREE if self.offences and quiet_ns >= FORGET_NS:
                return HostState()
            case _:
                return self

    def resumed(self, now_ns: int) -> HostState:
        """Return the state after a pause in which no check ran: the term starts again."""
        return replace(self, since_ns=now_ns)


@dataclass(frozen=True)
class Demoted:
    """The demotion of a host: it sent more than its tags allow, and is background traffic now."""

    port: str
    host: str
    flow: str
    """For example "TCP 10.0.0.2:40000 > 10.0.0.1:80"."""
    tag: int
    sent_bytes: int
    """Payload of the flow under the tags up to this one, or under this class of known sizes."""
    limit_bytes: int
    """The most that a flow with correct tags can send in that time."""
    duration_s: float
    """Upper bound of the time in which the flow sent this much."""
    offences: int
    term_s: float
    """The host is restored after this time without a new proof."""
    rate_bps: int | None = None
    """The most that the host may send. None: its switch or the policy sets no limit."""
