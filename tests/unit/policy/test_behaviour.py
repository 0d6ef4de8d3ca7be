# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from sluice.policy.schema.desired import Policy, PortBehaviour
from sluice.policy.schema.entries import read, write
from sluice.policy.schemes import SCHEMES
from sluice.policy.schemes.ports import PortMarking


@pytest.mark.parametrize("name", SCHEMES)
def test_read__survives_json(name: str) -> None:
    behaviour = Policy.from_document({"scheme": name}).port_behaviour
    assert read(PortBehaviour, json.loads(json.dumps(write(behaviour)))) == behaviour


def test_marking__the_edge_and_the_core() -> None:
    policy = Policy.from_document({"scheme": "pias", "mark_at": "20pkt", "mark_at_core": "80pkt"})
    behaviour = policy.port_behaviour
    assert behaviour.marking(edge=True) == policy.port_marking == PortMarking(30_000, 360_000)
    assert behaviour.marking(edge=False) == policy.core_marking == PortMarking(120_000, 360_000)


@pytest.mark.parametrize("name", ["dctcp", "datcp", "hull", "tcp"])
def test_marking__the_same_everywhere_without_a_threshold_for_the_core(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    assert policy.port_behaviour.marking(edge=False) == policy.port_behaviour.marking(edge=True)
    assert policy.port_behaviour.marking(edge=False) == policy.core_marking


def test_port_behaviour__flow_queues_and_shares() -> None:
    fish = Policy.from_document({"scheme": "fish", "queues": 2, "thresholds": ["1MB"], "release": "2ms"})
    assert fish.port_behaviour == PortBehaviour(
        97_500,
        360_000,
        last_queue=1,
        shares=(0.98, 0.02),
        sub_queues=32,
        release_ns=2_000_000,
        untagged_queue=1,
    )
