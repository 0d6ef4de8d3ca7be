# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.doctor.check import Check
from sluice.terminal import print_checks

LONG = "mount " + "x" * 200


def test_print_checks__a_remedy_is_one_line_and_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    found = [Check("a", False, "no", LONG), Check("b", True, "yes", LONG), Check("c", False, "no", LONG)]
    assert print_checks(found) == 1
    assert capsys.readouterr().out.splitlines() == [
        "✗ a: no",
        f"    remedy: {LONG}",
        "✓ b: yes",
        "✗ c: no",
        "    remedy: as above",
    ]


def test_print_checks__brackets_of_a_message_are_no_style(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_checks([Check("a", True, "[/sys/fs/bpf] [bold]", "")]) == 0
    assert capsys.readouterr().out == "✓ a: [/sys/fs/bpf] [bold]\n"
