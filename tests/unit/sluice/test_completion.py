# SPDX-License-Identifier: Apache-2.0
"""Each test runs `sluice` as a shell does that completes a line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli import COMMANDS, SERVICES

pytestmark = pytest.mark.slow

SLUICE = Path(sys.executable).with_name("sluice")
TIMEOUT_S = 60.0


def words(line: str, folder: Path) -> set[str]:
    """The words that may follow at the end of a line."""
    answer = folder / "answer"
    environment = os.environ | {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    done = subprocess.run(
        [SLUICE], env=environment, cwd=folder, capture_output=True, timeout=TIMEOUT_S, text=True
    )
    assert done.stdout == ""
    return set(answer.read_text().split("\n")) - {""}


def test_words_of_the_parsers_and_names_that_no_parser_knows(tmp_path: Path) -> None:
    (tmp_path / "paper-mine.toml").touch()
    (tmp_path / "paper.txt").touch()
    assert words("sluice ", tmp_path) >= {*COMMANDS, *SERVICES}
    assert words("sluice -v run paper", tmp_path) == {"paper-mix", "paper-mine.toml"}
    assert words("sluice policy set mark_at", tmp_path) == {"mark_at=", "mark_at_core="}


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    ask = (
        f"PATH={SLUICE.parent}:$PATH; source <({SLUICE} completion bash); "
        "COMP_WORDS=(sluice swe); COMP_CWORD=1; COMP_LINE='sluice swe'; COMP_POINT=10; COMP_TYPE=9; "
        "_python_argcomplete sluice swe sluice; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", ask], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.stdout.split() == ["sweep"], done.stderr
