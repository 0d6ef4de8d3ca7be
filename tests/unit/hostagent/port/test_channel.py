# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from sluice.hostagent.port.agent import Channel
from sluice.hostagent.port.settings import PortAgentSettings
from sluice.policy.errors import SluiceError
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import AgentSettings, heartbeat_document
from sluice.runtime.http_client import Answer, ServerAway
from tests.kit.heartbeats import port_heartbeat


class FakeWeb:
    """Answers every heartbeat in the same way."""

    def __init__(self, answer: Answer | None) -> None:
        self.answer = answer
        self.heard: list[Any] = []

    def post(self, path: str, body: bytes) -> Answer:
        self.heard.append((path, json.loads(body)))
        if self.answer is None:
            raise ServerAway("connection refused")
        return self.answer


def channel(answer: Answer | None) -> tuple[Channel, FakeWeb]:
    web: Any = FakeWeb(answer)
    return Channel("rack1", web), web


def test_ask__sends_the_heartbeat_and_reads_the_settings() -> None:
    settings = AgentSettings.of(7, Policy.from_document({"scheme": "fish"}))
    ports, web = channel(Answer(200, json.dumps(write(settings)).encode()))
    assert ports.ask(port_heartbeat()) == settings
    assert web.heard == [("/api/v1/agents/rack1", heartbeat_document(port_heartbeat()))]


@pytest.mark.parametrize(
    "answer", [None, Answer(404, b"{}"), Answer(200, b"<html>"), Answer(200, b'{"version": 7}')]
)
def test_ask__no_usable_answer_is_none(answer: Answer | None) -> None:
    assert channel(answer)[0].ask(port_heartbeat()) is None


def test_ask__says_once_that_the_certificate_was_revoked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    problem = "this agent's certificate was revoked; enrol it again"
    ports, _web = channel(Answer(403, json.dumps({"error": {"problem": problem}}).encode()))
    assert ports.ask(port_heartbeat()) is None
    assert ports.ask(port_heartbeat()) is None
    assert len(caplog.messages) == 1
    assert problem in caplog.text
    assert "keeping the last settings" in caplog.text


def test_open__needs_an_identity_over_tls(tmp_path: Path) -> None:
    assert Channel.open(PortAgentSettings(run_dir=tmp_path)) is None
    assert Channel.open(PortAgentSettings(run_dir=tmp_path, web="unix:/run/web.sock")) is not None
    with pytest.raises(SluiceError, match="run `sluice enrol port-agent --kind port`"):
        Channel.open(PortAgentSettings(run_dir=tmp_path, web="https://192.0.2.1:8443"))
