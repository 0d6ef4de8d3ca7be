# SPDX-License-Identifier: Apache-2.0
"""The settings of a switch port in addition to its queue map: marking, buffer, shares, flow queues."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sluice.policy.entries import entry
from sluice.policy.kinds import ListOf, Number, Whole
from sluice.policy.marking import MAX_BACKLOG_BYTES, PortMarking
from sluice.policy.overrides import PORT_NAMES
from sluice.policy.units import NS_PER_S


@dataclass(frozen=True)
class PortBehaviour(PortMarking):
    """The settings of all ports. Only the marking of core ports may differ (`core_mark_bytes`)."""

    core_mark_bytes: int | None = entry(
        Whole(1, MAX_BACKLOG_BYTES, "bytes"),
        "mark_bytes of the ports between switches. Null: the same as at the edge.",
        default=None,
    )
    shares: tuple[float, ...] | None = entry(
        ListOf(Number(0, 1), shortest=1, longest=8),
        "Guaranteed part of the link for each queue. Null: strict priorities.",
        default=None,
    )
    sub_queues: int | None = entry(
        Whole(1, 32),
        "Flow queues in each priority (dataplane/laws/dqs.h). Null: a priority is one queue.",
        default=None,
    )
    release_ns: int | None = entry(
        Whole(0, 60 * NS_PER_S, "ns"),
        "How long an empty flow queue stays reserved for its flow.",
        default=None,
    )

    acts_at: tuple[str, ...] = entry(
        PORT_NAMES,
        'Ports at which this holds: "s1:2", "s1:*" or "*". Other ports neither mark nor drop.',
        default=("*",),
    )

    untagged_queue: int = entry(
        Whole(0, 7), "Queue of packets without a tag. Frames of the operator's VLANs use it, too.", default=0
    )

    def marking(self, *, edge: bool) -> PortMarking:
        """Marking of a port to a host (`edge`), or of a port to another switch."""
        own = {field.name: getattr(self, field.name) for field in fields(PortMarking)}
        if not edge and self.core_mark_bytes is not None:
            own["mark_bytes"] = self.core_mark_bytes
        return PortMarking(**own)
