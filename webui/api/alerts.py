# SPDX-License-Identifier: Apache-2.0
"""Alerts: their states, and the rules behind them."""

from __future__ import annotations

from typing import Any

from flask import Response, jsonify

from sluice.policy.alert_rules import RULES, rules_from
from sluice.policy.errors import FieldError, unknown_key
from sluice.store.alerts import forget_rules, put_rules
from sluice.webui.alert_models import AlertRulesAnswer, AlertsAnswer
from sluice.webui.alerts.documents import alerts_document, rules_document
from sluice.webui.api import blueprint
from sluice.webui.auth import require_token
from sluice.webui.bodies import read_json
from sluice.webui.error_models import Error
from sluice.webui.request_schemas import request_body
from sluice.webui.services import services

api = blueprint("alerts", __name__, "What needs attention, by rules that you can change")

_CHANGED: dict[Any, Any] = {200: AlertRulesAnswer, 400: Error, 401: Error, 403: Error, 413: Error, 415: Error}
_BODY = {
    "type": "object",
    "properties": {"rules": RULES.schema()},
    "required": ["rules"],
    "additionalProperties": False,
}


@api.get("/alerts", responses={200: AlertsAnswer})
def read_alerts() -> Response:
    """Every alert with its state, its reason and a remedy. An agent-down rule has an alert for each agent that is down.

    An alert is pending while its figure is above the limit for less than `for`. A resolved alert stays in the answer
    for 15 minutes.
    """
    return jsonify(alerts_document(services().engine, services().alerts))


@api.get("/alerts/rules", responses={200: AlertRulesAnswer})
def read_rules() -> Response:
    """The rules in force."""
    return jsonify(rules_document(services().engine, services().alerts))


@api.put(
    "/alerts/rules",
    responses=_CHANGED,
    security=[{"bearer": []}],
    openapi_extensions=request_body(_BODY),
)
def change_rules() -> Response:
    """Put these rules in place of those of the web process's configuration. They survive its restart.

    No request can set the webhook: its address is in the configuration file only.
    """
    caller = require_token(services().token)
    rules = rules_from("rules", _rules_of(read_json()))
    put_rules(services().engine, rules, caller.name)
    return jsonify(rules_document(services().engine, services().alerts))


@api.delete("/alerts/rules", responses=_CHANGED, security=[{"bearer": []}])
def withdraw_rules() -> Response:
    """Put the rules of the web process's configuration in force again."""
    caller = require_token(services().token)
    forget_rules(services().engine, caller.name)
    return jsonify(rules_document(services().engine, services().alerts))


def _rules_of(document: object) -> object:
    if not isinstance(document, dict):
        raise FieldError("rules", 'must be in an object: {"rules": […]}')
    for key in document:
        if key != "rules":
            raise unknown_key(str(key)[:64], str(key)[:64], ["rules"])
    if "rules" not in document:
        raise FieldError("rules", f"is missing; it must be {RULES.allowed}")
    return document["rules"]
