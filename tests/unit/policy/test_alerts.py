# SPDX-License-Identifier: Apache-2.0
"""The state of an alert follows from what its rule finds, and from a clock that never steps."""

from __future__ import annotations

from dataclasses import replace

from sluice.policy.alert_rules import AlertRule, Figure
from sluice.policy.alerts import (
    GONE,
    RESOLVED_S,
    WRITE_EVERY_S,
    Alert,
    Change,
    Finding,
    State,
    applied,
    changes,
    restarted,
)

RULE = AlertRule("m", Figure.MISSES, 0.05, for_s=30.0)
NOW = 1_700_000_000.0
Alerts = dict[tuple[str, str], Alert]


class Watch:
    """Looks with a clock that the test moves."""

    def __init__(self, rule: AlertRule = RULE) -> None:
        self.rule, self.now_s = rule, 1000.0
        self.alerts: Alerts = {}

    def look(self, after_s: float, *values: float, subject: str = "") -> list[Change]:
        self.now_s += after_s
        found = [
            Finding(self.rule, value > 0.05, f"{value}", "mend it", subject, value, 500) for value in values
        ]
        steps = changes(self.alerts, found, self.now_s, NOW + self.now_s)
        self.alerts = applied(self.alerts, steps)
        return steps

    @property
    def state(self) -> str:
        return self.alerts["m", ""].state if self.alerts else State.OK


def test_alert__fires_once_after_its_time() -> None:
    watch = Watch()
    assert watch.look(0, 0.01) == []
    assert watch.state == State.OK
    watch.look(2, 0.2)
    assert watch.state == State.PENDING
    assert not any(step.is_firing for step in watch.look(29.9, 0.2))
    assert watch.state == State.PENDING
    (step,) = watch.look(0.1, 0.2)
    assert step.is_firing
    assert watch.state == State.FIRING
    assert watch.alerts["m", ""].fired_at == NOW + watch.now_s
    assert not any(step.is_firing for step in watch.look(60, 0.2))


def test_alert__a_short_excess_never_fires() -> None:
    watch = Watch()
    for _ in range(20):
        watch.look(20, 0.2)
        steps = watch.look(5, 0.01)
        assert not any(step.is_firing or step.is_resolved for step in steps)
    assert watch.state == State.OK


def test_alert__without_a_time_it_fires_at_once() -> None:
    watch = Watch(replace(RULE, for_s=0.0))
    (step,) = watch.look(0, 0.2)
    assert step.is_firing
    (step,) = watch.look(1, 0.01)
    assert step.is_resolved


def test_alert__resolves_after_its_time_below_the_limit() -> None:
    watch = Watch()
    watch.look(0, 0.2)
    watch.look(30, 0.2)
    fired_at = watch.alerts["m", ""].fired_at
    watch.look(5, 0.01)
    watch.look(20, 0.2)  # above again: the time below starts over
    watch.look(5, 0.01)
    assert not any(step.is_resolved for step in watch.look(29, 0.01))
    assert watch.alerts["m", ""].reason == "0.2", "while it fires, the reason is that of the excess"
    (step,) = watch.look(1, 0.01)
    assert step.is_resolved
    assert watch.state == State.RESOLVED
    assert (watch.alerts["m", ""].fired_at, watch.alerts["m", ""].reason) == (fired_at, "0.01")
    watch.look(RESOLVED_S - 1, 0.01)
    assert watch.state == State.RESOLVED
    watch.look(1, 0.01)
    assert watch.state == State.OK


def test_alert__after_it_resolved_it_can_fire_again_as_another_firing() -> None:
    watch = Watch()
    for after_s, value in ((0, 0.2), (30, 0.2), (1, 0.0), (30, 0.0)):
        watch.look(after_s, value)
    first = watch.alerts["m", ""].fired_at
    watch.look(1, 0.2)
    assert watch.state == State.PENDING
    (step,) = watch.look(30, 0.2)
    assert step.is_firing
    assert watch.alerts["m", ""].fired_at != first


def test_alert__what_is_no_longer_watched_resolves_at_once() -> None:
    watch = Watch()
    watch.look(0, 0.2, subject="h1")
    watch.look(30, 0.2, subject="h1")
    (step,) = watch.look(1)
    assert step.is_resolved
    assert watch.alerts["m", "h1"].reason == GONE
    watch = Watch()
    watch.look(0, 0.2)
    watch.look(1)
    assert watch.alerts == {}


def test_alert__its_figures_are_not_written_at_every_look() -> None:
    watch = Watch()
    watch.look(0, 0.2)
    watch.look(30, 0.2)
    assert watch.look(WRITE_EVERY_S - 0.1, 0.3) == []
    assert len(watch.look(0.1, 0.4)) == 1
    assert watch.alerts["m", ""].value == 0.4


def test_restarted__a_time_in_which_no_one_watched_does_not_count() -> None:
    watch = Watch()
    watch.look(0, 0.2)
    watch.now_s += 1000
    watch.alerts = {key: restarted(alert, watch.now_s) for key, alert in watch.alerts.items()}
    watch.look(29, 0.2)
    assert watch.state == State.PENDING
    watch.look(1, 0.2)
    assert watch.state == State.FIRING
    watch.look(1, 0.01)
    watch.now_s += 1000
    watch.alerts = {key: restarted(alert, watch.now_s) for key, alert in watch.alerts.items()}
    assert not any(step.is_resolved for step in watch.look(1, 0.01))
    assert watch.state == State.FIRING
