# SPDX-License-Identifier: Apache-2.0
"""Alerts: what a rule found, and how the state of an alert follows from it.

    ok ──above the limit──▶ pending ──for as long as `for`──▶ firing ──below it for as long as `for`──▶ resolved ──▶ ok
                               └──below it──▶ ok

Times `now_s` are of a clock that never steps (store/ages.py). Epoch seconds are for people only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from sluice.policy.alert_rules import AlertRule

RESOLVED_S = 900.0
"""How long a resolved alert stays in the list."""
WRITE_EVERY_S = 5.0
"""The figures of an alert that stays in its state are stored this often."""

GONE = "the rule was removed, or what it watched is no longer there"


class State(StrEnum):
    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True)
class Finding:
    """What a rule found at one moment."""

    rule: AlertRule
    above: bool
    reason: str
    """The figure and its limit, in words."""
    remedy: str = ""
    subject: str = ""
    """The agent; empty for a rule with a single alert."""
    value: float | None = None
    """In the unit of the limit. None: nothing to compute it from."""
    flows: int | None = None
    """The number of flows in the window. None: the figure is not one of flows."""

    @property
    def key(self) -> tuple[str, str]:
        return self.rule.name, self.subject


@dataclass(frozen=True)
class Alert:
    """An alert that is not ok."""

    rule: str
    subject: str
    state: str
    since_s: float
    """When the state began, by the clock that never steps."""
    since: float
    """The same in epoch seconds."""
    fired_at: float | None
    """Epoch seconds. It names this firing: no other firing of the alert has the same."""
    turned_s: float | None
    """Since when a firing alert has been below its limit; None while it is above."""
    written_s: float
    """When this row was made."""
    value: float | None
    flows: int | None
    reason: str
    remedy: str

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.subject


@dataclass(frozen=True)
class Change:
    """An alert before and after a look. None is ok."""

    before: Alert | None
    after: Alert | None

    @property
    def is_firing(self) -> bool:
        """The alert has begun to fire."""
        return self.after is not None and self.after.state == State.FIRING and not _is_firing(self.before)

    @property
    def is_resolved(self) -> bool:
        """The alert has stopped firing."""
        return _is_firing(self.before) and not _is_firing(self.after)


def _is_firing(alert: Alert | None) -> bool:
    return alert is not None and alert.state == State.FIRING


def changes(
    alerts: Mapping[tuple[str, str], Alert], findings: Iterable[Finding], now_s: float, now: float
) -> list[Change]:
    """Return what the findings change. An alert that no finding is about resolves at once."""
    found = {finding.key: finding for finding in findings}
    steps = [Change(alerts.get(key), _step(alerts.get(key), one, now_s, now)) for key, one in found.items()]
    steps += [Change(alert, _gone(alert, now_s, now)) for key, alert in alerts.items() if key not in found]
    return [step for step in steps if step.before != step.after]


def applied(alerts: Mapping[tuple[str, str], Alert], steps: Iterable[Change]) -> dict[tuple[str, str], Alert]:
    """Return the alerts after these changes."""
    found = dict(alerts)
    for step in steps:
        if step.after is not None:
            found[step.after.key] = step.after
        elif step.before is not None:
            del found[step.before.key]
    return found


def _step(alert: Alert | None, found: Finding, now_s: float, now: float) -> Alert | None:
    if alert is None or alert.state == State.RESOLVED:
        if not found.above:
            return _kept(alert, now_s)
        return _fires_after_wait(_new(found, State.PENDING, now_s, now), found, now_s, now)
    if alert.state == State.PENDING:
        if not found.above:
            return None
        return _fires_after_wait(alert, found, now_s, now)
    turned_s = None if found.above else alert.turned_s if alert.turned_s is not None else now_s
    if turned_s is not None and now_s - turned_s >= found.rule.for_s:
        return replace(_new(found, State.RESOLVED, now_s, now), fired_at=alert.fired_at)
    return _shown(replace(alert, turned_s=turned_s), alert, found, now_s)


def _new(found: Finding, state: State, now_s: float, now: float) -> Alert:
    return Alert(
        found.rule.name,
        found.subject,
        state,
        since_s=now_s,
        since=now,
        fired_at=None,
        turned_s=None,
        written_s=now_s,
        value=found.value,
        flows=found.flows,
        reason=found.reason,
        remedy=found.remedy,
    )


def _fires_after_wait(pending: Alert, found: Finding, now_s: float, now: float) -> Alert:
    """Return the alert firing if it has been pending for long enough."""
    if now_s - pending.since_s >= found.rule.for_s:
        return replace(_new(found, State.FIRING, now_s, now), fired_at=now)
    return _shown(pending, pending, found, now_s)


def _shown(alert: Alert, stored: Alert, found: Finding, now_s: float) -> Alert:
    """Return the alert with the figures of the finding, but not too often, because each change is a write."""
    if alert == stored and now_s - alert.written_s < WRITE_EVERY_S:
        return alert
    return replace(
        alert,
        written_s=now_s,
        value=found.value,
        flows=found.flows,
        reason=found.reason if found.above else alert.reason,
        remedy=found.remedy if found.above else alert.remedy,
    )


def _kept(resolved: Alert | None, now_s: float) -> Alert | None:
    return resolved if resolved is not None and now_s - resolved.since_s < RESOLVED_S else None


def _gone(alert: Alert, now_s: float, now: float) -> Alert | None:
    if alert.state == State.RESOLVED:
        return _kept(alert, now_s)
    if alert.state == State.PENDING:
        return None
    return replace(
        alert, state=State.RESOLVED, since_s=now_s, since=now, turned_s=None, written_s=now_s, reason=GONE
    )


def restarted(alert: Alert, now_s: float) -> Alert:
    """Return a stored alert for one who begins to watch: no one has watched it in the meantime.

    So a pending alert waits again from now, and a firing one that was below its limit waits again, too.
    """
    if alert.state == State.PENDING:
        return replace(alert, since_s=now_s)
    return replace(alert, turned_s=None)
