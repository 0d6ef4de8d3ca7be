# SPDX-License-Identifier: Apache-2.0
"""What agents are told."""

from __future__ import annotations

from policy.agents import AgentSettings
from policy.desired import Policy


def settings(**fields: object) -> AgentSettings:
    return AgentSettings.of(3, Policy.from_document({"scheme": "pias", **fields}))


def test_of__hosts_take_the_control_of_the_scheme() -> None:
    host = settings().host
    assert host is not None
    assert host.congestion_control == "sluice_dctcp"


def test_of__hosts_keep_their_own_control_while_sluice_only_watches() -> None:
    host, ports = settings(acts_at=[]).host, settings(acts_at=["s1:2"]).ports
    assert host is not None
    assert ports is not None
    assert host.congestion_control is None
    assert ports.acts_at == ("s1:2",)
