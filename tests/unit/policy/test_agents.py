# SPDX-License-Identifier: Apache-2.0
"""What agents are told."""

from __future__ import annotations

import pytest

from sluice.policy.schema.desired import Policy, host_queue_map
from sluice.policy.wire.agents import AgentSettings


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


def test_of__hosts_get_the_queues_of_their_own_link_from_the_policys_thresholds() -> None:
    host = settings().host
    assert host is not None
    assert host.queue_of_tag == host_queue_map(Policy.from_document({"scheme": "pias"}))
    assert len(set(host.queue_of_tag)) > 1


@pytest.mark.parametrize("fields", [{"host_queues": False}, {"acts_at": []}], ids=["switched off", "watches"])
def test_of__a_hosts_link_stays_one_queue(fields: dict[str, object]) -> None:
    host = settings(**fields).host
    assert host is not None
    assert host.queue_of_tag == ()
