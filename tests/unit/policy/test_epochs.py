# SPDX-License-Identifier: Apache-2.0
"""QJUMP's network epoch and the limits of its levels (policy/schemes/epochs.py)."""

from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.fabrics import SIMULATOR, TESTBED, check_fabric
from sluice.policy.schema import fitting
from sluice.policy.schema.desired import Policy, host_queue_map, queue_map
from sluice.policy.schemes import epochs
from sluice.policy.units import FRAME_BYTES
from sluice.policy.wire.agents import HostSettings
from sluice.runs.files import scenario_with
from sluice.topologies import build
from tests.kit.known import known

FRAME_NS = 8 * FRAME_BYTES / 10  # at 10 Gb/s
FABRIC: dict[str, Any] = {
    "name": "levels",
    "fabric": {"topology": "single", "hosts": 12, "host_rate": "10Gbit", "link_delay": "1us"},
    "scheme": {"name": "qjump"},
    "workload": {"flow": [{"from": "h1", "to": "h2", "bytes": "1KB"}]},
}


def test_epoch__of_one_switch() -> None:
    """Idle: two frames and two delays. At most two frames of lower levels are in the way, at both links."""
    topology = build("single", hosts=12, host_rate_bps=10**10, link_delay_ns=1000)
    path = known(fitting.path_of(topology))
    assert path.epoch_ns == pytest.approx(26 * FRAME_NS + 2000, abs=2)


def test_epoch__of_the_slowest_host_and_the_longest_path() -> None:
    topology = build(
        "leaf-spine", leaves=3, spines=2, hosts_per_leaf=4, host_rate_bps=10**10, core_rate_bps=4 * 10**10
    )
    path = known(fitting.path_of(topology))
    idle_ns = (2 + 2 / 4) * FRAME_NS + sum(port.delay_ns for port in topology.ports[:4])
    assert path.epoch_ns == pytest.approx((24 + 2) * FRAME_NS + idle_ns, abs=2)


def test_rates__the_guaranteed_level_has_one_frame_of_two_for_each_host() -> None:
    epoch_ns = epochs.network_epoch_ns(50, 10**10, idle_us=0, switches=1)
    first, second = epochs.level_rates_bps((1, 10), epoch_ns)
    assert first == pytest.approx(10**10 / (2 * 50), rel=1e-4)
    assert second == pytest.approx(10 * first, abs=10)
    assert first * epoch_ns <= 8 * FRAME_BYTES * 10**9
    assert epochs.level_bytes((1, 10)) == (FRAME_BYTES, 10 * FRAME_BYTES)


def test_scenario__its_fabric_gives_the_epoch_unless_the_document_does() -> None:
    policy = scenario_with(FABRIC).scenario.policy
    assert policy.epoch == pytest.approx(26 * FRAME_NS + 2000, abs=2)
    named = scenario_with(FABRIC, scheme={"name": "qjump", "epoch": "50us", "throughput_factors": [1, 5]})
    assert named.scenario.policy.epoch == 50_000
    assert named.scenario.policy.throughput_factors == (1, 5)


def test_policy__without_a_network_has_no_epoch() -> None:
    for fabric in (TESTBED, SIMULATOR):
        with pytest.raises(FieldError, match="epoch: is missing"):
            check_fabric(Policy.from_document({"scheme": "qjump"}), fabric)
    check_fabric(Policy.from_document({"scheme": "qjump", "epoch": "1ms"}), TESTBED)


def test_hosts__get_tags_and_limits() -> None:
    policy = Policy.from_document({"scheme": "qjump", "epoch": "1ms", "throughput_factors": [1, 5]})
    settings = HostSettings.of(policy)
    assert settings.level_rates_bps == (8 * FRAME_BYTES * 1000, 5 * 8 * FRAME_BYTES * 1000)
    assert settings.level_bytes == (FRAME_BYTES, 5 * FRAME_BYTES)
    others = (HostSettings.of(policy, acts=False), HostSettings.of(Policy.from_document({"scheme": "pias"})))
    assert [(host.level_rates_bps, host.level_bytes) for host in others] == [((), ()), ((), ())]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"host_queues": False}, "host_queues: must be true with scheme qjump"),
        ({"reserved_dscp": [8, 46]}, "reserved_dscp: must be above 8, the last level of qjump"),
    ],
)
def test_policy__lets_hosts_tag_and_limit_the_levels(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(FieldError, match=problem):
        Policy.from_document({"scheme": "qjump", **table})


def test_policy__says_where_its_epoch_comes_from() -> None:
    path = fitting.NetworkPath(10**10, 20.0, epoch_ns=40_000)
    change = fitting.fitted({"scheme": "qjump"}, fitting.Surroundings(path))
    assert change.policy.epoch == 40_000
    assert "10 Gb/s" in change.reasons["epoch"]
    assert Policy.from_document(change.policy.to_document()) == change.policy


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"throughput_factors": [2, 1]}, "throughput_factors: must increase, but 1 follows 2"),
        ({"throughput_factors": [0, 1]}, "throughput_factors: .*65535"),
        ({"throughput_factors": []}, "throughput_factors: .*1 to 7 values"),
        ({"throughput_factors": [1, 2, 3, 4, 5, 6, 7, 8]}, "throughput_factors: .*1 to 7 values"),
        ({"queues": 4}, r"queues"),
        (
            {"scheme": "pias", "throughput_factors": [1]},
            r"scheme pias has no levels; omit throughput_factors",
        ),
        ({"scheme": "dctcp", "epoch": 40_000}, r"scheme dctcp has no levels; omit epoch"),
    ],
)
def test_policy__bad_values_name_their_key(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(FieldError, match=problem):
        Policy.from_document({"scheme": "qjump", **table})


@pytest.mark.parametrize("level", [0, 9, 1.5, "1", True])
def test_scenario__a_level_is_one_of_eight(level: object) -> None:
    flow = {"from": "h1", "to": "h2", "bytes": "1KB", "level": level}
    with pytest.raises(FieldError, match=r"workload\.flow\[0\]\.level"):
        scenario_with(FABRIC, workload={"flow": [flow]})


def test_queues__the_tag_is_the_level() -> None:
    """Untagged packets have the last level, and so have tags that no host of the scheme writes."""
    policy = Policy.from_document({"scheme": "qjump"})
    at_port = queue_map(policy, ())
    assert at_port[:9] == (7, 0, 1, 2, 3, 4, 5, 6, 7)
    assert set(at_port[9:]) == {7}
    assert host_queue_map(policy) == at_port
