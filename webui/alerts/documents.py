# SPDX-License-Identifier: Apache-2.0
"""Alerts as JSON: for the API, the live page and the webhook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Engine

from sluice.policy.alert_rules import OF_FLOWS, AlertRule, Figure, time_text
from sluice.policy.alerts import Alert, Change, State
from sluice.policy.units import US_PER_S
from sluice.policy.version import VERSION
from sluice.policy.wire.records import ALL
from sluice.store.alerts import all_alerts, next_message, stored_rules, waiting_messages
from sluice.webui.alerts.settings import AlertSettings

_ORDER = (State.FIRING, State.PENDING, State.RESOLVED, State.OK)


def alerts_document(engine: Engine, settings: AlertSettings) -> dict[str, Any]:
    """Return the state of every alert, firing ones first, and the state of the webhook."""
    stored = stored_rules(engine)
    rules = settings.rules if stored is None else stored
    found = all_alerts(engine)
    rows = [_row(alert, _rule_named(rules, alert.rule)) for alert in found.values()]
    busy = {alert.rule for alert in found.values()}
    rows += [_ok_row(rule) for rule in rules if rule.name not in busy]
    rows.sort(key=lambda row: (_ORDER.index(row["state"]), row["alert"], row["subject"]))
    return {
        "rules_from": "configuration" if stored is None else "api",
        "alerts": rows,
        "webhook": _webhook_document(engine, settings),
    }


def rules_document(engine: Engine, settings: AlertSettings) -> dict[str, Any]:
    """Return the rules in force, and where they come from."""
    stored = stored_rules(engine)
    rules = settings.rules if stored is None else stored
    return {
        "rules_from": "configuration" if stored is None else "api",
        "rules": [rule.to_document() for rule in rules],
    }


def _rule_named(rules: Iterable[AlertRule], name: str) -> AlertRule | None:
    return next((rule for rule in rules if rule.name == name), None)


def _row(alert: Alert, rule: AlertRule | None) -> dict[str, Any]:
    return {
        "alert": alert.rule,
        "subject": alert.subject,
        "figure": rule.figure if rule else None,
        "state": alert.state,
        "since": alert.since,
        "fired_at": alert.fired_at,
        "value": alert.value,
        "flows": alert.flows,
        "reason": alert.reason,
        "remedy": alert.remedy,
        "condition": condition(rule) if rule else "",
    }


def _ok_row(rule: AlertRule) -> dict[str, Any]:
    nothing = dict.fromkeys(("since", "fired_at", "value", "flows"))
    return {
        "alert": rule.name,
        "subject": "",
        "figure": rule.figure,
        "state": State.OK,
        **nothing,
        "reason": "",
        "remedy": "",
        "condition": condition(rule),
    }


def condition(rule: AlertRule) -> str:
    """Return what the rule means, in words."""
    lasts = f" for {time_text(rule.for_s * US_PER_S)}" if rule.for_s else ""
    if rule.watches is Figure.AGENT:
        return f"an agent sends no heartbeat{lasts}"
    if rule.watches is Figure.INVALID:
        return f"the figures are not valid{lasts}"
    window = time_text(rule.window_s * US_PER_S)
    return f"{_figure_text(rule)} above {_limit_text(rule)} over {window}{lasts}, from {rule.least_flows} flows on"


def _figure_text(rule: AlertRule) -> str:
    flows = " ".join(word for word in (rule.source, rule.size_class) if word != ALL)
    whose = f" of {flows} flows" if flows else ""
    names = {Figure.MISSES: "missed deadlines", Figure.FCT: "p99 of the FCT"}
    return f"{names.get(rule.watches, 'p99 of the slowdown')}{whose}"


def _limit_text(rule: AlertRule) -> str:
    if rule.watches is Figure.MISSES:
        return f"{100 * rule.limit_value:.3g} %"
    return time_text(rule.limit_value) if rule.watches is Figure.FCT else f"{rule.limit_value:.3g}"


def _webhook_document(engine: Engine, settings: AlertSettings) -> dict[str, Any]:
    """Return the state of the webhook. It names the receiver's host only: the path may be a secret."""
    if settings.webhook is None:
        return {"host": None, "waiting": 0, "problem": ""}
    oldest = next_message(engine)
    return {
        "host": settings.webhook.host,
        "waiting": waiting_messages(engine),
        "problem": oldest.problem if oldest else "",
    }


def messages_of(steps: Sequence[Change], rules: Sequence[AlertRule], now: float) -> list[dict[str, Any]]:
    """Return the webhook's messages: one for each alert that fires or resolves.

    `id` is the same in every attempt to deliver a message, and no other message has it.
    """
    return [
        _message(step, _rule_named(rules, about.rule), now)
        for step in steps
        if (step.is_firing or step.is_resolved) and (about := step.after or step.before) is not None
    ]


def _message(step: Change, rule: AlertRule | None, now: float) -> dict[str, Any]:
    about = step.after or step.before
    assert about is not None
    state = State.FIRING if step.is_firing else State.RESOLVED
    has_limit = rule is not None and rule.watches in OF_FLOWS
    return {
        "id": f"{about.rule}/{about.subject}/{about.fired_at or now:.3f}/{state}",
        "alert": about.rule,
        "subject": about.subject,
        "state": state,
        "at": now,
        "fired_at": about.fired_at,
        "figure": rule.figure if rule else None,
        "limit": rule.limit if rule and has_limit else None,
        "value": about.value,
        "flows": about.flows,
        "reason": about.reason,
        "remedy": about.remedy,
        "sluice": VERSION,
    }
