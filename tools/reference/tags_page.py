# SPDX-License-Identifier: Apache-2.0
"""docs/reference/tags-and-pipeline.md: the values of the tag, and the tables of a switch."""

from __future__ import annotations

from sluice.controller.tables import PIPELINE
from sluice.policy import tags
from sluice.policy.units import format_bytes
from tools.reference.markdown import code, page, table

_INTRODUCTION = """\
A host writes the tag into the six bits of the DSCP. `policy/tags.py` is the one source of these numbers, and `make gen`
writes the C header of the data plane from it. [The tag](../explanation/tag.md) explains how hosts choose it."""

_ATTAINED = """\
The tag says how many bytes the flow had sent before the packet. A bucket contains its upper edge. Therefore a flow is
demoted when it has sent *more than* the threshold. The upper edges are 10^(k/8) KB, and bucket 40 has none."""

_URGENCY = """\
Urgency is 1 when half of the time to the deadline is over. Larger tags are more urgent. The steps are half octaves."""

_PIPELINE = """\
`controller/pipeline.py` holds every rule of a switch as data. The pipeline's metadata carries the egress port (bits 0
to 15), the tag (bits 16 to 23) and the group of the ingress port (bits 24 to 26) from table to table. A packet enters
at the first table."""


def text() -> str:
    """The page."""
    return page(
        "Tags and pipeline",
        "For developers who read packets or the rules of a switch.",
        _INTRODUCTION,
        "## Ranges of the tag",
        _ranges(),
        "## Attained service",
        _ATTAINED,
        _attained(),
        "## Urgency",
        _URGENCY,
        _urgency(),
        "## Tables of a switch",
        _PIPELINE,
        _pipeline(),
    )


def _ranges() -> str:
    sizes = ", ".join(f"up to {format_bytes(edge)}" for edge in tags.KNOWN_SIZE_EDGES_BYTES)
    rows = [
        (
            str(tags.UNTAGGED),
            "untagged: a host without an agent. The policy names the queue (`untagged_queue`)",
        ),
        (f"{tags.ATTAINED_FIRST}–{tags.ATTAINED_LAST}", "attained service: bytes sent before this packet"),
        (f"{tags.URGENCY_FIRST}–{tags.URGENCY_LAST}", "deadline flow: urgency in 16 steps"),
        (f"{tags.KNOWN_SIZE_FIRST}–{tags.KNOWN_SIZE_LAST}", f"known size: {sizes}, more"),
        (str(tags.BACKGROUND), "background: a suspended or killed flow, or a demoted host"),
        (f"{tags.TAG_COUNT}–63", "not used: the port treats them as untagged"),
    ]
    return table(("DSCP", "meaning"), rows)


def _attained() -> str:
    edges = [format_bytes(edge) for edge in tags.EDGES_BYTES[:-1]] + ["–"]
    rows = []
    for first in range(0, tags.ATTAINED_BUCKETS, 8):
        part = edges[first : first + 8]
        label = f"{tags.ATTAINED_FIRST + first}–{tags.ATTAINED_FIRST + first + len(part) - 1}"
        rows.append((label, *part))
    return table(("tags", *(f"edge {n}" for n in range(1, 9))), rows)


def _urgency() -> str:
    edges = [edge / tags.URGENCY_ONE for edge in tags.URGENCY_EDGES_Q16]
    rows = [
        (str(tags.URGENCY_FIRST + step), f"{edge:.3g}" if edge is not None else "–")
        for step, edge in enumerate([*edges, None])
    ]
    return table(("tag", "urgency up to"), rows)


def _pipeline() -> str:
    rows = [
        (
            f"{spec.table.value} {spec.table.name.lower()}",
            ", ".join(map(code, spec.match)),
            spec.purpose,
            spec.miss,
        )
        for spec in PIPELINE
    ]
    return table(("table", "matches", "purpose", "nothing matches"), rows)
