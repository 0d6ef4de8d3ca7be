# SPDX-License-Identifier: Apache-2.0
"""A web process with an address for agents, and what they deliver."""

import json
from pathlib import Path
from typing import Any

import requests

from sluice.policy.wire.access import Holder
from sluice.runtime.agent_identity import Identity, identity_for
from sluice.runtime.http_client import Answer, HttpClient
from sluice.store.engine import open_store
from sluice.store.observed import newest_events
from tests.web.conftest import PATIENCE_S, TOKEN, Server, free_address

WEB1 = Holder("web1", "host")
LIFE_S = 600.0


class Web(Server):
    """A web process with an address for agents."""

    def __init__(self, folder: Path, life: str = f"{LIFE_S}s") -> None:
        self.agents = free_address()
        self.authority = folder / "authority"
        more = ["--agents", self.agents, "--authority", str(self.authority), "--certificate-life", life]
        super().__init__(folder, None, *more)

    @property
    def target(self) -> str:
        return f"https://{self.agents}"

    def token(self, name: str = "web1", **more: Any) -> str:
        answer = self.command("/api/v1/enrolments", {"name": name, **more})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])

    def command(self, path: str, body: Any = None) -> requests.Response:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return requests.post(f"{self.url}{path}", json=body, headers=headers, timeout=PATIENCE_S)

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [
            row["document"] for row in newest_events(open_store(self.store_url), 100) if row["kind"] == kind
        ]

    def enrolled(self, folder: Path, holder: Holder = WEB1) -> Identity:
        """Return the identity of an agent that has just enrolled."""
        token = self.token(holder.name, kind=holder.kind)
        found = identity_for(self.target, folder, holder, token)
        assert found is not None
        return found

    def client(self, identity: Identity) -> HttpClient:
        return HttpClient(self.target, tls=identity.context)


def deliver(client: HttpClient, *records: dict[str, Any]) -> Answer:
    return client.post("/api/v1/flows", json.dumps(records).encode())


def error(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json()["error"]["code"]
