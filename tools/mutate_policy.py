# SPDX-License-Identifier: Apache-2.0
"""Break the files of policy/ that decide, in one place at a time, and see whether their tests notice.

    python -m tools.mutate_policy [--share 0.25] [--seed 1] [MODULE ...]

A mutant has another operator, comparison, constant or choice of min and max in one place. Its module's own tests judge
it, and if they pass, those of policy/ that import the module. Each mutant has a process of its own. The command
prints the score and every survivor, and ends with 1 if there is one that ACCEPTED does not name.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import importlib.machinery
import importlib.util
import io
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from tools.mutate_laws import NoShrinking

POLICY, TESTS = Path("policy"), Path("tests/unit/policy")
MODULES = (
    "marking",
    "online_thresholds",
    "queue_map",
    "queue_rules",
    "sanctions",
    "static_thresholds",
    "tag_limits",
    "thresholds",
)
LIMIT_S = 120
_RESET = "since_reset = np.where((now >= 0) & (now < MOST_GROWN), now, 0)"
_SLICES = "if len(self._times_ns) > 1 and now_ns - self._times_ns[-2] < self.window_ns // _SLICES_A_WINDOW:"
_KNOWN = "known=[min(bisect_right(edges, size), queues - 1) for size in smallest],"
_RATIO = "(_limited_bytes(payload, reserved) / np.maximum(limits, negligible[:, None])).max(axis=-1)"
_SUM = "_sum: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))"
ACCEPTED = {
    f"thresholds.py:116: 0 -> 1 in `{_RESET}`": "a counter that says 0 has grown by 0 either way",
    f"thresholds.py:80: 1 -> 2 in `{_SLICES}`": "a window keeps one slice more at its start",
    "thresholds.py:46: 1 -> 2 in `MOST_GROWN = 1 << 48`": "any number far above what a port can count",
    "thresholds.py:46: 48 -> 49 in `MOST_GROWN = 1 << 48`": "the same",
    "thresholds.py:48: 256 -> 257 in `_SLICES_A_WINDOW = 256`": "how finely a window moves is a free choice",
    f"tag_limits.py:120: USub -> UAdd in `{_RATIO}`": "the second of two axes is the last one",
    "tag_limits.py:85: 1 -> 2 in `of_flow[tags.KNOWN_SIZE_FIRST : tags.KNOWN_SIZE_LAST + 1] = np.inf`": (
        "background, the tag behind the last class, has no limit anyway"
    ),
    f"thresholds.py:65: 0 -> 1 in `{_SUM}`": "no one reads it before the first counters",
    "static_thresholds.py:46: 4 -> 5 in `SWEEPS = 4`": "one more sweep finds the same thresholds",
    "marking.py:16: 10 -> 11 in `MAX_BACKLOG_BYTES = 10**9`": "a bound that is a free choice",
    "static_thresholds.py:215: LtE -> Lt in `if between[1] <= between[0]:`": "between equal bounds is one place",
    f"queue_rules.py:93: Sub -> Add in `{_KNOWN}`": "a policy has one threshold fewer than queues",
    "marking.py:21: 100 -> 101 in `MAX_MARK_FACTOR = 100`": "a bound that is a free choice",
    "sanctions.py:46: 0 -> 1 in `since_ns: int = 0`": "no one reads it before the first suspicion",
}
"""Survivor, as it is printed → why no test can or should notice it."""

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.USub: ast.UAdd,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_OTHERS = {"minimum": "maximum", "maximum": "minimum", "floor": "ceil", "ceil": "floor"}
_NO_CODE = ("annotation", "returns", "decorator_list", "defaults", "kw_defaults")
"""Parts of a definition that the function does not run."""


@dataclass(frozen=True)
class Mutant:
    """One place of a module, and what stands there instead."""

    module: str
    place: int
    """Number of the node, in the order of `_nodes`."""
    part: int
    """Number of the comparison within its node; 0 for other nodes."""
    in_function: bool
    line: int
    what: str
    code: str

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line}: {self.what} in `{self.code}`"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", help=f"of {', '.join(MODULES)}; all unless given")
    parser.add_argument("--share", type=float, default=1.0, help="of all mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    if unknown := set(given.modules) - set(MODULES):
        parser.error(f"{', '.join(unknown)}: must be of {', '.join(MODULES)}")
    every = [mutant for module in given.modules or MODULES for mutant in mutants(module)]
    picked = random.Random(given.seed).sample(every, round(given.share * len(every)))
    return _judge_all(picked, len(every))


def mutants(module: str) -> Iterator[Mutant]:
    """Yield the mutants of a module."""
    text = _path(module).read_text()
    for place, (node, in_function) in enumerate(_nodes(ast.parse(text))):
        for part in range(_parts(node)):
            line = getattr(node, "lineno", 0)
            code = text.splitlines()[line - 1].strip()
            what = _change(copy.deepcopy(node), part)
            yield Mutant(module, place, part, in_function, line, what, code)


def _path(module: str) -> Path:
    return POLICY / f"{module}.py"


def _nodes(node: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield the nodes in a fixed order, each with whether a function runs it, but no annotations and decorators."""
    yield node, in_function
    is_function = isinstance(node, ast.FunctionDef)  # a lambda outside has no name to find it by
    for name, value in ast.iter_fields(node):
        if name in _NO_CODE:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child, in_function or (is_function and name == "body"))


