# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.workload.flows import parse_trace


def test_parse_trace__ms_kb_sender() -> None:
    trace = parse_trace("t", "# PIAS\n5.0 8731 2\n\n48.0 8 14 # the second\n")
    assert trace.gap_s.tolist() == [0.005, 0.048]
    assert trace.size_bytes.tolist() == [8731 * 1024, 8 * 1024]
    assert trace.sender.tolist() == [2, 14]
    assert len(trace) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no flow"),
        ("# nothing", "no flow"),
        ("5.0 8731", "line 1"),
        ("5.0 8731 2\n1 2 3 4", "line 2"),
        ("5.0 8731 2\nms KB sender", "line 2"),
        ("5.0 8731 1.5", "line 1"),
        ("-1 8731 2", "line 1"),
        ("nan 8731 2", "line 1"),
        ("1 0 2", "line 1"),
        ("1 nan 2", "line 1"),
        ("1 8 -2", "line 1"),
        ("1 8 70000", "line 1"),
    ],
)
def test_parse_trace__bad_lines_are_named(text: str, says: str) -> None:
    with pytest.raises(FieldError, match=says) as caught:
        parse_trace("bad.txt", text)
    assert caught.value.field == "bad.txt"
