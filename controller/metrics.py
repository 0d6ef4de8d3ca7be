# SPDX-License-Identifier: Apache-2.0
"""What the controller counts of its own work, on its way to the store's totals.

The controller serves nothing: its numbers are rows, as all that it knows, and the web process has them in /metrics. So
a controller that was restarted, or took over from another one, goes on counting where the last one stopped.
"""

from __future__ import annotations

from store.totals import (
    ENTRIES_DECODED,
    HOSTS_DEMOTED,
    LOOP_SECONDS,
    RULES_CHANGED,
    SWITCH_CONNECTS,
    Tally,
)


class ControllerMetrics:
    """Of all switches together. Belongs to the event-loop thread, which hands `tally` over to the recorder."""

    def __init__(self) -> None:
        self.tally = Tally()

    def connected(self, switch: str) -> None:
        self.tally.count(SWITCH_CONNECTS, switch=switch)

    def demoted(self, host: str) -> None:
        self.tally.count(HOSTS_DEMOTED, host=host)


class SwitchMetrics:
    """One conversation's: how long it takes from asking for counters to rules that follow from them."""

    def __init__(self, everybody: ControllerMetrics) -> None:
        self._tally = everybody.tally
        self._asked_ns: int | None = None

    def decoded(self, entries: int) -> None:
        """A flow statistics reply of so many entries."""
        self._tally.count(ENTRIES_DECODED, entries)

    def counters_in(self, asked_ns: int) -> None:
        """The counters of completed flows are here; they were asked for at that time."""
        self._asked_ns = asked_ns

    def rules_changed(self, count: int) -> None:
        """The switch has acknowledged so many changes."""
        self._tally.count(RULES_CHANGED, count)

    def stands(self, now_ns: int) -> None:
        """No rule is left to change."""
        if self._asked_ns is not None:
            self._tally.observe(LOOP_SECONDS, [(now_ns - self._asked_ns) / 1e9])
            self._asked_ns = None
