# SPDX-License-Identifier: Apache-2.0
"""The import rule: which room may import which. The table is docs/rooms.toml."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
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


@cache
def imported_names(path: Path) -> frozenset[str]:
    """Dotted names: `from sluice import store` is `sluice.store`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def imported_modules(path: Path) -> set[str]:
    """Rooms by their folders, other packages by their first name."""
    return {room_of(name) for name in imported_names(path)}


def room_of(name: str) -> str:
    first, second = f"{name}.".split(".")[:2]
    return second if first == "sluice" and second in ROOMS else first


def files_of(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found
    return found


def test_rooms__are_the_packages_of_the_tree() -> None:
    assert set(ROOMS) == packages()


def test_rooms__nothing_imports_experiments_and_dependencies_point_downwards() -> None:
    order = list(ROOMS)
    for room, entry in ROOMS.items():
        assert all(order.index(other) < order.index(room) for other in entry["imports"]), room
        assert "experiments" not in entry["imports"]


@pytest.mark.parametrize("package", sorted(packages()))
def test_imports__a_room_imports_only_what_it_may(package: str) -> None:
    allowed = {package, *ROOMS[package]["imports"]}
    for path in files_of(package):
        foreign = (imported_modules(path) & set(ROOMS)) - allowed
        assert not foreign, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


def started_modules(path: Path) -> Iterator[str]:
    """Names of Sluice's modules that a file starts as processes: `"-m", "sluice.x"`, or a service by its name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.List | ast.Tuple | ast.Call):
            values = node.args if isinstance(node, ast.Call) else node.elts
            words = [value.value if isinstance(value, ast.Constant) else None for value in values]
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("service_argv"):
                yield from (cli.SERVICES[str(word)] for word in words if word is not None)
            if "-m" in words:
                module, command = [*words[words.index("-m") + 1 :], None, None][:2]
                if str(module).split(".")[0] == "sluice":
                    yield cli.SERVICES.get(str(command), str(module))


@pytest.mark.parametrize("package", sorted(packages()))
def test_starts__a_room_starts_the_processes_that_it_lists(package: str) -> None:
    """Who starts a process by its name needs that room as much as who imports it."""
    started = {room_of(module) for path in files_of(package) for module in started_modules(path)}
    assert started == set(ROOMS[package]["starts"])


def test_imports__every_room_is_a_part_of_sluice() -> None:
    """What pip installs has one import name. In the tree, a link in sluice/ leads to the folder of each room."""
    rooms = set(ROOMS) - {"sluice", "experiments"}
    assert {path.name for path in (ROOT / "sluice").iterdir() if path.is_symlink()} == rooms
    tracked = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for path in map(ROOT.joinpath, tracked.stdout.split()):
        assert not {name.split(".")[0] for name in imported_names(path)} & rooms, path


def test_policy__has_no_io_clock_or_randomness_of_its_own() -> None:
    for path in files_of("policy"):
        modules = imported_modules(path)
        assert not modules & IMPURE, f"{path.relative_to(ROOT)} imports {sorted(modules & IMPURE)}"
        foreign = {m for m in modules if m not in sys.stdlib_module_names} - {"policy"}
        assert foreign <= LIBRARIES_OF_POLICY, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


def test_imports__no_test_module_imports_another() -> None:
    """What several of them need lies beside them under a name of its own, or in tests/kit."""
    for path in files_of("tests"):
        tests = {name for name in imported_names(path) if name.startswith("tests.") and ".test_" in name}
        assert not tests, f"{path.relative_to(ROOT)} imports {sorted(tests)}"


SERVICES = (
    "sluice.controller.launcher",
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


def test_imports__no_service_waits_for_the_libraries_of_reports_and_sweeps() -> None:
    """A testbed starts a process for each host, and most of its first second is imports."""
    program = f"import sys, sluice.topologies.testbed, {', '.join(SERVICES)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not (HEAVY | MININET) & set(done.stdout.split())


def without_extras(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `sluice` in a process that can import no extra: None in sys.modules stands for a missing library."""
    program = f"import sys; sys.modules.update(dict.fromkeys({EXTRA})); from sluice.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False, timeout=300
    )


def test_extras__every_command_and_service_starts_without_them() -> None:
    modules = [f"sluice.commands.{name}" for name in cli.COMMANDS]
    modules += ["sluice.webui.app", "sluice.run_manager.manager", *SERVICES, *cli.SERVICES.values()]
    program = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({EXTRA}))
for name in {modules}:
    module = importlib.import_module(name)
    if name.startswith("sluice.commands."):
        module.parser().format_help()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("plots", ["compare", "nowhere"]),
        ("plots", ["demo", "--tour"]),
        ("completion", ["completion", "bash"]),
        ("cluster", ["sweep", "paper-mix", "--cluster", "slurm", "--out", "nowhere"]),
        ("cluster", ["sweep", "paper-mix", "--profile", "/", "--out", "nowhere"]),
        ("postgresql", ["web", "--store", "postgresql+psycopg://nobody@127.0.0.1:9/none"]),
        ("postgresql", ["controller", "--store", "postgresql+psycopg://nobody@127.0.0.1:9/none"]),
    ],
)
def test_extras__a_command_that_needs_one_names_it(extra: str, words: list[str], tmp_path: Path) -> None:
    done = without_extras(*words)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("sluice")
    assert f"pip install 'sluice[{extra}]'" in line
