# SPDX-License-Identifier: Apache-2.0
"""What the controller counts of its own work, on the way to the store's totals.

The controller serves no port of its own: its numbers are rows, and the web process shows them in
/metrics. So a controller that restarts or takes over continues the counters of the one before it.
"""

from __future__ import annotations

from sluice.store.totals import (
    ENTRIES_DECODED,
    HOSTS_DEMOTED,
    LOOP_SECONDS,
    RULES_CHANGED,
    SWITCH_CONNECTS,
    Tally,
)


class ControllerMetrics:
    """Counters of all switches. They belong to the event-loop thread, as the sessions do."""

    def __init__(self) -> None:
        self.tally = Tally()

    def connected(self, switch: str) -> None:
        self.tally.count(SWITCH_CONNECTS, switch=switch)

    def demoted(self, host: str) -> None:
        self.tally.count(HOSTS_DEMOTED, host=host)


class SwitchMetrics:
    """Counters of one session, and how long its control loop takes.

    The loop begins with the request for counters and ends when the rules that follow are in force.
    """

    def __init__(self, controller: ControllerMetrics) -> None:
        self._tally = controller.tally
        self._requested_ns: int | None = None

    def decoded(self, entries: int) -> None:
        """Count the entries of a flow statistics reply."""
        self._tally.count(ENTRIES_DECODED, entries)

    def counters_received(self, requested_ns: int) -> None:
        """Begin a loop: the counters of completed flows have arrived."""
        self._requested_ns = requested_ns

    def rules_changed(self, count: int) -> None:
        """Count changes that the switch has acknowledged."""
        self._tally.count(RULES_CHANGED, count)

    def rules_settled(self, now_ns: int) -> None:
        """End the loop, if one runs, because no rule is left to change."""
        if self._requested_ns is not None:
            self._tally.observe(LOOP_SECONDS, [(now_ns - self._requested_ns) / 1e9])
            self._requested_ns = None
