# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.desired import Policy
from policy.errors import FieldError
from policy.schemes import SCHEMES


@pytest.mark.parametrize("name", SCHEMES)
def test_from_document__defaults_are_valid_and_round_trip(name):
    policy = Policy.from_document({"scheme": name})
    assert Policy.from_document(policy.to_document()) == policy


def test_from_document__sizes_take_units():
    policy = Policy.from_document(
        {"scheme": "pias", "queues": 3, "thresholds": ["10KB", "1MB"], "mark_at": "65pkt"}
    )
    assert policy.thresholds == (10_000, 1_000_000)
    assert policy.mark_at == 97_500


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "scheme"),
        ({"scheme": "cake"}, "scheme"),
        ({"scheme": ["pias"]}, "scheme"),
        ({"scheme": "pias", "colour": "red"}, "colour"),
        ({"scheme": "pias", "queues": 0}, "queues"),
        ({"scheme": "pias", "queues": 9}, "queues"),
        ({"scheme": "pias", "queues": True}, "queues"),
        ({"scheme": "pias", "queues": 2.0}, "queues"),
        ({"scheme": "dctcp", "queues": 2}, "queues"),
        ({"scheme": "pias", "queues": 3}, "thresholds"),
        ({"scheme": "pias", "queues": 3, "thresholds": [10, 10]}, "thresholds"),
        ({"scheme": "pias", "queues": 3, "thresholds": ["1MB", "10KB"]}, "thresholds"),
        ({"scheme": "pias", "queues": 3, "thresholds": [10]}, "thresholds"),
        ({"scheme": "pias", "queues": 2, "thresholds": ["10 parsec"]}, "thresholds"),
        ({"scheme": "pias", "queues": 2, "thresholds": [-1]}, "thresholds"),
        ({"scheme": "mlfq-adaptive", "window_ms": -1}, "window_ms"),
        ({"scheme": "mlfq-adaptive", "interval_ms": 0}, "interval_ms"),
        ({"scheme": "mlfq-adaptive", "percentiles": [0]}, "percentiles"),
        ({"scheme": "mlfq-adaptive", "percentiles": [float("nan")]}, "percentiles"),
        ({"scheme": "mlfq-adaptive", "queues": 3, "percentiles": [20, 10]}, "percentiles"),
        ({"scheme": "pias", "percentiles": [1, 2, 3, 4, 5, 6, 7]}, "percentiles"),
        ({"scheme": "tcp", "mark_at": "65pkt"}, "mark_at"),
        ({"scheme": "dctcp", "buffer": 10}, "buffer"),
        ({"scheme": "pias", "untagged_queue": 8}, "untagged_queue"),
    ],
)
def test_from_document__names_the_bad_field(document, field):
    with pytest.raises(FieldError) as caught:
        Policy.from_document(document)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["scheme", "queues", "thresholds", "percentiles", "window_ms", "mark_at", "buffer"]),
        json_values,
    ),
    st.sampled_from(list(SCHEMES)),
)
def test_from_document__anything_else_is_a_field_error(document, scheme):
    try:
        policy = Policy.from_document({"scheme": scheme, **document})
    except FieldError:
        return
    assert Policy.from_document(policy.to_document()) == policy