def _parts(node: ast.AST) -> int:
    """Return in how many ways the node can be changed."""
    match node:
        case ast.Compare():
            return len(node.ops)
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() | ast.UnaryOp():
            return int(type(node.op) in _OPERATORS or isinstance(node.op, ast.Not))
        case ast.Constant():
            return int(isinstance(node.value, bool | int | float))
        case ast.Name():
            return int(node.id in _NAMES)
        case ast.Attribute():
            return int(node.attr in _OTHERS)
    return 0


def _change(node: ast.AST, part: int) -> str:
    """Change the node in place, and return what was changed."""
    match node:
        case ast.Compare():
            before = node.ops[part]
            node.ops[part] = _OPERATORS[type(before)]()  # type: ignore[call-overload]
            return f"{type(before).__name__} -> {type(node.ops[part]).__name__}"
        case ast.UnaryOp(op=ast.Not()):
            # bool(x) instead of not x
            node.__class__ = ast.BoolOp  # type: ignore[assignment]
            vars(node).update(op=ast.Or(), values=[node.operand, ast.Constant(False)])
            ast.fix_missing_locations(node)
            return "not x -> x"
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() | ast.UnaryOp():
            name = type(node.op).__name__
            node.op = _OPERATORS[type(node.op)]()  # type: ignore[assignment]
            return f"{name} -> {type(node.op).__name__}"
        case ast.Constant():
            value: Any = node.value
            node.value = not value if isinstance(value, bool) else value + 1
            return f"{value} -> {node.value}"
        case ast.Name():
            before_name, node.id = node.id, _NAMES[node.id]
            return f"{before_name} -> {node.id}"
        case ast.Attribute():
            before_name, node.attr = node.attr, _OTHERS[node.attr]
            return f"{before_name} -> {node.attr}"
    raise AssertionError("a node that cannot be changed")


def _compiled(mutant: Mutant) -> CodeType:
    tree = ast.parse(_path(mutant.module).read_text())
    for place, (node, _) in enumerate(_nodes(tree)):
        if place == mutant.place:
            _change(node, mutant.part)
    return compile(ast.fix_missing_locations(tree), str(_path(mutant.module)), "exec", dont_inherit=True)


# ── Judging ────────────────────────────────────────────────────────────────────────────────────


