# SPDX-License-Identifier: Apache-2.0
"""A page's commands run in one shell, and the transcript shows what they print."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.wait import wait_until
from tests.kit.pages import blocks
from tools.transcript.__main__ import follow
from tools.transcript.shell import Shell
from tools.transcript.text import Step, clock, markdown, shortened

SHELL = ["bash", "--norc", "--noprofile"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_shell__the_folder_and_the_variables_hold_for_the_next_block(here: Path) -> None:
    with Shell(SHELL) as shell:
        assert shell.run("mkdir -p a  # a comment\ncd a\nx=5").code == 0
        done = shell.run("echo $x \\\n  more\npwd")
    assert (done.code, done.text) == (0, f"5 more\n{here}/a\n")


def test_shell__a_quotation_may_have_lines() -> None:
    with Shell(SHELL) as shell:
        done = shell.run("echo '\n# a\n b'  # don't\necho more")
    assert (done.code, done.text) == (0, "\n# a\n b\nmore\n")


def test_shell__a_failure_ends_the_block_and_keeps_its_output() -> None:
    with Shell(SHELL) as shell:
        done = shell.run("echo before\nls /nowhere\necho after")
    assert done.code == 2
    assert "before" in done.text
    assert "No such file" in done.text
    assert "after" not in done.text


def test_shell__what_it_has_started_ends_with_it(here: Path) -> None:
    with Shell(SHELL) as shell:
        shell.start("echo $BASHPID > pid\nexec sleep 1000")
        wait_until(lambda: (here / "pid").exists() and (here / "pid").read_text().strip(), "it has started")
        number = int((here / "pid").read_text())
        os.kill(number, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_follow__does_what_the_page_says_to_the_first_failure(here: Path) -> None:
    page = here / "page.md"
    page.write_text(
        "# Page\n\n<!-- save: x.txt -->\n\n```text\nhello\n```\n\n<!-- run -->\n\n```sh\ncat x.txt\n```\n\n"
        "```sh\ntouch never\n```\n\n<!-- run -->\n\n```sh\nfalse\n```\n\n<!-- run -->\n\n```sh\ntouch late\n```\n"
    )
    steps = follow(blocks(page), SHELL)
    assert [(step.what, step.text, step.code) for step in steps] == [
        ("save x.txt", "", 0),
        ("run", "hello\n", 0),
        ("run", "", 1),
    ]
    assert not (here / "never").exists()
    assert not (here / "late").exists()


def test_markdown__has_times_commands_and_outputs() -> None:
    steps = [Step(2, "save a.py", "x\n", ""), Step(75.4, "run", "make \\\n  all\nls 'a\nb'\n", "done\n", 1)]
    text = markdown("Page", "../page.md", "a machine", "abc", 12.3, steps)
    assert "# Transcript: Page" in text
    assert "**1:15** (minutes:seconds) and 12 s of CPU time" in text
    assert "**0:02** The reader saves `a.py`." in text
    assert "```text\n$ make \\\n  all\n$ ls 'a\nb'\ndone\n```" in text
    assert "ends with exit code 1" in text


def test_shortened__leaves_out_the_middle_and_what_a_line_overwrites() -> None:
    text = "\n".join(f"0 %\r{i} %" for i in range(100))
    lines = shortened(text).splitlines()
    assert lines[0] == "0 %"
    assert "… 40 lines …" in lines
    assert lines[-1] == "99 %"
    assert shortened("same\nsame\n") == "same"


def test_clock() -> None:
    assert [clock(5), clock(65.9), clock(3600)] == ["0:05", "1:05", "60:00"]
