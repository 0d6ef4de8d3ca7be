# SPDX-License-Identifier: Apache-2.0
"""The import rule: which room may import which. The table is docs/rooms.toml."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice import cli
from sluice.runtime import extras

ROOT = Path(__file__).parents[2]
ROOMS = tomllib.loads((ROOT / "docs" / "rooms.toml").read_text())
NO_ROOMS = {"tests", "tools"}
"""Packages that may import every room."""
IMPURE = {"socket", "subprocess", "os", "time", "random", "pathlib", "io", "asyncio", "threading", "logging"}
LIBRARIES_OF_POLICY = {"numpy"}


def packages() -> set[str]:
    """The packages that the tree has."""
    return {path.parent.name for path in ROOT.glob("*/__init__.py")} - NO_ROOMS


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every file of the tree that git knows, by its path from the root, and its text."""
    argv = ["git", "ls-files", "*.py"]
    tracked = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:
        yield Path(name), (ROOT / name).read_text()


def imported_names(tree: ast.AST) -> set[str]:
    """Dotted names: `from sluice import store` is `sluice.store`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def started_modules(tree: ast.AST) -> Iterator[str]:
    """Names of Sluice's modules that a file starts as processes: `"-m", "sluice.x"`, or a service by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple | ast.Call):
            values = node.args if isinstance(node, ast.Call) else node.elts
            words = [value.value if isinstance(value, ast.Constant) else None for value in values]
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("service_argv"):
                yield from (cli.SERVICES[str(word)] for word in words if word is not None)
            if "-m" in words:
                module, command = [*words[words.index("-m") + 1 :], None, None][:2]
                if str(module).split(".")[0] == "sluice":
                    yield cli.SERVICES.get(str(command), str(module))


def room_of(name: str) -> str:
    first, second = f"{name}.".split(".")[:2]
    return second if first == "sluice" and second in ROOMS else first


def test_rooms__are_the_packages_of_the_tree() -> None:
    assert set(ROOMS) == packages()


def test_rooms__nothing_imports_experiments_and_dependencies_point_downwards() -> None:
    order = list(ROOMS)
    for room, entry in ROOMS.items():
        assert all(order.index(other) < order.index(room) for other in entry["imports"]), room
        assert "experiments" not in entry["imports"]


def test_imports__every_file_imports_and_starts_only_what_it_may() -> None:
    """Who starts a process by its name needs that room as much as who imports it.

    What pip installs has one import name. In the tree, a link in sluice/ leads to the folder of each room. What several
    tests need lies beside them under a name of its own, or in tests/kit.
    """
    parts = set(ROOMS) - {"sluice", "experiments"}
    assert {path.name for path in (ROOT / "sluice").iterdir() if path.is_symlink()} == parts
    started: dict[str, set[str]] = {package: set() for package in ROOMS}
    for path, text in texts():
        tree = ast.parse(text)
        names = imported_names(tree)
        assert not {name.split(".")[0] for name in names} & parts, path
        assert not {name for name in names if name.startswith("tests.") and ".test_" in name}, path
        package = path.parts[0]
        if package not in ROOMS:
            continue
        modules = {room_of(name) for name in names}
        foreign = (modules & set(ROOMS)) - {package, *ROOMS[package]["imports"]}
        assert not foreign, f"{path} imports {sorted(foreign)}"
        if '"-m"' in text or "service_argv" in text:
            started[package] |= {room_of(module) for module in started_modules(tree)}
        if package == "policy":
            assert not modules & IMPURE, f"{path} imports {sorted(modules & IMPURE)}"
            libraries = {name for name in modules if name not in sys.stdlib_module_names} - {"policy"}
            assert libraries <= LIBRARIES_OF_POLICY, path
    assert started == {package: set(entry["starts"]) for package, entry in ROOMS.items()}


SERVICES = (
    "sluice.controller.app",
    "sluice.webui.server",
    "sluice.hostagent.agent",
    "sluice.hostagent.port.agent",
    "sluice.cli",
)
HEAVY = {"matplotlib", "pandas", "pyarrow", "scipy", "snakemake"}
EXTRA = (*extras.EXTRAS, "cmake", "nanobind", "ninja", "requests", "scipy")
"""Libraries that the plain installation lacks, or that only others of its libraries need."""
MININET = {"mininet"}
"""Loggers that a process makes after it has imported Mininet lose their INFO. Only the supervisor imports it."""


def run_without_extras(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that can import no extra: None in sys.modules stands for a missing library."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({EXTRA}))\n"
    return subprocess.run(
        [sys.executable, "-c", blocked + program], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.slow
def test_extras__every_command_and_service_starts_without_them_and_no_service_imports_heavy_libraries() -> (
    None
):
    """A testbed starts a process for each host, and most of its first second is imports."""
    modules = ["sluice.webui.app", "sluice.run_manager", *cli.SERVICES.values()]
    done = run_without_extras(f"""
import importlib, sluice.topologies.testbed, {", ".join(SERVICES)}
print(*(name for name, module in sys.modules.items() if module is not None))
for name in {modules}:
    importlib.import_module(name)
for name in {[*cli.COMMANDS]}:
    sluice.cli.command(name)[0].format_help()
""")
    assert done.returncode == 0, done.stderr
    assert not (HEAVY | MININET) & set(done.stdout.split())


LACKING = (
    ("plots", ["compare", "nowhere"]),
    ("plots", ["demo", "--tour"]),
    ("completion", ["completion", "bash"]),
    ("cluster", ["sweep", "paper-mix", "--cluster", "slurm", "--out", "nowhere"]),
    ("cluster", ["sweep", "paper-mix", "--profile", "/", "--out", "nowhere"]),
    ("postgresql", ["web", "--store", "postgresql+psycopg://nobody@127.0.0.1:9/none"]),
    ("postgresql", ["controller", "--store", "postgresql+psycopg://nobody@127.0.0.1:9/none"]),
)
"""Extra, and a command line that needs it."""


@pytest.mark.slow
def test_extras__a_command_that_needs_one_names_it() -> None:
    done = run_without_extras(f"""
from sluice.cli import main
for _, words in {LACKING}:
    assert main(words) == 2
""")
    assert done.returncode == 0, done.stderr
    for (extra, _), line in zip(LACKING, done.stderr.splitlines(), strict=True):
        assert line.startswith("sluice")
        assert f"pip install 'sluice[{extra}]'" in line