def _judge_all(picked: list[Mutant], total: int) -> int:
    with contextlib.redirect_stdout(io.StringIO()):
        modules = {mutant.module for mutant in picked}
        every_file = sorted({path for module in modules for group in _groups(module) for path in group})
        pytest.main(["-q", "--collect-only", *map(str, every_file)])  # imports all that tests need
        if _fails_in_a_child(every_file, lambda: None):
            sys.exit("the tests of policy/ fail without a mutant: mend that first")
        survivors = [mutant for mutant in picked if not _is_killed(mutant)]
    for mutant in survivors:
        print(f"survived: {mutant}  {ACCEPTED.get(str(mutant), '')}")
    killed = len(picked) - len(survivors)
    print(
        f"{killed} of {len(picked)} mutants killed ({100 * killed / max(1, len(picked)):.1f} %); {total} in all"
    )
    return 1 if any(str(mutant) not in ACCEPTED for mutant in survivors) else 0


def _is_killed(mutant: Mutant) -> bool:
    code = _compiled(mutant)
    killed = any(
        _fails_in_a_child(files, lambda: _install(mutant, code)) for files in _groups(mutant.module) if files
    )
    print(f"{'killed' if killed else 'survived':9} {mutant}", file=sys.stderr, flush=True)
    return killed


def _groups(module: str) -> list[list[Path]]:
    """Return the tests of a module, and then the other tests of policy/ that import it."""
    own = TESTS / f"test_{module}.py"
    imports = (f"from policy.{module} import", f"policy.{module} as")
    others = [
        path
        for path in sorted(TESTS.glob("test_*.py"))
        if path != own and any(one in path.read_text() for one in imports)
    ]
    return [[own] if own.exists() else [], others]


def _fails_in_a_child(files: list[Path], install: Callable[[], None]) -> bool:
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)  # of CPU time: a mutant may loop for ever
        status = 1
        with contextlib.suppress(BaseException):
            install()
            status = int(
                pytest.main(["-x", "-q", "-p", "no:cacheprovider", *map(str, files)], [NoShrinking()])
            )
        os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def _install(mutant: Mutant, code: CodeType) -> None:
    """Make the tests of this process use the mutant."""
    module = sys.modules[f"policy.{mutant.module}"]
    if not (mutant.in_function and _exchange(module, code)):
        _import_anew(f"policy.{mutant.module}", code)


def _exchange(module: ModuleType, code: CodeType) -> bool:
    """Give the module's functions the code of the mutant. Returns False if one of them is out of reach."""
    codes = dict(_function_codes(code))
    functions = {function.__qualname__: function for function in _functions(vars(module), module.__name__)}
    if not codes.keys() <= functions.keys():
        return False
    for name, changed in codes.items():
        functions[name].__code__ = changed
    return True


def _function_codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """Yield the functions of a module and the methods of its classes, by qualified name, with their code."""
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
            continue
        if constant.co_flags & 0x2:  # CO_NEWLOCALS: a function, not the body of a class
            if not constant.co_name.startswith("<"):
                yield constant.co_qualname, constant
        else:
            yield from _function_codes(constant)


def _functions(found: Any, module: str) -> Iterator[FunctionType]:
    """Yield the functions among these values that the module defines, also behind decorators and in its classes."""
    for value in list(found.values()):
        one = value
        for attribute in ("fget", "func", "__func__", "__wrapped__"):
            one = getattr(one, attribute, one)
        if isinstance(one, FunctionType) and one.__module__ == module:
            yield one
        elif isinstance(value, type) and value.__module__ == module:
            yield from _functions(vars(value), module)


def _import_anew(name: str, code: CodeType) -> None:
    """Forget the project's modules, and import the mutant as this module. Slower, but it reaches constants, too."""
    rooms = {"policy", "runtime", "dataplane", "store", "controller", "hostagent", "topologies", "simulator"}
    rooms |= {"webui", "sluice", "experiments", "tests"}
    for known in [known for known in sys.modules if known.partition(".")[0] in rooms]:
        del sys.modules[known]

    class Loader(importlib.machinery.SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType | None:
            return code if fullname == name else super().get_code(fullname)

    class Finder:
        @staticmethod
        def find_spec(fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
            if fullname != name:
                return None
            path = str(Path(*name.split(".")).with_suffix(".py").resolve())
            return importlib.util.spec_from_file_location(name, path, loader=Loader(name, path))

    sys.meta_path.insert(0, Finder)
    importlib.import_module(name)


if __name__ == "__main__":
    sys.exit(main())
