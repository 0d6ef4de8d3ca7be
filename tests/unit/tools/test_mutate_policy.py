# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools import mutate_policy
from tools.mutate_policy import Mutant, mutants

SOURCE = '''
from functools import lru_cache
LIMIT = 5

@lru_cache(maxsize=8)
def small(x: int, least: int = 3) -> bool:
    """Words are no code: 1 < 2."""
    return not x >= least and min(x, LIMIT) == x

class Box:
    size: int = 1
    grown = staticmethod(lambda size: size * 3)

    @property
    def full(self) -> bool:
        return self.size > 0
'''


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a small module that stands in policy/."""
    (tmp_path / "box.py").write_text(SOURCE)
    monkeypatch.setattr(mutate_policy, "POLICY", tmp_path)
    made = ModuleType("policy.box")
    monkeypatch.setitem(sys.modules, "policy.box", made)
    exec(compile(SOURCE, "box.py", "exec"), vars(made))
    return made


def test_mutants__of_code_alone(policy: ModuleType) -> None:
    found = [(mutant.what, mutant.in_function) for mutant in mutants("box")]
    assert sorted(found) == [
        ("0 -> 1", True),
        ("1 -> 2", False),
        ("3 -> 4", False),
        ("5 -> 6", False),
        ("And -> Or", True),
        ("Eq -> NotEq", True),
        ("Gt -> GtE", True),
        ("GtE -> Gt", True),
        ("Mult -> Add", False),
        ("min -> max", True),
        ("not x -> x", True),
    ]


def test_mutants__each_is_another_program(policy: ModuleType) -> None:
    codes = [mutate_policy._compiled("box", mutant) for mutant in mutants("box")]
    assert len({*map(repr, map(_constants_and_bytes, codes))}) == len(codes)


def _constants_and_bytes(code: object) -> object:
    constants = getattr(code, "co_consts", None)
    return code if constants is None else (code.co_code, [_constants_and_bytes(c) for c in constants])  # type: ignore[attr-defined]


def the(what: str) -> Mutant:
    return next(mutant for mutant in mutants("box") if mutant.what == what)


def test_install__functions_that_others_have_imported_become_the_mutant(policy: ModuleType) -> None:
    small, box = policy.small, policy.Box()
    assert box.full
    mutant = the("not x -> x")
    mutate_policy._install(mutant, mutate_policy._compiled("box", mutant))
    assert small(4)
    mutant = the("Gt -> GtE")
    box.size = 0
    mutate_policy._install(mutant, mutate_policy._compiled("box", mutant))
    assert box.full


def test_every_chosen_module_has_tests_and_mutants() -> None:
    for module in mutate_policy.MODULES:
        assert any(mutate_policy._groups(module)), module
        assert sum(1 for _ in mutants(module)) > 10
        assert ast.parse((mutate_policy.POLICY / f"{module}.py").read_text())
