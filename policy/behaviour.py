# SPDX-License-Identifier: Apache-2.0
"""What a switch port does but for its map: marking, buffer, shares of the link, a queue for each flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from policy.marking import PortMarking


@dataclass(frozen=True)
class PortBehaviour(PortMarking):
    """The same for every port, but for the marking between switches. The names are those of heartbeat answers."""

    core_mark_bytes: int | None = None
    """`mark_bytes` of the ports between switches; None: as everywhere."""
    shares: tuple[float, ...] | None = None
    """The part of the link that each queue is sure of; the rest goes top down. None: all of it."""
    sub_queues: int | None = None
    """Flow queues in each priority (dataplane/laws/dqs.h); None: a priority is one queue."""
    release_ns: int | None = None
    """For so long an empty flow queue stays its flow's."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PortBehaviour:
        """Of an answer or a file that has these names among others; what it lacks is None, but for the buffer."""
        found = cls(**{f.name: document[f.name] for f in fields(cls) if f.name in document})
        return replace(found, shares=None if found.shares is None else tuple(found.shares))

    def marking(self, *, edge: bool) -> PortMarking:
        """Of a port to a host (`edge`), or of one to another switch."""
        own = {f.name: getattr(self, f.name) for f in fields(PortMarking)}
        if not edge and self.core_mark_bytes is not None:
            own["mark_bytes"] = self.core_mark_bytes
        return PortMarking(**own)
