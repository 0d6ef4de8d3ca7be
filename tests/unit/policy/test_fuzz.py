# SPDX-License-Identifier: Apache-2.0
"""Policy and scenario documents of any shape: accepted, or refused by a FieldError that names a field."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import SCHEMES
from sluice.policy.workload.scenario import scenario_from_document
from sluice.runs.files import load_cdf, load_trace, read_document

pytestmark = pytest.mark.slow

MANY = settings(suppress_health_check=list(HealthCheck))

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        [
            2**63,
            10**40,
            -1,
            0,
            1,
            8,
            "10KB",
            "65pkt",
            "1e9KB",
            "0.5",
            "5ms",
            "10Gbit",
            "\x00",
            "h1",
            "optimal",
            *SCHEMES,
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)
POLICIES = st.builds(
    lambda scheme, changes: {"scheme": scheme, **changes},
    st.one_of(st.sampled_from(sorted(SCHEMES)), VALUES),
    st.dictionaries(
        st.one_of(st.sampled_from(sorted(Policy.__dataclass_fields__)), st.text(max_size=8)),
        VALUES,
        max_size=4,
    ),
)
SCENARIOS = [read_document(Path(name)) for name in ("demo", "paper-mix")]


@MANY
@given(st.one_of(POLICIES, VALUES))
def test_policy__accepted_or_a_field_error(document: Any) -> None:
    try:
        policy = Policy.from_document(document)
    except FieldError:
        return
    assert Policy.from_document(policy.to_document()) == policy


def places(document: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every value in a document."""
    for key, value in document.items():
        yield (*at, key)
        if isinstance(value, dict):
            yield from places(value, (*at, key))


@st.composite
def changed_scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Return a valid scenario with up to three values replaced, left out or added."""
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(SCENARIOS)))
    for _ in range(draw(st.integers(1, 3))):
        *at, key = draw(st.sampled_from(sorted(places(document))))
        table = document
        for name in at:
            table = table[name]
        match draw(st.sampled_from(["replace", "leave out", "add"])):
            case "replace":
                table[key] = draw(VALUES)
            case "leave out":
                del table[key]
            case "add":
                table[draw(st.text(min_size=1, max_size=8))] = draw(VALUES)
    return document


@MANY
@given(st.one_of(changed_scenarios(), VALUES.filter(lambda value: isinstance(value, dict))))
def test_scenario__accepted_or_a_field_error(document: dict[str, Any]) -> None:
    with suppress(FieldError):
        scenario_from_document(document, load_cdf, load_trace)
