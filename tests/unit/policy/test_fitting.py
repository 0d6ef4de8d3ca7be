# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.schema import fitting
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import SCHEMES, Marking
from sluice.policy.thresholds.static import Traffic, optimal_thresholds, pias_thresholds
from sluice.policy.workload.sizes import SizeCdf
from sluice.topologies import build
from tests.kit.known import known

DEMO: dict[str, Any] = {
    "scheme": "mlfq-adaptive",
    "queues": 4,
    "mark_at": 18_000,
    "buffer": 60_000,
    "window_ms": 5000,
    "interval_ms": 500,
}
TRAFFIC = Traffic(
    SizeCdf("two", (2_000.0, 2_000.0, 200_000.0, 200_000.0), (0.0, 0.8, 0.8, 1.0)), 0.5, name="two sizes"
)


def after(document: dict[str, Any], *before: dict[str, Any], **around: Any) -> Policy:
    history = tuple(map(Policy.from_document, before))
    return fitting.fitted(document, fitting.Surroundings(before=history, **around)).policy


def test_path__rate_and_round_trip_of_the_network() -> None:
    topology = build("leaf-spine", host_rate_bps=5_000_000, core_rate_bps=10_000_000, link_delay_ns=1_000_000)
    path = known(fitting.path_of(topology))
    frames_us = 8 * (1514 + 67) * (2 / 5 + 2 / 10)
    assert path.rate_bps == 5_000_000
    assert path.round_trip_us == pytest.approx(frames_us + 8 * 1000)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_fitted__at_10_gbit_every_default_is_the_papers(scheme: str) -> None:
    path = fitting.NetworkPath(10**10, 85.2)
    assert after({"scheme": scheme}, path=path) == Policy.from_document({"scheme": scheme})


def test_fitted__k_and_buffer_follow_the_links_without_a_policy_before() -> None:
    policy = after({"scheme": "dctcp"}, path=fitting.NetworkPath(50 * 10**6, 600))
    assert (policy.mark_at, policy.buffer) == (18_000, 66_461)
    tcp = after({"scheme": "tcp"}, path=fitting.NetworkPath(50 * 10**6, 600))
    assert tcp.buffer == policy.buffer


@pytest.mark.parametrize("scheme", [name for name, one in SCHEMES.items() if one.marking is Marking.PORT])
def test_fitted__a_change_of_scheme_keeps_what_belongs_to_the_network(scheme: str) -> None:
    before = {**DEMO, "idle_gap_ms": 7, "acts_at": ["s1:2"]}
    policy = after({"scheme": scheme}, before, path=fitting.NetworkPath(10**10, 85.2))
    kept = (policy.mark_at, policy.buffer, policy.window_ms, policy.interval_ms, policy.idle_gap_ms)
    assert kept == (18_000, 60_000, 5000, 500, 7)
    assert policy.acts_at == ("s1:2",)
    assert policy.queues == SCHEMES[scheme].queues


def test_fitted__k_survives_a_scheme_that_marks_nothing() -> None:
    policy = after({"scheme": "pias"}, {"scheme": "tcp", "buffer": 60_000}, DEMO)
    assert (policy.mark_at, policy.buffer) == (18_000, 60_000)


