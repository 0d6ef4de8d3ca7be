# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.controller.port_settings import PortSettings, ThresholdsInForce
from sluice.policy import tags
from sluice.policy.schema.desired import Policy, queue_map
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


def test_begin_all__has_the_queue_map_of_every_port(settings: PortSettings) -> None:
    settings.want(1, [LARGE])
    assert settings.begin_all() == {
        1: queue_map(POLICY, [MIDDLE]),
        2: queue_map(POLICY, [LARGE]),
        3: queue_map(POLICY, [MIDDLE]),
    }


def test_applied__reports_all_ports_of_an_unknown_switch_and_then_only_changes(
    settings: PortSettings,
) -> None:
    assert settings.version is None
    settings.begin_all()
    assert settings.applied() == [news(port, 1, MIDDLE) for port in (1, 2, 3)]
    assert settings.version == 1
    assert not settings.outdated
    settings.want(1, [LARGE], flows=7)
    assert settings.outdated
    change = settings.begin_differences()
    assert set(change.ports.tolist()) == {2}
    assert settings.applied() == [news(2, 1, LARGE, 7)]
    assert not settings.outdated


def test_want__what_is_in_force_is_no_difference(settings: PortSettings) -> None:
    come_to_rest(settings)
    settings.want(1, [MIDDLE], flows=9)
    assert not settings.outdated


def test_want__snaps_thresholds_to_edges(settings: PortSettings) -> None:
    settings.want(0, [MIDDLE + 1])
    assert settings.desired_thresholds[0] == (tags.snap_to_edge(MIDDLE + 1),)


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


def test_adopt__another_version_is_applied_even_if_no_rule_changes(settings: PortSettings) -> None:
    come_to_rest(settings)
    settings.adopt(POLICY, 2, ALL)
    for row, thresholds in enumerate(settings.desired_thresholds):
        settings.want(row, thresholds)
    assert (settings.version, settings.outdated) == (1, True)
    assert len(settings.begin_differences()) == 0
    assert settings.applied() == [news(port, 2, MIDDLE) for port in (1, 2, 3)]
    assert (settings.version, settings.outdated) == (2, False)


def test_begin_none__acknowledges_no_port(settings: PortSettings) -> None:
    come_to_rest(settings)
    settings.want(0, [SMALL])
    settings.begin_none()
    assert settings.applied() == []
    assert settings.outdated


def test_forget__everything_is_unknown_again(settings: PortSettings) -> None:
    come_to_rest(settings)
    settings.want(0, [SMALL])
    settings.forget()
    assert (settings.version, settings.outdated) == (None, False)
    settings.begin_all()
    assert len(settings.applied()) == 3
    assert not settings.outdated
