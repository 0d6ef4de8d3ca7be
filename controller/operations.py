# SPDX-License-Identifier: Apache-2.0
"""The operations that `state.py` chooses for a switch and `session.py` carries out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sluice.controller.changes import Changes, Remap


@dataclass(frozen=True)
class ReadRules:
    """Read all rules and groups."""


@dataclass(frozen=True)
class Change:
    """Make these changes in one atomic bundle and wait for the barrier."""

    changes: Changes | Remap


@dataclass(frozen=True)
class PollCarried:
    """Read packets and bytes by egress port and tag. `PollCompleted` follows at once."""


@dataclass(frozen=True)
class PollCompleted:
    """Read the counters of completed flows."""


@dataclass(frozen=True)
class PollQueues:
    """Read the queue statistics."""


@dataclass(frozen=True)
class PollIngress:
    """Read packets and bytes by edge port and tag."""

    all_tags: bool
    """False: only tags below LOW_TAGS."""


@dataclass(frozen=True)
class PollLearned:
    """Read the counters of the flows of watched ports."""


@dataclass(frozen=True)
class PollHosts:
    """Read which hosts are behind the edge ports."""


Operation: TypeAlias = (
    ReadRules | Change | PollCarried | PollCompleted | PollQueues | PollIngress | PollLearned | PollHosts
)
