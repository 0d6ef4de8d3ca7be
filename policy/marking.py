# SPDX-License-Identifier: Apache-2.0
"""What a port marks by and how much it buffers: the part of a policy that the port program carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

DEFAULT_BUFFER_BYTES = 360_000
PHANTOM_PERCENT = 95
"""A phantom queue drains at this share of the link's rate (gamma; HULL, Alizadeh et al., NSDI 2012)."""


@dataclass(frozen=True)
class PortMarking:
    """The same for every port. The names are those of heartbeat answers and of dataplane.port.PortSettings."""

    mark_bytes: int | None = None
    """K, or with `mark_max_bytes` the lower end of the ramp; None: the backlog marks nothing."""
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    mark_max_bytes: int | None = None
    """Upper end of the ramp; None: one threshold."""
    phantom_mark_bytes: int | None = None
    """Threshold of the phantom queue; None: there is none."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PortMarking:
        """Of an answer or a file that has these names among others; what it lacks is None, but for the buffer."""
        return cls(**{f.name: document[f.name] for f in fields(cls) if f.name in document})
