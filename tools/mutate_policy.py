# SPDX-License-Identifier: Apache-2.0
"""Break the files of policy/ that decide, in one place at a time, and see whether their tests notice.

    python -m tools.mutate_policy [--share 0.25] [--seed 1] [--only TEXT] [MODULE ...]

A mutant has another operator, comparison, constant or choice of min and max in one place. Its module's own tests judge
it, and if they pass, those of policy/ that import the module. Each mutant has a process of its own. The command
prints the score and every survivor, and ends with 1 if there is one that ACCEPTED does not name.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import importlib.machinery
import importlib.util
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from tools.mutants import Numbers, Place, chosen, fails_in_a_child, judged, parser, report

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
_RESET = "since_reset = np.where((now >= 0) & (now < MOST_GROWN), now, 0)"
_SLICES = "if len(self._times_ns) > 1 and now_ns - self._times_ns[-2] < self.window_ns // _SLICES_A_WINDOW:"
_SUM = "_sum: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))"
_ORDER = "np.where(np.tri(len(_POINTS), dtype=bool).T & (_POINTS[:, None] > 0), 0.0, np.inf)"
_FREE = "a bound or a fineness that is a free choice"
ACCEPTED = {
    "marking.py: 10 -> 11 in `MAX_BACKLOG_BYTES = 10**9`": _FREE,
    "marking.py: 9 -> 10 in `MAX_BACKLOG_BYTES = 10**9`": _FREE,
    "marking.py: 100 -> 101 in `MAX_MARK_FACTOR = 100`": _FREE,
    "online_thresholds.py: 0.0 -> 1.0 in "
    "`return np.asarray(load - (1 - part) * np.diff(load, axis=1, prepend=0.0))`": (
        "it changes the first bucket alone, by the same amount for both ends of each lower level"
    ),
    f"online_thresholds.py: 0 -> 1 in `_ORDER_COST: Floats = {_ORDER}`": "no edge is within the first byte",
    "online_thresholds.py: Gt -> GtE in "
    "`return np.asarray(np.where(total > most, load * most / np.maximum(total, 1e-9), load))`": (
        "the same value where equal"
    ),
    "online_thresholds.py: 0 -> 1 in "
    "`return policy.least_threshold or 0, policy.most_threshold or np.inf`": "no edge is within the first byte",
    "queue_map.py: 1 -> 2 in "
    "`found = _sent_to(found, range(tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST + 1), last)`": (
        "the next tag is background, which every rule sends to the last queue"
    ),
    "queue_rules.py: 0 -> 1 in `smallest = (0, *tags.KNOWN_SIZE_EDGES_BYTES)`": "no edge is as small as a byte",
    "sanctions.py: 0 -> 1 in `since_ns: int = 0`": "no one reads it before the first suspicion",
    "static_thresholds.py: 600 -> 601 in `GRID_POINTS = 600`": _FREE,
    "static_thresholds.py: 2048 -> 2049 in `SAMPLES = 2048`": _FREE,
    "static_thresholds.py: 0 -> 1 in `self.ends = np.unique(drawn.reshape(uniform.shape)[:, [0, -1]])`": (
        "at a step all sizes of a piece are equal, and elsewhere the second of 2048 serves as well"
    ),
    "static_thresholds.py: 1 -> 2 in `self.ends = np.unique(drawn.reshape(uniform.shape)[:, [0, -1]])`": (
        "the same for the last but one"
    ),
    "static_thresholds.py: True -> False in "
    "`return tuple(min(size, limit) for size, limit in zip(rising, most, strict=True))`": (
        "both have the same length"
    ),
    "tag_limits.py: 1 -> 2 in `attained = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)`": (
        "the next tag is one of urgency, which has no limit"
    ),
    "thresholds.py: Lt -> LtE in "
    "`below = np.count_nonzero(cumulative[:, None, :] < needed[:, :, None], axis=2)`": (
        "what is needed is never a whole number of flows"
    ),
    "thresholds.py: 256 -> 257 in `_SLICES_A_WINDOW = 256`": _FREE,
    f"thresholds.py: 0 -> 1 in `{_SUM}`": "no one reads it before the first counters",
    f"thresholds.py: Lt -> LtE in `{_SLICES}`": _FREE,
    f"thresholds.py: 1 -> 2 in `{_SLICES}`": "a window keeps one slice more at its start",
    "thresholds.py: 1 -> 2 in `while len(self._times_ns) > 1 and self._times_ns[1] <= begin_ns:`": (
        "the last time is now, which is within the window"
    ),
    f"thresholds.py: 0 -> 1 in `{_RESET}`": "a counter that says 0 has grown by 0 either way",
    f"thresholds.py: GtE -> Gt in `{_RESET}`": "a counter that says 0 has grown by 0 either way",
}
"""Key of a survivor → why no test can or should notice it."""

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
class Mutant(Place):
    """A node of a module, and how it is changed."""

    module: str
    place: int
    """Number of the node, in the order of `_nodes`."""
    part: int
    """Number of the comparison within its node; 0 for other nodes."""
    in_function: bool


def main(argv: list[str] | None = None) -> int:
    arguments = parser(__doc__, f"of {', '.join(MODULES)}; all unless given")
    given = arguments.parse_args(argv)
    if unknown := set(given.files) - set(MODULES):
        arguments.error(f"{', '.join(unknown)}: must be of {', '.join(MODULES)}")
    every = [mutant for module in given.files or MODULES for mutant in mutants(module)]
    return _judge_all(chosen(every, given))


def mutants(module: str) -> Iterator[Mutant]:
    """Yield the mutants of a module."""
    text, numbers = _text(_path(module)), Numbers()
    for place, (node, in_function) in enumerate(_nodes(ast.parse(text))):
        for part in range(_parts(node)):
            line = getattr(node, "lineno", 0)
            code = text.splitlines()[line - 1].strip()
            what = _change(copy.deepcopy(node), part)
            number = numbers.next(what, code)
            yield Mutant(f"{module}.py", line, what, code, number, module, place, part, in_function)


def _path(module: str) -> Path:
    return POLICY / f"{module}.py"


@cache
def _text(path: Path) -> str:
    """Return the file as the command found it: an edit while it runs would move the places of the mutants."""
    return path.read_text()


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


def _compiled(module: str, mutant: Mutant | None = None) -> CodeType:
    """Return the code of a module, or of a mutant of it. No bytecode on the disk is read."""
    tree = ast.parse(_text(_path(module)))
    for place, (node, _) in enumerate(_nodes(tree)):
        if mutant is not None and place == mutant.place:
            _change(node, mutant.part)
    return compile(ast.fix_missing_locations(tree), str(_path(module)), "exec", dont_inherit=True)


# ── Judging ────────────────────────────────────────────────────────────────────────────────────


def _judge_all(picked: list[Mutant]) -> int:
    with contextlib.redirect_stdout(io.StringIO()):
        modules = sorted({mutant.module for mutant in picked})
        every_file = sorted({path for module in modules for group in _groups(module) for path in group})
        pytest.main(["-q", "--collect-only", *map(str, every_file)])  # imports all that tests need
        for module in modules:
            if any(_fail(files, partial(_import_anew, module)) for files in _groups(module)):
                sys.exit(f"the tests of {module} fail without a mutant: mend that first")
        verdicts = {mutant: judged(mutant, _verdict(mutant)) for mutant in picked}
    return report(verdicts, ACCEPTED)


def _verdict(mutant: Mutant) -> str:
    code = _compiled(mutant.module, mutant)
    fail = any(_fail(files, partial(_install, mutant, code)) for files in _groups(mutant.module))
    return "killed" if fail else "survived"


def _fail(files: list[Path], install: Callable[[], None]) -> bool:
    return bool(files) and fails_in_a_child(files, install)


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


def _install(mutant: Mutant, code: CodeType) -> None:
    """Make the tests of this process use the mutant."""
    module = sys.modules[f"policy.{mutant.module}"]
    if not (mutant.in_function and _exchange(module, code)):
        _import_anew(mutant.module, code)


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


def _import_anew(module: str, code: CodeType | None = None) -> None:
    """Forget the project's modules, and import this code as the module. Slower, but it reaches constants, too."""
    name, code = f"policy.{module}", code or _compiled(module)
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
