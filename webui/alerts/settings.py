# SPDX-License-Identifier: Apache-2.0
"""What the configuration says about alerts, and which rules are in force."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine

from sluice.policy.alert_rules import DEFAULT_RULES, AlertRule
from sluice.store.alerts import stored_rules
from sluice.webui.alerts.webhook import Webhook


@dataclass(frozen=True)
class AlertSettings:
    """The configuration's rules, and the receiver of alerts."""

    rules: tuple[AlertRule, ...] = DEFAULT_RULES
    webhook: Webhook | None = None


def rules_in_force(engine: Engine, settings: AlertSettings) -> tuple[AlertRule, ...]:
    """Return the rules that the API has set, otherwise the configuration's."""
    stored = stored_rules(engine)
    return settings.rules if stored is None else stored
