# SPDX-License-Identifier: Apache-2.0

import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy import tags
from sluice.policy.errors import FieldError
from sluice.policy.fabrics import SIMULATOR, TESTBED, refusal
from sluice.policy.policing.limits import breach, limits_bytes
from sluice.policy.schema.desired import Policy, host_queue_map, queue_map
from sluice.policy.schemes import SCHEMES
from sluice.policy.schemes import queues as rules
from sluice.policy.schemes.ports import last_attained, written_tag

thresholds = st.lists(st.integers(1, 10**9), min_size=1, max_size=7).map(sorted)
few_thresholds = st.lists(st.integers(1, 10**9), min_size=1, max_size=3).map(sorted)

ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
URGENCY = slice(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1)
KNOWN = slice(tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST + 1)


@pytest.mark.parametrize("name", SCHEMES)
def test_queue_map__what_the_map_of_every_scheme_has(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    queues, last = queue_map(policy, policy.thresholds), policy.queues - 1
    assert len(queues) == tags.TAG_COUNT
    assert set(queues) <= set(range(policy.queues))
    assert queues[tags.BACKGROUND] == queues[tags.UNTAGGED] == last
    assert policy.definition.tags_deadlines or set(queues[URGENCY]) == {last}, "no host writes them"
    assert policy.definition.tags_sizes or set(queues[KNOWN]) == {last}
    assert list(queues[ATTAINED]) == sorted(queues[ATTAINED]), "a flow never rises by sending"
    assert list(queues[URGENCY]) == sorted(queues[URGENCY], reverse=True), "nor falls by urgency"
    assert list(queues[KNOWN]) == sorted(queues[KNOWN])
    if policy.thresholds:
        apart = queue_map(policy, tags.EDGES_BYTES[3::4][: len(policy.thresholds)])
        levels = range(len(policy.thresholds) + 1)
        beyond_the_first_packet = apart[ATTAINED][1:]
        assert sorted(set(beyond_the_first_packet)) == [
            policy.definition.queue_rule.queue_of_level(level) for level in levels
        ]


def test_queue_map__untagged_goes_where_the_policy_says() -> None:
    policy = Policy.from_document(
        {"scheme": "pias", "queues": 2, "thresholds": ["10KB"], "untagged_queue": 0}
    )
    assert queue_map(policy, policy.thresholds)[tags.UNTAGGED] == 0


@given(thresholds)
def test_merged_map__is_mlfq_for_flows_without_deadline_and_of_unknown_size(levels: list[int]) -> None:
    given_to = {"queues": len(levels) + 1, "untagged_queue": 0}
    merged, mlfq = rules.merged_map(levels, **given_to), rules.mlfq_map(levels, **given_to)
    assert merged[ATTAINED] == mlfq[ATTAINED]


def test_merged_map__urgent_flows_share_the_second_queue() -> None:
    assert set(rules.merged_map([10**5, 10**6, 10**7], queues=4, untagged_queue=3)[URGENCY]) == {1}
    assert set(rules.merged_map([10**5, 10**6], queues=3, untagged_queue=2)[URGENCY]) == {1}
    assert set(rules.merged_map([], queues=1, untagged_queue=0)) == {0}


def test_merged_map__a_known_size_is_where_the_smallest_flow_of_its_class_would_end() -> None:
    levels = [100_000, 240_000, 750_000, 1_800_000, 10_000_000]
    assert rules.merged_map(levels, queues=6, untagged_queue=5)[KNOWN] == (0, 1, 3, 5)


@given(thresholds, st.integers(0, 10**9))
def test_mlfq_map__a_flow_is_in_queue_i_while_it_has_sent_at_most_threshold_i(
    limits: list[int], attained: int
) -> None:
    queues = len(limits) + 1
    queue_of = rules.mlfq_map(limits, queues=queues, untagged_queue=0)
    bucket_top = tags.EDGES_BYTES[tags.attained_tag(attained) - tags.ATTAINED_FIRST]
    expected = sum(bucket_top > tags.snap_to_edge(limit) for limit in limits)
    assert queue_of[tags.attained_tag(attained)] == expected


@given(few_thresholds)
def test_two_level_map__flows_without_deadline_have_the_first_queue_of_every_pair(limits: list[int]) -> None:
    levels = len(limits) + 1
    queue_of = rules.two_level_map(limits, queues=2 * levels, untagged_queue=0)
    alone = rules.mlfq_map(limits, queues=levels, untagged_queue=0)
    assert [queue // 2 for queue in queue_of[ATTAINED]] == list(alone[ATTAINED])
    assert {queue % 2 for queue in queue_of[ATTAINED]} == {0}
    assert {queue % 2 for queue in queue_of[URGENCY]} == {1}


def test_two_level_map__the_slides_eight_queues() -> None:
    """Four levels: priorities 1, 3, 5, 7 by bytes sent, and 2, 4, 6, 8 by urgency, the most urgent first."""
    queue_of = rules.two_level_map([10_000, 100_000, 1_000_000], queues=8, untagged_queue=7)
    assert [queue_of[tags.attained_tag(sent)] for sent in (0, 10_000, 10_001, 100_001, 10**7)] == [
        0,
        0,
        2,
        4,
        6,
    ]
    one = tags.URGENCY_ONE
    urgencies = (0, one // 4, one // 4 + 1, one, one + 1, 4 * one, 4 * one + 1, 16 * one)
    assert [queue_of[tags.urgency_tag(s)] for s in urgencies] == [7, 7, 5, 5, 3, 3, 1, 1]


@pytest.mark.parametrize("levels", range(1, 9))
def test_urgency_levels__every_level_has_its_part_of_the_steps(levels: int) -> None:
    steps = rules.urgency_levels(levels)
    assert steps[0] == levels - 1
    assert steps[-1] == 0
    counts = [steps.count(level) for level in range(levels)]
    assert max(counts) - min(counts) <= 1
    if levels in (2, 4, 8):
        at_one = tags.urgency_tag(tags.URGENCY_ONE) - tags.URGENCY_FIRST
        assert steps[at_one : at_one + 2] == [levels // 2, levels // 2 - 1], "urgency one parts the halves"


def test_sieve_map__deadline_flows_have_the_first_queue_with_acks_and_first_packets_alone() -> None:
    queue_of = rules.sieve_map([10_000, 1_000_000], queues=4, untagged_queue=3)
    assert set(queue_of[URGENCY]) == {0}
    assert [tag for tag, queue in enumerate(queue_of) if queue == 0] == [1, *range(41, 57)]


@given(st.lists(st.integers(1, 10**9), min_size=0, max_size=6).map(sorted), st.integers(1, 10**9))
def test_sieve_map__a_known_size_is_where_the_largest_of_its_class_would_end(
    limits: list[int], size: int
) -> None:
    queue_of = rules.sieve_map(limits, queues=len(limits) + 2, untagged_queue=0)
    tag = tags.known_size_tag(size)
    if tag == tags.KNOWN_SIZE_LAST:
        assert queue_of[tag] == len(limits) + 1
    else:
        largest = tags.KNOWN_SIZE_EDGES_BYTES[tag - tags.KNOWN_SIZE_FIRST]
        assert queue_of[tag] == queue_of[tags.attained_tag(largest)]
        assert queue_of[tag] >= queue_of[tags.attained_tag(size - 1)]


def test_by_size_map__a_class_a_queue_and_who_says_nothing_is_last() -> None:
    queue_of = rules.by_size_map((), queues=4, untagged_queue=3)
    assert queue_of[KNOWN] == (0, 1, 2, 3)
    assert set(queue_of[ATTAINED]) == set(queue_of[URGENCY]) == {3}


@pytest.mark.parametrize("name", SCHEMES)
def test_host_queue_map__is_that_of_a_port_with_the_policys_thresholds_unless_switched_off(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    assert host_queue_map(policy) == queue_map(policy, policy.thresholds)
    if policy.host_queues and not policy.definition.has_levels:
        without = Policy.from_document({"scheme": name, "host_queues": False})
        assert set(host_queue_map(without)) == {0}
    assert policy.host_queues == policy.definition.queue_rule.reads_tags


def test_a_host_has_thresholds_of_its_own_where_the_policy_names_them() -> None:
    policy = Policy.from_document(
        {"scheme": "pias", "queues": 2, "thresholds": ["1MB"], "host_thresholds": ["10KB"]}
    )
    assert host_queue_map(policy) == queue_map(policy, [10_000]) != queue_map(policy, policy.thresholds)
    with pytest.raises(FieldError, match="host_thresholds"):
        Policy.from_document({"scheme": "pias", "host_thresholds": ["10KB"]})


@pytest.mark.parametrize("rule", rules.QUEUE_RULES, ids=lambda rule: rule.label)
def test_map__more_thresholds_than_levels_lead_to_no_queue_that_the_port_lacks(rule: rules.QueueRule) -> None:
    many = [10_000 * 4**i for i in range(7)]
    for queues in filter(rule.allows, range(9)):
        found = rule.map(many, queues=queues, untagged_queue=0)
        assert len(found) == tags.TAG_COUNT
        assert set(found) <= set(range(queues))


RESERVED = (10, 39, 40, 46, 56, 57)


@pytest.mark.parametrize(
    ("tag", "written"),
    [
        (0, 0),
        (9, 9),
        (10, 11),  # a larger tag promises less
        (39, 38),  # no larger one is free
        (40, 38),
        (46, 45),  # less urgent
        (56, 55),
        (57, 58),
        (61, 61),
        (63, 63),
    ],
)
def test_written_tag(tag: int, written: int) -> None:
    assert written_tag(tag, RESERVED) == written


def test_written_tag__a_kind_without_a_free_tag_is_background() -> None:
    sizes = tuple(range(tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST + 1))
    assert {written_tag(tag, sizes) for tag in sizes} == {tags.BACKGROUND}


def policy(**fields: object) -> Policy:
    return Policy.from_document({"scheme": "pias", **fields})


def test_queue_map__reserved_dscps_have_a_queue_of_their_own() -> None:
    plain, reserved = policy(), policy(reserved_dscp=[40, 46], reserved_queue=2)
    before, after = (queue_map(one, one.thresholds) for one in (plain, reserved))
    assert {tag: queue for tag, queue in enumerate(after) if queue != before[tag]} == {40: 2, 46: 2}
    default = policy(reserved_dscp=[46])
    assert queue_map(default, default.thresholds)[46] == 0


@pytest.mark.parametrize(
    "wrong", [[0], [61], [62], [46, 46], [48, 46], list(range(1, 54)), list(range(1, 41)), 46]
)
def test_field__what_can_be_reserved(wrong: object) -> None:
    with pytest.raises(FieldError, match="reserved_dscp"):
        policy(reserved_dscp=wrong)


def test_written_tag__a_policy_of_eight_tags_writes_no_others() -> None:
    """The example of docs/explanation/tag.md. Each tag is written as one that promises at most as much."""
    page = (Path(__file__).parents[3] / "docs/explanation/tag.md").read_text()
    given = Policy.from_document(tomllib.loads(page.split("```toml\n")[1].split("```")[0]))
    written = {tag: written_tag(tag, given.reserved_dscp) for tag in range(1, tags.BACKGROUND + 1)}
    assert len(set(written.values()) - {tags.BACKGROUND}) == 8
    assert not set(range(24, 32)) & set(written.values()), "the usual lossless class of RoCE"
    assert all(written[tag] >= tag for tag in range(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1))
    assert {written[tag] for tag in range(tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST + 1)} == {57, 60}
    queues = queue_map(given, given.thresholds)
    in_order = [queues[written[tag]] for tag in range(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)]
    assert in_order == [0] * 8 + [1] * 8 + [2] * 4 + [3] * 12 + [4] * 8


def test_needs__the_simulator_has_no_others() -> None:
    assert refusal(policy(reserved_dscp=[46]), TESTBED) is None
    problem = refusal(policy(reserved_dscp=[46]), SIMULATOR)
    assert problem is not None
    assert "reserved DSCPs" in problem
    assert "omit reserved_dscp" in problem


def test_limits__the_last_free_tag_of_attained_service_has_none() -> None:
    assert last_attained(RESERVED) == 38
    limits = limits_bytes(1.0, 10, reserved=RESERVED)
    assert np.isfinite(limits[1:38]).all()
    assert np.isinf(limits[38:]).all()


@pytest.mark.parametrize(
    ("reserved", "limited"), [((56,), True), ((57,), False), ((60,), False), ((61,), True)]
)
def test_limits__no_size_class_has_one_if_one_of_their_tags_is_reserved(
    reserved: tuple[int, ...], limited: bool
) -> None:
    """A larger flow may then carry the tag of a smaller class."""
    limits = limits_bytes(1.0, 10, reserved=reserved)
    assert np.isfinite(limits[tags.KNOWN_SIZE_FIRST : tags.KNOWN_SIZE_LAST]).all() == limited
    assert np.isinf(limits[tags.KNOWN_SIZE_LAST])


def test_breach__others_traffic_is_no_offence() -> None:
    payload = np.zeros(tags.TAG_COUNT)
    payload[10] = 1e9
    assert breach(payload, 1.0, 10) is not None
    assert breach(payload, 1.0, 10, reserved=RESERVED) is None
    payload[9] = 1e9
    found = breach(payload, 1.0, 10, reserved=RESERVED)
    assert found is not None
    assert found.tag == 9


@given(st.integers(0, 2**63))
def test_attained_tag__bucket_contains_the_bytes(attained: int) -> None:
    k = tags.attained_tag(attained) - tags.ATTAINED_FIRST
    assert 0 <= k < 40
    if k:
        assert attained > tags.EDGES_BYTES[k - 1]
    if k < 39:
        assert attained <= tags.EDGES_BYTES[k]


def test_urgency_tag__one_is_an_edge() -> None:
    below = tags.urgency_tag(tags.URGENCY_ONE)
    assert tags.urgency_tag(tags.URGENCY_ONE + 1) == below + 1
    assert tags.urgency_tag(0) == tags.URGENCY_FIRST
    assert tags.urgency_tag(2**40) == tags.URGENCY_LAST


@given(st.integers(1, 10**9))
def test_snap_to_edge__never_above_the_threshold_unless_below_the_first_edge(threshold: int) -> None:
    edge = tags.snap_to_edge(threshold)
    assert edge in tags.EDGES_BYTES
    assert edge <= max(threshold, 1000)
