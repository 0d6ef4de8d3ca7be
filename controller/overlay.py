# SPDX-License-Identifier: Apache-2.0
"""The interface of what lays rules of its own over a switch's pipeline, by counters of its own. Pure.

A switch's state has one overlay. It tells the overlay what it adopts and what the switch has acknowledged, and asks it
for changes and polls when none of its own is due. `RuleOverlay` adds nothing. `policing/` adds what a switch does with
hosts that send false tags.
"""

from dataclasses import dataclass

from sluice.controller.changes import Changes
from sluice.controller.rules import SwitchRules
from sluice.controller.tables import Table
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy


@dataclass(frozen=True)
class PollOverlay:
    """Read the counters of a table for the overlay."""

    table: Table
    tags_below: int | None = None
    """Only the counters of tags below this power of two; None: all."""


class RuleOverlay:
    """The overlay without rules and polls."""

    def adopt(self, topology: Topology, policy: Policy, tag_burst_bytes: int) -> None:
        """Adopt another policy, other hosts and paths. The ports of the network are the same."""

    def connected(self, now_ns: int) -> None:
        """Begin with a new connection: the counters of the switch are unknown."""

    def set_meters(self, *, available: bool) -> None:
        """Take whether rules may name meters. The state says so before each change of all rules."""

    def begin_all(self, pipeline: SwitchRules) -> SwitchRules:
        """Begin a change of all rules. Returns those of the pipeline with those of the overlay."""
        return pipeline

    @property
    def outdated(self) -> bool:
        """Whether the rules in force differ from the desired ones."""
        return False

    def begin_differences(self) -> Changes:
        """Begin a change of the rules that differ. Returns it."""
        return Changes()

    def applied(self) -> None:
        """Take the acknowledgement of a change, whether the overlay has begun it or not."""

    def next_poll(self, now_ns: int) -> PollOverlay | None:
        """Return the most urgent poll; None if none is due."""
        return None

    def observe(self, now_ns: int, poll: PollOverlay, statistics: bytes) -> int:
        """Take the flow statistics that answer a poll. Returns the number of entries."""
        return 0
