# SPDX-License-Identifier: Apache-2.0
"""What the commands that break code on purpose promise about the names and the verdicts of mutants."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from dataplane import laws_cffi
from tools import mutate_laws, mutate_policy
from tools.mutants import Place, chosen, fails_in_a_child, parser, report


def every_law_mutant() -> Iterator[Place]:
    for path in laws_cffi.headers():
        yield from mutate_laws.mutants(path)


def every_policy_mutant() -> Iterator[Place]:
    for module in mutate_policy.MODULES:
        yield from mutate_policy.mutants(module)


pytestmark = pytest.mark.timing  # they compile laws and wait for what never ends

TOOLS = [(mutate_laws.ACCEPTED, every_law_mutant), (mutate_policy.ACCEPTED, every_policy_mutant)]


@pytest.mark.parametrize(("accepted", "every"), TOOLS, ids=["laws", "policy"])
def test_accepted__names_one_mutant_each(
    accepted: dict[str, str], every: Callable[[], Iterator[Place]]
) -> None:
    keys = [mutant.key for mutant in every()]
    assert len(set(keys)) == len(keys)
    assert set(accepted) <= set(keys), "an entry names no mutant: delete it"
    assert all(accepted.values())


LAW = "SL_LAW int f(int a)\n{\n\treturn a + 1 + 1;\n}\n"


def test_key__holds_no_line_so_that_an_edit_above_changes_none(tmp_path: Path) -> None:
    path = tmp_path / "law.h"
    path.write_text(LAW)
    before = list(mutate_laws.mutants(path))
    path.write_text("/* A comment. */\n" + LAW)
    after = list(mutate_laws.mutants(path))
    assert [one.key for one in before] == [one.key for one in after]
    assert [one.key for one in before] == [
        "law.h: + -> - in `return a + 1 + 1;`",
        "law.h: 1 -> 2 in `return a + 1 + 1;`",
        "law.h: + -> - in `return a + 1 + 1;` (2)",
        "law.h: 1 -> 2 in `return a + 1 + 1;` (2)",
    ]
    assert str(after[3]) == "law.h:4: 1 -> 2 in `return a + 1 + 1;` (2)"


def test_chosen__by_share_and_text() -> None:
    every = [Place("a.py", line, "1 -> 2", "x = 1", line) for line in range(1, 101)]
    tenth = chosen(every, parser(None, "").parse_args(["--share", "0.1"]))
    assert len(tenth) == 10
    assert tenth == sorted(tenth, key=lambda one: one.line)
    assert chosen(every, parser(None, "").parse_args(["--only", "a.py:42:"])) == [every[41]]


def test_report__fails_for_a_survivor_that_no_one_has_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three = (Place("a.py", line, "1 -> 2", f"x{line} = 1", 1) for line in (1, 2, 3))
    accepted = {one.key: "a free choice"}
    assert report({one: "survived", two: "killed", three: "equal"}, accepted) == 0
    assert capsys.readouterr().out.splitlines() == [
        "survived: a.py:1: 1 -> 2 in `x1 = 1`  a free choice",
        "1 of 2 mutants killed (50.0 %), 1 accepted survivors, 0 others; 1 change no code",
    ]
    assert report({one: "survived", two: "survived"}, accepted) == 1
    assert "NOT ACCEPTED" in capsys.readouterr().out


# ── Verdicts ───────────────────────────────────────────────────────────────────────────────────


def nothing() -> None:
    """Installs no mutant."""


@pytest.mark.parametrize(("body", "fails"), [("pass", False), ("assert 0", True), ("while True: pass", True)])
def test_verdict__a_mutant_is_killed_by_a_failure_or_if_it_never_ends(
    tmp_path: Path, body: str, fails: bool
) -> None:
    path = tmp_path / "test_one.py"
    path.write_text(f"def test() -> None:\n    {body}\n")
    assert fails_in_a_child([path], nothing, limit_s=20 if body == "pass" else 2) == fails


def test_verdict__of_laws_is_that_of_what_was_compiled_last(tmp_path: Path) -> None:
    """No library that was loaded or built before decides."""
    path = tmp_path / "test_rate.py"
    path.write_text(
        "from dataplane import laws_cffi\n"
        "def test() -> None:\n    assert laws_cffi.load().lib.sl_rate_bytes_per_s(3, 2) == 1_500_000\n"
    )
    mutate_laws._write_wrapper(tmp_path)
    header = next(one for one in laws_cffi.headers() if one.name == "rate.h")
    broken = next(one for one in mutate_laws.mutants(header) if "return bytes * SL_US_PER_S / us" in one.code)
    for mutant, fails in ((broken, True), (None, False)):
        assert mutate_laws._compiled(tmp_path, mutant)
        assert mutate_laws._fail([path], tmp_path) == fails


def test_verdict__of_policy_is_that_of_the_mutant_not_of_cached_bytecode(tmp_path: Path) -> None:
    path = tmp_path / "test_least.py"
    path.write_text(
        "from policy.marking import MIN_BUFFER_BYTES, last_mark_bytes\n"
        "def test() -> None:\n    assert (MIN_BUFFER_BYTES, last_mark_bytes(7, 2)) == (3_000, 14)\n"
    )
    constant, in_function = (
        next(one for one in mutate_policy.mutants("marking") if text in one.code and what in one.what)
        for text, what in (("MIN_BUFFER_BYTES =", "->"), ("return min(", "Mult"))
    )
    for mutant in (constant, in_function):
        code = mutate_policy._compiled("marking", mutant)
        assert mutate_policy._fail([path], partial(mutate_policy._install, mutant, code))
    assert not mutate_policy._fail([path], partial(mutate_policy._import_anew, "marking"))


@pytest.mark.parametrize("module", mutate_policy.MODULES)
def test_install__unchanged_code_fits_into_every_module(module: str) -> None:
    """An installation that fails would count as a killed mutant."""
    imported = importlib.import_module(f"policy.{module}")
    assert mutate_policy._exchange(imported, mutate_policy._compiled(module))
