# SPDX-License-Identifier: Apache-2.0
"""The tag, which a host writes into the DSCP of every packet. A switch knows nothing else about a flow.

| DSCP  | meaning                                                                        |
|-------|--------------------------------------------------------------------------------|
| 0     | untagged: a host without an agent; the port's default queue                    |
| 1–40  | attained service: bytes that the flow had sent before this packet, log buckets |
| 41–56 | deadline flow: urgency s in 16 steps, log scale, s = 1 is an edge              |
| 57–60 | known size (Karuna's type 2): up to 100 KB, 1 MB, 10 MB, more                  |
| 61    | suspended or background: quenched, or a demoted host                           |

Buckets are closed on the right: tag 1+k means that the flow had sent a bytes before the packet, with
EDGES_BYTES[k-1] < a <= EDGES_BYTES[k]. Tag 1 begins at zero, and tag 40 has no upper end. So a flow "has sent
more than" a demotion threshold exactly if its tag is above the threshold's tag. A threshold is always an edge.

This module is the only source of these numbers. `make gen` writes the C header dataplane/laws/tags.gen.h from it, and
`make check` fails if the header is stale.
"""

from bisect import bisect_left
from collections.abc import Sequence

UNTAGGED = 0
ATTAINED_FIRST, ATTAINED_LAST = 1, 40
URGENCY_FIRST, URGENCY_LAST = 41, 56
KNOWN_SIZE_FIRST, KNOWN_SIZE_LAST = 57, 60
BACKGROUND = 61
TAG_COUNT = 62
"""Tags are 0 … TAG_COUNT-1. Switches treat DSCP 62 and 63 as untagged."""

ATTAINED_BUCKETS = ATTAINED_LAST - ATTAINED_FIRST + 1
URGENCY_STEPS = URGENCY_LAST - URGENCY_FIRST + 1

BURST_BYTES = 14_600
"""Largest payload of a flow that can leave under tag t beyond EDGE(t): ten segments, a first window (RFC 6928)."""

EDGES_BYTES: tuple[int, ...] = tuple(round(1000 * 10 ** (k / 8)) for k in range(ATTAINED_BUCKETS))
"""Upper edges of the attained-service buckets: 10^(k/8) KB, k = 0 … 39 (1 KB, 1.33 KB, … 10 KB, … 75 MB)."""

URGENCY_ONE = 1 << 16
"""Fixed-point one of an urgency: Q16."""

URGENCY_EDGES_Q16: tuple[int, ...] = tuple(
    round(URGENCY_ONE * 2 ** ((step - 7) / 2)) for step in range(URGENCY_STEPS - 1)
)
"""Upper edges of the urgency steps: half-octaves from 2^-3.5 to 2^3.5. s = 1 is the edge of step 7."""

KNOWN_SIZE_EDGES_BYTES: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
"""Upper edges of the known-size classes, without the last class, which has none."""

DEFAULT_IDLE_GAP_NS = 10_000_000
"""A flow is one direction of a 5-tuple between idle gaps of this length."""


def attained_tag(attained_bytes: int) -> int:
    """Return the tag of a packet whose flow had sent `attained_bytes` before it."""
    return ATTAINED_FIRST + min(bisect_left(EDGES_BYTES, attained_bytes), ATTAINED_BUCKETS - 1)


def urgency_tag(urgency_q16: int) -> int:
    """Return the tag of a deadline flow of urgency s (Q16). Larger tags are more urgent."""
    return URGENCY_FIRST + bisect_left(URGENCY_EDGES_Q16, urgency_q16)


def known_size_tag(size_bytes: int) -> int:
    """Return the tag of a flow whose program declared its size."""
    return KNOWN_SIZE_FIRST + bisect_left(KNOWN_SIZE_EDGES_BYTES, size_bytes)


def edge_index(threshold_bytes: int) -> int:
    """Return the index of the largest edge <= threshold, or 0. So no flow stays in the first queue too long."""
    return max(0, bisect_left(EDGES_BYTES, threshold_bytes + 1) - 1)


def snap_to_edge(threshold_bytes: int) -> int:
    """Return the edge that a port installs for a threshold in bytes."""
    return EDGES_BYTES[edge_index(threshold_bytes)]


def _c_array(ctype: str, name: str, values: Sequence[int]) -> str:
    rows = [", ".join(str(v) for v in values[i : i + 10]) for i in range(0, len(values), 10)]
    body = ",\n\t".join(rows)
    return f"static const {ctype} {name}[{len(values)}] = {{\n\t{body}\n}};"


def longest_packet_bytes(burst_bytes: int) -> int:
    """Return the payload of the longest packet, which has one tag, of a host with such bursts.

    From BURST_BYTES on, it is what Linux builds by default.
    """
    return burst_bytes if burst_bytes < BURST_BYTES else max(burst_bytes, 65_536)


def c_header() -> str:
    """Return the C header of this module's constants."""
    constants = {
        "SL_TAG_UNTAGGED": UNTAGGED,
        "SL_TAG_ATTAINED_FIRST": ATTAINED_FIRST,
        "SL_TAG_ATTAINED_LAST": ATTAINED_LAST,
        "SL_TAG_URGENCY_FIRST": URGENCY_FIRST,
        "SL_TAG_URGENCY_LAST": URGENCY_LAST,
        "SL_TAG_KNOWN_SIZE_FIRST": KNOWN_SIZE_FIRST,
        "SL_TAG_KNOWN_SIZE_LAST": KNOWN_SIZE_LAST,
        "SL_TAG_BACKGROUND": BACKGROUND,
        "SL_TAG_COUNT": TAG_COUNT,
        "SL_TAG_BURST_BYTES": BURST_BYTES,
        "SL_ATTAINED_BUCKETS": ATTAINED_BUCKETS,
        "SL_URGENCY_STEPS": URGENCY_STEPS,
        "SL_KNOWN_SIZE_CLASSES": len(KNOWN_SIZE_EDGES_BYTES) + 1,
        "SL_URGENCY_ONE_Q16": URGENCY_ONE,
        "SL_DEFAULT_IDLE_GAP_NS": DEFAULT_IDLE_GAP_NS,
    }
    lines = [
        "/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */",
        "/* Generated from policy/tags.py by `make gen`: change that file, not this one. */",
        "#ifndef SLUICE_TAGS_GEN_H",
        "#define SLUICE_TAGS_GEN_H",
        "",
        *(f"#define {name} {value}" for name, value in constants.items()),
        "",
        "/* Upper edges in bytes of the attained-service buckets; each bucket is closed on the right. */",
        _c_array("unsigned int", "sl_attained_edges_bytes", EDGES_BYTES),
        "",
        "/* Upper edges of the urgency steps, Q16. */",
        _c_array("unsigned int", "sl_urgency_edges_q16", URGENCY_EDGES_Q16),
        "",
        "/* Largest sizes in bytes of the known-size classes but the last. */",
        _c_array("unsigned int", "sl_known_size_edges_bytes", KNOWN_SIZE_EDGES_BYTES),
        "",
        "#endif",
        "",
    ]
    return "\n".join(lines)
