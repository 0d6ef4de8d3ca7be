# SPDX-License-Identifier: Apache-2.0
"""What a switch port does apart from its queue map: marking, buffer, shares of the link, flow queues."""

from __future__ import annotations

from dataclasses import dataclass, fields

from policy.entries import entry
from policy.kinds import ListOf, Number, Whole
from policy.marking import MAX_BACKLOG_BYTES, PortMarking
from policy.units import NS_PER_S


@dataclass(frozen=True)
class PortBehaviour(PortMarking):
    """The same for every port, except for the marking between switches."""

    core_mark_bytes: int | None = entry(
        Whole(1, MAX_BACKLOG_BYTES, "bytes"),
        "mark_bytes of the ports between switches. Null: as everywhere.",
        default=None,
    )
    shares: tuple[float, ...] | None = entry(
        ListOf(Number(0, 1), shortest=1, longest=8),
        "Part of the link that each queue is sure of. Null: strict priorities.",
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

    def marking(self, *, edge: bool) -> PortMarking:
        """Of a port to a host (`edge`), or of one to another switch."""
        own = {field.name: getattr(self, field.name) for field in fields(PortMarking)}
        if not edge and self.core_mark_bytes is not None:
            own["mark_bytes"] = self.core_mark_bytes
        return PortMarking(**own)
