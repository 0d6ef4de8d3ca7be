# SPDX-License-Identifier: Apache-2.0
"""Alerts in the API, in the live picture and in /metrics."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from sqlalchemy import Engine

from sluice.policy.alert_rules import DEFAULT_RULES
from sluice.policy.alerts import Alert, Change, State
from sluice.policy.figures.validity import MachineStatus
from sluice.store.alerts import put_changes
from sluice.store.observed import newest_events, put_agent
from sluice.webui.alerts.settings import AlertSettings
from sluice.webui.alerts.webhook import Webhook
from sluice.webui.app import create_app
from tests.kit.heartbeats import port_heartbeat
from tests.unit.webui.conftest import TOKEN, Client
from tests.unit.webui.test_metrics import scrape

RULE = {"name": "m", "figure": "deadline-misses", "limit": 0.1, "least_flows": 5}
FIRING = Alert(
    "deadlines-missed",
    "",
    State.FIRING,
    9.0,
    1e9,
    1e9,
    None,
    9.0,
    0.2,
    90,
    "20 % of 90 flows",
    "lower the load",
)
BUSY = MachineStatus(10.0, 0.99, forwarded_late=0.3)


@pytest.fixture
def with_webhook(engine: Engine) -> Client:
    settings = AlertSettings((), Webhook("https://hooks.example/secret", "hidden"))
    return cast(Client, create_app(engine, TOKEN, alert_settings=settings).test_client())


def states(client: Client) -> dict[tuple[str, str], str]:
    return {
        (row["alert"], row["subject"]): row["state"] for row in client.get("/api/v1/alerts").json["alerts"]
    }


def test_alerts__all_rules_of_the_configuration_are_listed(client: Client) -> None:
    answer = client.get("/api/v1/alerts").json
    assert answer["rules_from"] == "configuration"
    assert answer["webhook"] == {"host": None, "waiting": 0, "problem": ""}
    assert states(client) == {(rule.name, ""): "ok" for rule in DEFAULT_RULES}
    conditions = {row["alert"]: row["condition"] for row in answer["alerts"]}
    assert conditions["deadlines-missed"] == "missed deadlines above 5 % over 60 s for 30 s, from 50 flows on"
    assert conditions["small-flows-late"] == (
        "p99 of the FCT of small flows above 1 s over 60 s for 30 s, from 300 flows on"
    )
    assert conditions["agent-down"] == "an agent sends no heartbeat for 30 s"


def test_alerts__firing_ones_come_first(client: Client, engine: Engine) -> None:
    put_changes(engine, [Change(None, FIRING)], [], 9.0)
    first, second, *_ = client.get("/api/v1/alerts").json["alerts"]
    assert (first["alert"], first["state"], first["reason"]) == (
        "deadlines-missed",
        "firing",
        "20 % of 90 flows",
    )
    assert first["remedy"] == "lower the load"
    assert second["state"] == "ok"
    assert len(states(client)) == len(DEFAULT_RULES)


def test_rules__change_needs_the_role(client: Client, bearer: dict[str, str]) -> None:
    assert client.put("/api/v1/alerts/rules", json={"rules": [RULE]}).status_code == 401
    made = client.post("/api/v1/tokens", json={"name": "r", "role": "read", "valid_s": 60}, headers=bearer)
    assert made.status_code in (200, 201), made.text
    reader = {"Authorization": f"Bearer {made.json['token']}"}
    assert client.put("/api/v1/alerts/rules", json={"rules": [RULE]}, headers=reader).status_code == 403
    assert client.open("/api/v1/alerts/rules", method="DELETE", headers=reader).status_code == 403
    assert client.get("/api/v1/alerts/rules").json["rules_from"] == "configuration"


def test_rules__of_the_api_replace_those_of_the_configuration_until_they_are_withdrawn(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    before = client.get("/api/v1/alerts/rules").json
    answer = client.put("/api/v1/alerts/rules", json={"rules": [RULE]}, headers=bearer)
    assert answer.status_code == 200
    (rule,) = answer.json["rules"]
    assert (rule["name"], rule["limit"], rule["for"], rule["window"]) == ("m", 0.1, "30s", "60s")
    assert states(client) == {("m", ""): "ok"}
    assert client.put("/api/v1/alerts/rules", json=answer.json | {}, headers=bearer).status_code == 422
    again = client.put("/api/v1/alerts/rules", json={"rules": answer.json["rules"]}, headers=bearer)
    assert again.json == answer.json
    kept = cast(
        Client, create_app(engine, TOKEN).test_client()
    )  # another process, or the same after a restart
    assert kept.get("/api/v1/alerts/rules").json == answer.json
    withdrawn = client.open("/api/v1/alerts/rules", method="DELETE", headers=bearer)
    assert withdrawn.json == before
    events = [event["document"] for event in newest_events(engine, 3)]
    assert events[-1] == {"by": "owner", "from": "configuration"}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([RULE], "rules"),
        ({}, "rules"),
        ({"rules": [RULE], "webhook": "http://169.254.169.254/"}, "webhook"),
        ({"rules": [RULE | {"webhook": "http://169.254.169.254/"}]}, "rules[0].webhook"),
        ({"rules": [RULE, RULE]}, "rules[1].name"),
        ({"rules": [RULE | {"limit": 7}]}, "rules[0].limit"),
        ({"rules": [RULE | {"for": "-5s"}]}, "rules[0].for"),
        ({"rules": [dict(RULE, name=f"r{i}") for i in range(65)]}, "rules"),
    ],
)
def test_rules__a_wrong_document_is_refused(
    client: Client, bearer: dict[str, str], document: Any, field: str
) -> None:
    answer = client.put("/api/v1/alerts/rules", json=document, headers=bearer)
    assert answer.status_code == 422
    assert answer.json["error"]["field"] == field
    assert client.get("/api/v1/alerts/rules").json["rules_from"] == "configuration"


def test_webhook__its_host_is_shown_and_nothing_more(with_webhook: Client, engine: Engine) -> None:
    put_changes(engine, [], [{"id": "x"}], 9.0)
    answer = with_webhook.get("/api/v1/alerts")
    assert answer.json["webhook"] == {"host": "hooks.example", "waiting": 1, "problem": ""}
    for path in ("alerts", "alerts/rules", "events?count=1"):
        text = with_webhook.get(f"/api/v1/{path}").text
        assert "secret" not in text
        assert "hidden" not in text


def snapshot(client: Client) -> dict[str, Any]:
    text = client.get("/api/v1/events?count=1").text
    line = next(line for line in text.splitlines() if line.startswith("data: ") and '"validity"' in line)
    found: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return found


def test_validity__nothing_judges_a_network_without_a_port_agent(client: Client) -> None:
    found = snapshot(client)
    assert found["validity"]["valid"] is None
    assert "start `sluice port-agent`" in found["validity"]["note"]
    assert [row["state"] for row in found["alerts"]["alerts"]] == ["ok"] * len(DEFAULT_RULES)


@pytest.mark.parametrize(("machine", "valid"), [(MachineStatus(10.0, 0.5), True), (BUSY, False)])
def test_validity__by_what_the_port_agent_reports(
    client: Client, engine: Engine, machine: MachineStatus, valid: bool
) -> None:
    put_agent(engine, "ports", port_heartbeat(machine=machine))
    found = snapshot(client)["validity"]
    assert found["valid"] is valid
    assert [reason["kind"] for reason in found["reasons"]] == ([] if valid else ["forwarded"])
    assert scrape(client)["sluice_figures_valid"] == {(): float(valid)}


def test_metrics__states_and_the_webhook(client: Client, engine: Engine) -> None:
    assert scrape(client)["sluice_alerts_firing"] == {(): 0.0}
    put_changes(engine, [Change(None, FIRING)], [{"id": "x"}], 9.0)
    found = scrape(client)
    labels = (("alert", "deadlines-missed"), ("state", "firing"), ("subject", ""))
    assert found["sluice_alert"] == {labels: 1.0}
    assert found["sluice_alerts_firing"] == {(): 1.0}
    assert found["sluice_webhook_waiting"] == {(): 1.0}
    assert "sluice_figures_valid" not in found
