# SPDX-License-Identifier: Apache-2.0
"""Prints how large the project is: `python -m tools.size [COMMIT]`, for the tree or for a commit.

A private function's name begins with an underscore. It is called once if its file has the name in one other place.
Empty files do not count for the median. Floors are the longest chain of imports inside a room.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)

Sources = Mapping[str, str]
"""Path of a Python file → its text."""


def sources(commit: str | None) -> Sources:
    """Return the Python files of a commit, or of the tree. Raises CalledProcessError."""
    if commit is None:
        return {name: (ROOT / name).read_text() for name in _git("ls-files", "*.py").split()}
    names = _git("ls-tree", "-r", "--name-only", commit).split()
    return {name: _git("show", f"{commit}:{name}") for name in names if name.endswith(".py")}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def import_lines(text: str) -> int:
    """Return the lines that import statements at the head of a file take."""
    return sum(
        (node.end_lineno or 0) - node.lineno + 1
        for node in ast.parse(text).body
        if isinstance(node, _IMPORTS)
    )


def called_once(text: str) -> tuple[int, int]:
    """Return how many private functions of a file are named in one other place there, and how many functions it has."""
    words = Counter(re.findall(r"\w+", text))
    names = Counter(node.name for node in ast.walk(ast.parse(text)) if isinstance(node, _FUNCTIONS))
    private = (name for name in names if name.startswith("_") and not name.endswith("__"))
    return sum(words[name] - names[name] == 1 for name in private), names.total()


def floors(files: Sources, room: str) -> int:
    """Return the length of the longest chain of imports of a room's files, in files. Circles count once."""
    names = [name for name in files if name.startswith(f"{room}/")]
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in names}
    below = {
        module: {*_imported(files[name])} & (modules.keys() - {module}) for module, name in modules.items()
    }

    @cache
    def depth(module: str, above: frozenset[str] = frozenset()) -> int:
        new = below[module] - above
        return 1 + max((depth(other, above | {module}) for other in new), default=0) if new else 1

    return max(map(depth, modules), default=0)


def _imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("sluice.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.removeprefix("sluice.")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def report(files: Sources) -> Iterator[str]:
    """Yield a line for each number."""
    product = {name: text for name, text in files.items() if not name.startswith("tests/")}
    tests = {name: text for name, text in files.items() if name.startswith("tests/")}
    lines = {name: text.count("\n") for name, text in files.items()}
    total, tested = (sum(lines[name] for name in some) for some in (product, tests))
    middle = median(lines[name] for name, text in product.items() if text.strip())
    once, functions = map(sum, zip(*map(called_once, product.values()), strict=True))
    yield f"Python lines without tests / of tests      {total:,} / {tested:,}"
    yield f"Python files without tests / of tests      {len(product)} / {len(tests)}"
    yield f"share of import lines                      {sum(map(import_lines, product.values())) / total:.1%}"
    yield f"median file                                {middle:.0f} lines"
    yield f"private functions called once              {once / functions:.0%} ({once} of {functions})"
    yield f"webui: Python files; floors                {_files(product, 'webui')}; {floors(product, 'webui')}"
    yield f"packages of the plain installation (tree)  {(ROOT / 'requirements/run.txt').read_text().count('==')}"
    for room in sorted({name.partition("/")[0] for name in product}):
        count, length = (
            _files(product, room),
            sum(lines[name] for name in product if name.startswith(f"{room}/")),
        )
        yield f"  {room:14} {count:4} files {length:7,} lines"


def _files(files: Sources, room: str) -> int:
    return sum(name.startswith(f"{room}/") for name in files)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.size", description=__doc__.split("\n")[0] if __doc__ else ""
    )
    parser.add_argument("commit", nargs="?", help="a commit (default: the tree)")
    print(*report(sources(parser.parse_args().commit)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
