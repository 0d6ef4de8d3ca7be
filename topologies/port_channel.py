# SPDX-License-Identifier: Apache-2.0
"""The port agent's channel to the web process: heartbeats, and the settings that answer them."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

from sluice.policy.captures import CaptureResult
from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import read, write
from sluice.policy.wire.agents import AgentSettings, PortHeartbeat, heartbeat_document
from sluice.runtime.agent_identity import Identity, identity_for, problem_of
from sluice.runtime.certificates import Holder
from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.topologies.settings import Settings

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
DELIVER_S = 10.0


@dataclass
class Channel:
    """A channel over a Unix socket, or over TLS with the agent's certificate."""

    name: str
    web: HttpClient
    target: str
    """The address of the web process."""
    identity: Identity | None = None
    problem: str = ""
    """Why the last heartbeat had no answer; empty if it had one. It is logged when it changes."""

    @classmethod
    def open(cls, settings: Settings) -> Channel | None:
        """Return the channel that the settings name; None without one. Raises SluiceError."""
        if settings.web is None:
            return None
        holder = Holder(settings.agent_name, PortHeartbeat.KIND)
        identity = identity_for(settings.web, settings.identity_dir, holder, settings.enrol)
        web = HttpClient(settings.web, TIMEOUT_S, tls=identity.context if identity else None)
        return cls(settings.agent_name, web, settings.web, identity)

    def ask(self, report: PortHeartbeat) -> AgentSettings | None:
        """Send a heartbeat and return the policy's settings, None if the web process is away or refuses."""
        try:
            settings = self._ask(report)
        except ServerAway as away:
            self._note(f"the web process does not serve this agent: {away}")
            return None
        except FieldError as error:
            self._note(f"the web process is of another version than this agent: {error}")
            return None
        self._note("")
        return settings

    def _ask(self, report: PortHeartbeat) -> AgentSettings:
        answer = self.web.post(f"/api/v1/agents/{self.name}", json.dumps(heartbeat_document(report)).encode())
        if not answer.ok:
            raise ServerAway(f"it answers {answer.status}: {problem_of(answer)}")
        settings = read(AgentSettings, answer.json())
        if self.identity is not None and self.identity.renewal_due(wanted=settings.renew):
            self.identity.renew(self.web)
        return settings

    def deliver(self, capture_id: str, result: CaptureResult) -> None:
        """Deliver a capture. Any thread may call it, because it uses a connection of its own."""
        tls = self.identity.context if self.identity else None
        web = HttpClient(self.target, DELIVER_S, tls=tls)
        body = json.dumps(write(result)).encode()
        try:
            answer = web.post(f"/api/v1/agents/{self.name}/captures/{capture_id}", body)
        except ServerAway as away:
            log.warning("the capture %s is lost: %s", capture_id, away)
            return
        finally:
            web.close()
        if not answer.ok:
            log.warning("the web process refuses the capture %s: %s", capture_id, problem_of(answer))

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("%s; keeping the last settings", problem)
        self.problem = problem
