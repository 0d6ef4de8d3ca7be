# SPDX-License-Identifier: Apache-2.0
"""What campaigns of `make fuzz-parsers` have kept still breaks no parser."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import TARGETS, corpus


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_answers_every_kept_input_with_its_own_errors_only(name: str) -> None:
    inputs = corpus(name)
    assert inputs, "a target without corpus"
    for data in inputs:
        TARGETS[name](data)
