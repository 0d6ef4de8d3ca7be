# SPDX-License-Identifier: Apache-2.0
"""What each rule allows, and how many thresholds and levels it has: the numbers that its paper gives."""

from __future__ import annotations

import pytest

from sluice.policy import tags
from sluice.policy.controls import Need
from sluice.policy.schemes.queues import QUEUE_RULES, QueueRule

ALL = range(1, 9)
RULES: dict[QueueRule, tuple[list[int], list[int], list[int]]] = {
    QueueRule.SINGLE: ([*ALL], [0] * 8, [0, 0, 0]),
    QueueRule.SHORTEST_FIRST: ([*ALL], [0] * 8, [0, 0, 0]),
    QueueRule.BY_SIZE: ([*ALL], [0] * 8, [0, 1, 2]),
    QueueRule.MLFQ: ([*ALL], [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2]),
    QueueRule.SIEVE: ([2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5, 6], [1, 2, 3]),
    QueueRule.TWO_LEVEL: ([2, 4, 6, 8], [0, 1, 2, 3], [0, 2, 4]),
    QueueRule.MERGED: ([*ALL], [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2]),
}
"""Rule → numbers of queues that it allows, thresholds at each of them, queues of the first levels."""


def test_every_rule_is_here() -> None:
    assert set(RULES) == set(QUEUE_RULES)


@pytest.mark.parametrize("rule", QUEUE_RULES, ids=lambda rule: rule.label)
def test_rule(rule: QueueRule) -> None:
    allowed, demotions, levels = RULES[rule]
    assert [queues for queues in range(9) if rule.allows(queues)] == allowed
    assert [rule.demotions(queues) for queues in allowed] == demotions
    assert [rule.queue_of_level(level) for level in range(3)] == levels


@pytest.mark.parametrize("rule", QUEUE_RULES, ids=lambda rule: rule.label)
def test_map__more_thresholds_than_levels_lead_to_no_queue_that_the_port_lacks(rule: QueueRule) -> None:
    many = [10_000 * 4**i for i in range(7)]
    for queues in RULES[rule][0]:
        found = rule.map(many, queues=queues, untagged_queue=0)
        assert len(found) == tags.TAG_COUNT
        assert set(found) <= set(range(queues))


def test_only_rules_without_an_order_of_tags_read_none() -> None:
    assert {rule for rule in QUEUE_RULES if not rule.reads_tags} == {
        QueueRule.SINGLE,
        QueueRule.SHORTEST_FIRST,
    }
    assert {rule for rule in QUEUE_RULES if rule.needs} == {QueueRule.SHORTEST_FIRST}
    assert QueueRule.SHORTEST_FIRST.needs is Need.SHORTEST_FIRST
