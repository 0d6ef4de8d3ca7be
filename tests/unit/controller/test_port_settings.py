# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.controller.port_settings import PortSettings, ThresholdsInForce
from sluice.policy import tags
from sluice.policy.schema.desired import Policy
from tests.kit.networks import single

POLICY = Policy.from_document({"scheme": "pias", "queues": 2, "thresholds": ["10KB"]})
SMALL, MIDDLE, LARGE = tags.EDGES_BYTES[4], tags.EDGES_BYTES[8], tags.EDGES_BYTES[12]


@pytest.fixture
def settings() -> PortSettings:
    """Ports 1 to 3 with desired thresholds of version 1, and nothing in force."""
    return PortSettings(single().ports_of["s1"], POLICY, 1, [[MIDDLE]] * 3, ALL)


ALL = frozenset({"s1:1", "s1:2", "s1:3"})


def come_to_rest(settings: PortSettings) -> None:
    settings.begin_all()
    settings.applied()


def news(port: int, version: int, threshold: int, flows: int = 0) -> ThresholdsInForce:
    return ThresholdsInForce(f"s1:{port}", version, (threshold,), flows)


def test_a_port_that_moves_during_a_change_still_differs_after_it(settings: PortSettings) -> None:
    come_to_rest(settings)
    settings.want(0, [SMALL])
    settings.begin_differences()
    settings.want(1, [LARGE])
    assert settings.applied() == [news(1, 1, SMALL)]
    assert settings.outdated
    settings.begin_differences()
    settings.want(1, [SMALL])
    assert settings.applied() == [news(2, 1, LARGE)]
    assert settings.outdated
    assert set(settings.begin_differences().ports.tolist()) == {2}


def test_a_port_that_moves_before_the_first_change_is_applied_differs_after_it(
    settings: PortSettings,
) -> None:
    settings.begin_all()
    settings.want(2, [LARGE])
    settings.applied()
    assert settings.outdated
    assert set(settings.begin_differences().ports.tolist()) == {3}


def test_begin_none__acknowledges_no_port(settings: PortSettings) -> None:
    come_to_rest(settings)
    settings.want(0, [SMALL])
    settings.begin_none()
    assert settings.applied() == []
    assert settings.outdated