def test_fitted__marks_of_the_scheme_itself_are_in_proportion() -> None:
    ramp = after({"scheme": "datcp"}, DEMO)
    assert (ramp.mark_min, ramp.mark_max) == (80_000 * 18 * 10 // 975, 120_000 * 18 * 10 // 975)
    assert after({"scheme": "hull"}, DEMO).mark_at == 6_000
    assert after({"scheme": "dctcp"}, {"scheme": "hull"}).mark_at == 97_500


def test_fitted__a_buffer_has_room_for_the_marks_that_are_named() -> None:
    ramp = {"scheme": "datcp", "mark_min": "40KB", "mark_max": "60KB"}
    assert after(ramp, path=fitting.NetworkPath(50 * 10**6, 600)).buffer == 360_000 * 60_000 // 97_500
    deep = {"scheme": "dctcp", "mark_at": "10MB"}
    assert after(deep, path=fitting.NetworkPath(50 * 10**6, 600)).buffer == 360_000


def test_fitted__named_values_are_kept_and_null_is_the_schemes_default() -> None:
    document = {"scheme": "pias", "mark_at": "30pkt", "buffer": None, "thresholds": [*range(1, 8)]}
    change = fitting.fitted(
        document, fitting.Surroundings(before=(Policy.from_document(DEMO),), traffic=TRAFFIC)
    )
    assert change.policy.mark_at == 45_000
    assert change.policy.buffer == 360_000 * 45_000 // 97_500
    assert change.policy.thresholds == (1, 2, 3, 4, 5, 6, 7)
    assert change.reasons["mark_at"] == "named in the document"


def test_fitted__a_whole_document_comes_back_unchanged() -> None:
    for scheme in SCHEMES:
        policy = Policy.from_document({"scheme": scheme})
        around = fitting.Surroundings(
            fitting.NetworkPath(10**6, 1), (Policy.from_document(DEMO),), TRAFFIC, fits_thresholds=True
        )
        assert fitting.fitted(policy.to_document(), around).policy == policy


def test_fitted__fixed_thresholds_follow_the_traffic() -> None:
    best = optimal_thresholds(TRAFFIC.sizes, TRAFFIC.load, 8, least_bytes=1)
    around = {"traffic": TRAFFIC, "fits_thresholds": True}
    assert after({"scheme": "pias"}, DEMO, **around).thresholds == best
    assert after({"scheme": "pias", "thresholds": "optimal"}, DEMO, traffic=TRAFFIC).thresholds == best
    by_pias = pias_thresholds(TRAFFIC.sizes, TRAFFIC.load, 8)
    assert after({"scheme": "pias", "thresholds": "pias"}, DEMO, traffic=TRAFFIC).thresholds == by_pias
    # a scheme of percentiles begins where its document says
    assert after({"scheme": "mlfq-adaptive"}, DEMO, **around).thresholds == (100_000,)


def test_fitted__a_reserved_queue_that_the_scheme_lacks_is_not_kept() -> None:
    before = {**DEMO, "reserved_dscp": [60], "reserved_queue": 3}
    policy = after({"scheme": "dctcp"}, before)
    assert (policy.reserved_dscp, policy.reserved_queue) == ((60,), 0)


DOCUMENTS: list[dict[str, Any]] = [
    *({"scheme": name} for name in SCHEMES),
    {"scheme": "pias", "queues": 3, "thresholds": ["10KB", "1MB"], "mark_at": "18KB", "untagged_queue": 0},
    {"scheme": "sluice", "mark_at": "18KB", "growth": 4, "shares": None},
    {"scheme": "mlfq-adaptive", "overrides": [{"ports": ["s1:2"], "freeze": True}], "acts_at": []},
    {"scheme": "pias", "queues": 4, "thresholds": ["1KB", "2KB", "3KB"]},
]


def made(document: dict[str, Any]) -> Policy:
    return Policy.from_document(document)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_chosen__makes_the_same_policy_again_and_is_short(document: dict[str, Any]) -> None:
    policy = made(document)
    assert made(fitting.chosen(policy)) == policy
    assert fitting.chosen(policy).keys() <= document.keys()


def after_changes(before: Policy, settings: dict[str, Any]) -> Policy:
    return made(fitting.changed(before, settings))


def test_changed__what_follows_from_a_key_follows_the_new_value() -> None:
    before = made({"scheme": "sluice", "mark_at": "18KB"})
    assert after_changes(before, {"mark_at": "36KB"}) == made({"scheme": "sluice", "mark_at": "36KB"})
    fixed = made({"scheme": "sluice", "mark_at": "18KB", "buffer": "500KB"})
    assert after_changes(fixed, {"mark_at": "20KB"}).buffer == 500_000


def test_changed__default_gives_a_key_its_default_again() -> None:
    before = made({"scheme": "dctcp", "mark_at": "18KB", "buffer": "60KB"})
    assert after_changes(before, {"mark_at": "default"}) == made({"scheme": "dctcp", "buffer": "60KB"})


def test_changed__another_scheme_leaves_the_rest_to_the_network() -> None:
    before = made({"scheme": "pias", "queues": 2, "thresholds": ["10KB"], "mark_at": "18KB"})
    assert fitting.changed(before, {"scheme": "sluice", "growth": 4}) == {"scheme": "sluice", "growth": 4}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queues": 4}, "thresholds: must be a list of 3 values"),
        ({"mark_at": "x"}, "mark_at: .*not a quantity"),
        ({"scheme": "pais"}, r"scheme: .*did you mean pias"),
    ],
)
def test_changed__an_error_names_the_key(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError, match=message):
        fitting.changed(made({"scheme": "pias", "queues": 2, "thresholds": ["10KB"]}), settings)


FOUR_QUEUES = {"scheme": "mlfq-adaptive", "queues": 4}
FIXED = {"thresholds": [10_000, 20_000, 30_000]}


def with_overrides(*overrides: dict[str, Any]) -> Policy:
    return made({**FOUR_QUEUES, "overrides": list(overrides)})


def test_overridden__the_new_rule_replaces_the_port_s_own_and_decides() -> None:
    before = with_overrides({"ports": ["s1:2", "s1:3"], "freeze": True}, {"ports": ["s1:*"], **FIXED})
    now = after_changes(before, fitting.overridden(before, "s1:2", {"freeze": True}))
    assert now.to_document()["overrides"] == [
        {"ports": ["s1:3"], "freeze": True},
        {"ports": ["s1:*"], **FIXED},
        {"ports": ["s1:2"], "freeze": True},
    ]
    assert now.is_frozen("s1:2")
    assert now.fixed_at("s1:3") == (10_000, 20_000, 30_000)
    assert after_changes(now, fitting.overridden(now, "s1:2", FIXED)).fixed_at("s1:2") == (
        10_000,
        20_000,
        30_000,
    )


def test_not_overridden__ends_the_rule_of_the_port_alone() -> None:
    before = with_overrides({"ports": ["s1:2", "s1:3"], "freeze": True}, {"ports": ["s1:2"], **FIXED})
    now = after_changes(before, fitting.not_overridden(before, "s1:2"))
    assert now.override_of("s1:2") is None
    assert now.is_frozen("s1:3")


def test_not_overridden__names_the_override_that_includes_the_port() -> None:
    with pytest.raises(FieldError, match=r"names s1:2 itself; s1:\* includes it"):
        fitting.not_overridden(with_overrides({"ports": ["s1:*"], "freeze": True}), "s1:2")
    with pytest.raises(FieldError, match=r"names s1:2 itself$"):
        fitting.not_overridden(with_overrides(), "s1:2")
