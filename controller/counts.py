# SPDX-License-Identifier: Apache-2.0
"""What a switch has counted, as data. `openflow/` reads it from replies.

All counters are cumulative. Bytes are of frames, headers included.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sluice.policy import tags

Ints: TypeAlias = npt.NDArray[np.int64]


class CounterReply(NamedTuple):
    """The counters of one reply by port and tag, one row for each requested port."""

    values: Ints
    """Shape (P, kinds, codes): packets and bytes, or packets by group of ingress ports."""
    reported: npt.NDArray[np.bool_]
    """Whether the reply has an entry of the port, shape (P,)."""
    entries: int
    """Entries of the reply, those of other ports included."""


@dataclass(frozen=True)
class QueueCounts:
    """Transmitted bytes and packets of one port, by queue."""

    size_bytes: tuple[int, ...]
    packets: tuple[int, ...]


@dataclass
class FlowCounts:
    """Counters by tag of one flow of a watched port."""

    port: int
    name: str
    """ "TCP 10.0.0.2:40000 > 10.0.0.1:80"."""
    age_s: float = 0.0
    """Age of the oldest rule that counts the flow."""
    by_tag: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Tag → (packets, bytes)."""

    @property
    def size_bytes(self) -> int:
        return sum(size_bytes for _, size_bytes in self.by_tag.values())

    def as_array(self) -> Ints:
        """Return packets and bytes by tag, shape (2, 62)."""
        counts = np.zeros((2, tags.TAG_COUNT), np.int64)
        for tag, packets_and_bytes in self.by_tag.items():
            counts[:, tag] = packets_and_bytes
        return counts


class LearnedFlows(NamedTuple):
    """The flows of all watched ports of a switch."""

    flows: list[FlowCounts]
    entries: int
    """Entries of the reply: one for each flow and tag."""
