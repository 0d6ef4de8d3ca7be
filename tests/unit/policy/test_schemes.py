# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from itertools import combinations

import pytest

from sluice.policy.schemes import SCHEMES, Marking, QueueRule, ThresholdRule

COLOURS = {name: scheme.colour for name, scheme in SCHEMES.items()}


@pytest.mark.parametrize("name", SCHEMES)
def test_scheme__defaults_fit_its_rules(name: str) -> None:
    scheme = SCHEMES[name]
    assert scheme.queue_rule.allows(scheme.queues)
    assert len(scheme.thresholds_bytes) == scheme.queue_rule.demotions(scheme.queues)
    assert (scheme.threshold_rule is ThresholdRule.NONE) == (not scheme.thresholds_bytes)
    assert (scheme.marking is Marking.NONE) == (not scheme.marks_bytes)


@pytest.mark.parametrize("name", SCHEMES)
def test_scheme__tags_carry_what_its_rule_reads(name: str) -> None:
    scheme = SCHEMES[name]
    both = (QueueRule.SIEVE, QueueRule.MERGED)
    assert scheme.tags_deadlines == (scheme.queue_rule in (*both, QueueRule.TWO_LEVEL))
    assert scheme.tags_sizes == (scheme.queue_rule in (*both, QueueRule.BY_SIZE))


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


@pytest.mark.parametrize(("one", "other"), list(combinations(COLOURS, 2)))
def test_colours__are_told_apart(one: str, other: str) -> None:
    """They differ by at least a tenth of the range in some channel."""
    assert re.fullmatch("#[0-9a-f]{6}", COLOURS[one])
    assert (
        max(abs(a - b) for a, b in zip(_channels(COLOURS[one]), _channels(COLOURS[other]), strict=True)) > 25
    )
