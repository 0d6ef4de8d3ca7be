# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice.commands.agents import rows

NOW = 1_000_000.0


def agent(name: str, *, alive: bool = True) -> dict[str, object]:
    return {"name": name, "kind": "host", "alive": alive, "age_s": 1.2, "status": {"version": "2.0"}}


def test_rows__heartbeats_and_certificates_of_one_name_are_one_row() -> None:
    certificate = {"name": "web1", "kind": "host", "state": "valid", "ends_at": NOW + 86_400 * 2.5}
    revoked = {"name": "web2", "kind": "host", "state": "revoked", "ends_at": NOW + 86_400}
    found = rows([agent("web1"), agent("h9", alive=False)], [revoked, certificate], NOW)
    assert found == [
        ("h9", "host", "away", "none (this machine)", "-", "1 s ago", "2.0"),
        ("web1", "host", "up", "valid", "in 2.5 days", "1 s ago", "2.0"),
        ("web2", "host", "no heartbeat yet", "revoked", "in 1.0 days", "-", "-"),
    ]
