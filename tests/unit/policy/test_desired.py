# SPDX-License-Identifier: Apache-2.0

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from sluice.policy.controls import Need
from sluice.policy.errors import FieldError
from sluice.policy.fabrics import SIMULATOR, TESTBED, missing
from sluice.policy.schema.desired import LEFT_SHARE, Policy, PortBehaviour
from sluice.policy.schema.entries import read, write
from sluice.policy.schemes import SCHEMES
from sluice.policy.schemes.ports import PortMarking, last_mark_bytes


@pytest.mark.parametrize("name", SCHEMES)
def test_from_document__defaults_are_valid_and_round_trip(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    assert Policy.from_document(policy.to_document()) == policy
    assert read(PortBehaviour, json.loads(json.dumps(write(policy.port_behaviour)))) == policy.port_behaviour


@pytest.mark.parametrize(
    ("document", "marking"),
    [
        ({"scheme": "tcp"}, PortMarking(None, 360_000)),
        ({"scheme": "dctcp", "mark_at": "20pkt"}, PortMarking(30_000, 360_000)),
        ({"scheme": "d2tcp", "buffer": "200KB"}, PortMarking(97_500, 200_000)),
        ({"scheme": "datcp"}, PortMarking(80_000, 360_000, mark_max_bytes=120_000)),
        (
            {"scheme": "datcp", "mark_min": 1, "mark_max": "2KB"},
            PortMarking(1, 360_000, mark_max_bytes=2_000),
        ),
        (
            {"scheme": "datcp", "mark_chance": 0.01},
            PortMarking(80_000, 360_000, mark_max_bytes=120_000, mark_chance=0.01),
        ),
        ({"scheme": "hull"}, PortMarking(None, 360_000, phantom_mark_bytes=6_000)),
        ({"scheme": "hull", "mark_at": "15KB"}, PortMarking(None, 360_000, phantom_mark_bytes=15_000)),
    ],
)
def test_port_marking__what_the_ports_are_told(document: dict[str, Any], marking: PortMarking) -> None:
    assert Policy.from_document(document).port_marking == replace(
        marking, urgent_first=document["scheme"] in ("sluice", "mlfq-adaptive"), last_queue=0
    )


def test_port_marking__by_queue_with_a_larger_threshold_in_the_last_one() -> None:
    sluice = Policy.from_document({"scheme": "sluice", "mark_at": "20pkt"}).port_marking
    assert (sluice.mark_by, sluice.last_queue) == ("queue", 5)
    assert last_mark_bytes(sluice.mark_bytes, sluice.last_mark_factor) == 90_000
    assert sluice.buffer_bytes == 20 * 30_000


@pytest.mark.parametrize(("buffer", "mark_by"), [("15pkt", "port"), ("299pkt", "port"), ("300pkt", "queue")])
def test_port_marking__by_the_port_in_a_buffer_too_small_for_queues_that_wait(
    buffer: str, mark_by: str
) -> None:
    sluice = Policy.from_document({"scheme": "sluice", "mark_at": "20pkt", "buffer": buffer})
    assert sluice.port_marking.mark_by == mark_by
    assert sluice.port_marking.last_mark_factor == (3 if mark_by == "queue" else 1)
    assert sluice.least_threshold == (30_000 if mark_by == "queue" else 1)


@pytest.mark.parametrize("mark_at", [1, 149, 50_000_001, 10**9])
def test_from_document__what_follows_from_mark_at_is_allowed_itself(mark_at: int) -> None:
    """Buffer and growth follow from it, and a policy with its defaults written out must be the same policy."""
    policy = Policy.from_document({"scheme": "sluice", "mark_at": mark_at})
    assert Policy.from_document(policy.to_document()) == policy
    assert read(PortBehaviour, write(policy.port_behaviour)) == policy.port_behaviour


@pytest.mark.parametrize("scheme", ["datcp", "tcp", "pfabric", "d3", "pdq"])
def test_growth__is_refused_if_the_control_has_a_rule_of_its_own(scheme: str) -> None:
    assert Policy.from_document({"scheme": scheme}).growth is None
    with pytest.raises(FieldError, match="growth: in scheme"):
        Policy.from_document({"scheme": scheme, "growth": 2})


def test_from_document__shares_default_to_what_the_lower_queues_keep() -> None:
    fish = Policy.from_document({"scheme": "fish"})
    assert fish.shares is not None
    assert fish.shares[1:] == (0.02,) * 7
    assert sum(fish.shares) == pytest.approx(1)
    few = Policy.from_document({"scheme": "fish", "queues": 2, "thresholds": ["1MB"]})
    assert few.shares == (0.98, 0.02)
    assert Policy.from_document({"scheme": "pias"}).shares is None


@pytest.mark.parametrize(
    ("document", "guaranteed"),
    [
        ({"scheme": "tcp"}, (0.0, *[LEFT_SHARE] * 7)),
        (
            {"scheme": "pias", "queues": 4, "thresholds": [10_000, 20_000, 30_000]},
            (*[0.0] * 4, *[LEFT_SHARE] * 4),
        ),
        ({"scheme": "fish", "queues": 2, "thresholds": ["1MB"]}, (0.98, 0.02, *[LEFT_SHARE] * 6)),
        ({"scheme": "pias"}, (0.0,) * 8),
    ],
)
def test_guaranteed__what_waits_in_queues_that_the_policy_lacks_does_not_wait_for_the_others(
    document: dict[str, Any], guaranteed: tuple[float, ...]
) -> None:
    assert Policy.from_document(document).port_behaviour.guaranteed == guaranteed


@pytest.mark.parametrize("strict", [None, []])
def test_from_document__strict_priorities_can_be_asked_for(strict: list[Any] | None) -> None:
    policy = Policy.from_document({"scheme": "fish", "shares": strict})
    assert policy.shares is None
    assert Policy.from_document(policy.to_document()) == policy


@pytest.mark.parametrize(
    ("most", "thresholds"),
    [
        (None, (100_000, 240_000, 750_000, 1_800_000, 10_000_000)),
        ("4.22MB", (100_000, 240_000, 750_000, 1_800_000, 4_220_000)),
        ("1MB", (100_000, 240_000, 750_000, 999_999, 1_000_000)),
    ],
)
def test_policy__starts_with_no_threshold_above_the_limit(
    most: str | None, thresholds: tuple[int, ...]
) -> None:
    assert Policy.from_document({"scheme": "sluice", "most_threshold": most}).thresholds == thresholds


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "scheme"),
        ({"scheme": "cake"}, "scheme"),
        ({"scheme": "pias", "colour": "red"}, "colour"),
        ({"scheme": "dctcp", "queues": 2}, "queues"),
        ({"scheme": "pias", "queues": 3}, "thresholds"),
        ({"scheme": "pias", "queues": 3, "thresholds": [10, 10]}, "thresholds"),
        ({"scheme": "pias", "queues": 3, "thresholds": [10]}, "thresholds"),
        ({"scheme": "mlfq-adaptive", "queues": 3, "percentiles": [20, 10]}, "percentiles"),
        ({"scheme": "pias", "percentiles": [1, 2, 3, 4, 5, 6, 7]}, "percentiles"),
        ({"scheme": "tcp", "mark_at": "65pkt"}, "mark_at"),
        ({"scheme": "dctcp", "mark_max": "65pkt"}, "mark_max"),
        ({"scheme": "hull", "mark_at": "360KB"}, "mark_at"),
        ({"scheme": "datcp", "mark_at": "65pkt"}, "mark_at"),
        ({"scheme": "datcp", "mark_max": "80KB"}, "mark_max"),
        ({"scheme": "datcp", "mark_chance": 0}, "mark_chance"),
        ({"scheme": "dctcp", "mark_chance": 0.5}, "mark_chance"),
        ({"scheme": "datcp", "buffer": "120KB"}, "mark_max"),
        ({"scheme": "pias", "untagged_queue": 8}, "untagged_queue"),
        ({"scheme": "pias", "urgent_after": 0}, "urgent_after"),
        ({"scheme": "sluice", "most_threshold": "50KB"}, "most_threshold"),
        ({"scheme": "sluice", "least_threshold": "2MB", "most_threshold": "1MB"}, "most_threshold"),
        ({"scheme": "pias", "most_threshold": "1MB"}, "most_threshold"),
        ({"scheme": "tcp-priority", "queues": 3}, "queues"),
        ({"scheme": "aemon", "queues": 7}, "queues"),
        ({"scheme": "aemon", "queues": 6}, "thresholds"),
        ({"scheme": "karuna", "queues": 1}, "queues"),
        ({"scheme": "hull", "mark_at_core": "250pkt"}, "mark_at_core"),
        ({"scheme": "fish", "shares": [0.5, 0.5]}, "shares"),
        ({"scheme": "fish", "shares": [0.3] * 8}, "shares"),
        ({"scheme": "pfabric", "shares": [1.0]}, "shares"),
        ({"scheme": "fish", "flow_queues": False, "sub_queues": 8}, "sub_queues"),
        ({"scheme": "pias", "release": "1ms"}, "release"),
    ],
)
def test_from_document__names_the_bad_field(document: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        Policy.from_document(document)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


# ── Overrides ──────────────────────────────────────────────────────────────────────────────────────────────────────

FIXED = {"ports": ["s1:1", "s2:*"], "thresholds": ["20KB"]}
FROZEN = {"ports": ["*"], "freeze": True}


def overridden(*overrides: Any, scheme: str = "mlfq-adaptive") -> Policy:
    return Policy.from_document(
        {"scheme": scheme, "queues": 2, "thresholds": ["10KB"], "overrides": list(overrides)}
    )


def test_overrides__the_last_one_that_names_a_port_decides() -> None:
    policy = overridden(FROZEN, FIXED)
    assert policy.fixed_at("s1:1") == policy.fixed_at("s2:7") == (20_000,)
    assert policy.fixed_at("s1:2") is None
    assert policy.is_frozen("s1:2")
    assert not policy.is_frozen("s2:1")
    other_way_round = overridden(FIXED, FROZEN)
    assert other_way_round.fixed_at("s1:1") is None
    assert other_way_round.is_frozen("s1:1")


def test_overrides__a_star_is_no_prefix_of_a_name() -> None:
    policy = overridden({"ports": ["s1:*"], "freeze": True})
    assert policy.is_frozen("s1:10")
    assert not policy.is_frozen("s10:1")


def test_overrides__none_by_default_and_they_round_trip() -> None:
    plain = Policy.from_document({"scheme": "pias"})
    assert plain.overrides == ()
    assert plain.override_of("s1:1") is None
    policy = overridden(FROZEN, FIXED)
    assert Policy.from_document(policy.to_document()) == policy
    assert policy.to_document()["overrides"] == [
        {"ports": ["*"], "freeze": True},
        {"ports": ["s1:1", "s2:*"], "thresholds": [20_000]},
    ]
    assert hash(policy) != hash(overridden(FROZEN))


@pytest.mark.parametrize(
    ("override", "field", "words"),
    [
        ("s1:1", "overrides[0]", "table"),
        ({"ports": ["s1:1"]}, "overrides[0]", "either thresholds or freeze"),
        ({**FIXED, "freeze": True}, "overrides[0]", "not both"),
        ({"ports": [], "freeze": True}, "overrides[0].ports", "a list of 1 to 1000 values"),
        ({"ports": ["s1"], "freeze": True}, "overrides[0].ports", '"s1"'),
        ({"ports": ["s1:1\n"], "freeze": True}, "overrides[0].ports", "s1:1"),
        ({**FIXED, "thresholds": ["1KB", "2KB"]}, "overrides[0].thresholds", "list of 1"),
        ({**FIXED, "thresholds": [0]}, "overrides[0].thresholds", "from 1"),
    ],
)
def test_overrides__name_the_bad_field(override: Any, field: str, words: str) -> None:
    with pytest.raises(FieldError, match=re.escape(words)) as caught:
        overridden(override)
    assert caught.value.field == field


def test_overrides__a_scheme_without_thresholds_has_none_to_override() -> None:
    with pytest.raises(FieldError, match="has no thresholds"):
        Policy.from_document({"scheme": "dctcp", "overrides": [{"ports": ["*"], "thresholds": [1]}]})


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


def policy(scheme: str, **fields: Any) -> Policy:
    return Policy.from_document({"scheme": scheme, **fields})


def test_missing__on_the_testbed_these_and_no_others() -> None:
    lacking = {name: missing(policy(name), TESTBED) for name in SCHEMES}
    assert {name: set(needs) for name, needs in lacking.items() if needs} == {
        "d3": {Need.EXPLICIT_RATES},
        "pdq": {Need.EXPLICIT_RATES},
        "homa": {Need.GRANTS},
        "pfabric": {Need.SHORTEST_FIRST},
    }
    assert not any(missing(policy(name), SIMULATOR) for name in SCHEMES), "the simulator can do everything"
