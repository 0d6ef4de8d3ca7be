# SPDX-License-Identifier: Apache-2.0
"""What the wheel sluice-sim needs. `make test-packages` builds it and installs it into a fresh environment."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from sluice.policy.version import VERSION
from tools import packages

ABSENT = (
    "controller",
    "dataplane",
    "experiments",
    "flask",
    "hostagent",
    "mininet",
    "os_ken",
    "sqlalchemy",
    "store",
    "webui",
)
NEEDED = (
    "sluice.commands.run",
    "sluice.commands.sweep",
    "sluice.commands.compare",
    "sluice.runs.simulator_run",
)


def test_the_project_file_of_the_wheel() -> None:
    project = tomllib.loads(packages.wheel_project())["project"]
    assert (project["name"], project["version"]) == ("sluice-sim", VERSION)
    assert [name.partition(">")[0] for name in project["dependencies"]] == list(packages.WHEEL_LIBRARIES)


def test_every_file_that_is_copied_for_the_wheel_is_part_of_it(tmp_path: Path) -> None:
    """Setuptools drops a file that no pattern names, without a word."""
    files = [path for path in packages.tracked(*packages.WHEEL_ROOMS) if packages.is_in_the_wheel(path)]
    packages.copy(files, tmp_path)
    (tmp_path / "README.md").touch()
    (tmp_path / "LICENSE").touch()
    (tmp_path / "pyproject.toml").write_text(packages.wheel_project())
    built = tmp_path / "built"
    build = "from setuptools import setup; setup()"
    subprocess.run(
        [sys.executable, "-c", build, "-q", "build", "--build-base", tmp_path / "base", "--build-lib", built],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    assert {path.relative_to(built) for path in built.rglob("*") if path.is_file()} == set(files)


def test_the_simulator_and_its_reports_import_nothing_of_the_testbed() -> None:
    """A module that is None in sys.modules cannot be imported."""
    code = f"import sys; sys.modules.update(dict.fromkeys({ABSENT})); import {', '.join(NEEDED)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
