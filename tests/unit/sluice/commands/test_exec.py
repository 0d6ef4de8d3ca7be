# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.commands import exec as exec_module


def test_parser__all_words_after_the_dashes_are_the_programs() -> None:
    given = exec_module.parser().parse_args(
        ["h1", "--testbed", "7", "--", "sh", "-c", "x", "--", "--testbed"]
    )
    assert (given.host, given.testbed) == ("h1", 7)
    assert given.program == ["sh", "-c", "x", "--", "--testbed"]


@pytest.mark.parametrize("words", [["h1"], ["h1", "--"], ["h1", "ls"], ["h1", "iperf", "-c", "h3"]])
def test_parser__without_a_program_the_message_shows_one(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        exec_module.parser().parse_args(words)
    assert "sluice exec h1 -- ping -c 3 h3" in capsys.readouterr().err
