# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.fitting import (
    LEAST_MARK_BYTES,
    NetworkPath,
    Surroundings,
    differences,
    fitted,
    path_of,
)
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
    return fitted(document, Surroundings(before=history, **around)).policy


def test_path__rate_and_round_trip_of_the_network() -> None:
    topology = build("leaf-spine", host_rate_bps=5_000_000, core_rate_bps=10_000_000, link_delay_ns=1_000_000)
    path = known(path_of(topology))
    frames_us = 8 * (1514 + 67) * (2 / 5 + 2 / 10)
    assert path.rate_bps == 5_000_000
    assert path.round_trip_us == pytest.approx(frames_us + 8 * 1000)


@pytest.mark.parametrize(
    ("rate_bps", "round_trip_us", "mark_bytes"),
    [
        (10**10, 4.8, 97_500),
        (10**10, 85.2, 97_500),
        (4 * 10**10, 85.2, 390_000),
        (10**10, 200, 250_000),
        (10**9, 300, 37_500),
        (50 * 10**6, 600, LEAST_MARK_BYTES),
        (5 * 10**6, 10_000, LEAST_MARK_BYTES),
    ],
)
def test_mark_bytes__rate_times_round_trip(rate_bps: int, round_trip_us: float, mark_bytes: int) -> None:
    assert NetworkPath(rate_bps, round_trip_us).mark_bytes == mark_bytes


@pytest.mark.parametrize("scheme", SCHEMES)
def test_fitted__at_10_gbit_every_default_is_the_papers(scheme: str) -> None:
    path = NetworkPath(10**10, 85.2)
    assert after({"scheme": scheme}, path=path) == Policy.from_document({"scheme": scheme})


def test_fitted__k_and_buffer_follow_the_links_without_a_policy_before() -> None:
    policy = after({"scheme": "dctcp"}, path=NetworkPath(50 * 10**6, 600))
    assert (policy.mark_at, policy.buffer) == (18_000, 66_461)
    tcp = after({"scheme": "tcp"}, path=NetworkPath(50 * 10**6, 600))
    assert tcp.buffer == policy.buffer


@pytest.mark.parametrize("scheme", [name for name, one in SCHEMES.items() if one.marking is Marking.PORT])
def test_fitted__a_change_of_scheme_keeps_what_belongs_to_the_network(scheme: str) -> None:
    before = {**DEMO, "idle_gap_ms": 7, "acts_at": ["s1:2"]}
    policy = after({"scheme": scheme}, before, path=NetworkPath(10**10, 85.2))
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
    assert after(ramp, path=NetworkPath(50 * 10**6, 600)).buffer == 360_000 * 60_000 // 97_500
    deep = {"scheme": "dctcp", "mark_at": "10MB"}
    assert after(deep, path=NetworkPath(50 * 10**6, 600)).buffer == 360_000


def test_fitted__named_values_are_kept_and_null_is_the_schemes_default() -> None:
    document = {"scheme": "pias", "mark_at": "30pkt", "buffer": None, "thresholds": [*range(1, 8)]}
    change = fitted(document, Surroundings(before=(Policy.from_document(DEMO),), traffic=TRAFFIC))
    assert change.policy.mark_at == 45_000
    assert change.policy.buffer == 360_000 * 45_000 // 97_500
    assert change.policy.thresholds == (1, 2, 3, 4, 5, 6, 7)
    assert change.reasons["mark_at"] == "named in the document"


def test_fitted__a_whole_document_comes_back_unchanged() -> None:
    for scheme in SCHEMES:
        policy = Policy.from_document({"scheme": scheme})
        around = Surroundings(
            NetworkPath(10**6, 1), (Policy.from_document(DEMO),), TRAFFIC, fits_thresholds=True
        )
        assert fitted(policy.to_document(), around).policy == policy


def test_fitted__fixed_thresholds_follow_the_traffic() -> None:
    best = optimal_thresholds(TRAFFIC.sizes, TRAFFIC.load, 8, least_bytes=1)
    around = {"traffic": TRAFFIC, "fits_thresholds": True}
    assert after({"scheme": "pias"}, DEMO, **around).thresholds == best
    assert after({"scheme": "pias", "thresholds": "optimal"}, DEMO, traffic=TRAFFIC).thresholds == best
    by_pias = pias_thresholds(TRAFFIC.sizes, TRAFFIC.load, 8)
    assert after({"scheme": "pias", "thresholds": "pias"}, DEMO, traffic=TRAFFIC).thresholds == by_pias
    # a scheme of percentiles begins where its document says
    assert after({"scheme": "mlfq-adaptive"}, DEMO, **around).thresholds == (100_000,)


def test_fitted__thresholds_without_traffic_are_the_schemes_and_the_reason_says_so() -> None:
    change = fitted({"scheme": "pias"}, Surroundings(lacking="200 flows", fits_thresholds=True))
    assert change.policy.thresholds == SCHEMES["pias"].thresholds_bytes
    assert change.reasons["thresholds"] == "the scheme's own, because fitting needs 200 flows"
    with pytest.raises(FieldError, match="'optimal' needs 200 flows"):
        fitted({"scheme": "pias", "thresholds": "optimal"}, Surroundings(lacking="200 flows"))


def test_fitted__a_reserved_queue_that_the_scheme_lacks_is_not_kept() -> None:
    before = {**DEMO, "reserved_dscp": [60], "reserved_queue": 3}
    policy = after({"scheme": "dctcp"}, before)
    assert (policy.reserved_dscp, policy.reserved_queue) == ((60,), 0)


def test_differences__each_with_its_reason() -> None:
    before = Policy.from_document(DEMO)
    around = Surroundings(NetworkPath(5 * 10**6, 1e4), (before,), TRAFFIC, fits_thresholds=True)
    found = {one.field: one for one in differences(before, fitted({"scheme": "pias"}, around))}
    assert not {"mark_at", "buffer", "window_ms"} & set(found)
    assert (found["queues"].before, found["queues"].after) == (4, 8)
    assert found["queues"].because == "the scheme's default"
    assert found["thresholds"].because == "computed for two sizes"
    assert found["scheme"].because == "named in the document"
