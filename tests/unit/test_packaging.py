# SPDX-License-Identifier: Apache-2.0
"""What the package has to ship, by pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from sluice.runtime import extras

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_package_says_that_it_is_typed() -> None:
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["sluice"]
    assert (ROOT / "sluice" / "py.typed").exists()


@pytest.mark.parametrize("pattern", PROJECT["project"]["license-files"])
def test_the_licence_texts_are_there(pattern: str) -> None:
    assert list(ROOT.glob(pattern))


@pytest.mark.parametrize("extra", PROJECT["project"]["optional-dependencies"])
def test_every_requirement_has_an_exact_version(extra: str) -> None:
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().split()}
    canonical = {_canonical(name) for name in pinned}
    requirements = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"][extra]
    assert {_canonical(requirement) for requirement in requirements} <= canonical


def _hashed(name: str) -> dict[str, str]:
    """Return the versions in a file of requirements/ by package."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all("--hash=sha256:" in line for line in lines)
    found = (line.partition(" ")[0].partition("==") for line in lines)
    return {_canonical(package): version for package, _, version in found}


@pytest.mark.parametrize("name", ["run", "demo", "lab", "dev", "node", "audit", "fuzz"])
def test_every_package_with_hashes_has_the_version_of_the_constraints(name: str) -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pinned = {_canonical(line): line.partition("==")[2] for line in lines}
    for package, version in _hashed(name).items():
        assert pinned.get(package) == version, f"{package}: enter it in constraints.txt, then `make pins`"


EXTRAS = PROJECT["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("run", []), ("demo", ["plots"]), ("lab", EXTRAS.keys() - {"cluster", "dev"}), ("dev", EXTRAS.keys())],
)
def test_every_requirement_has_hashes(name: str, wanted: Iterable[str]) -> None:
    needed = [*PROJECT["project"]["dependencies"], *(one for extra in wanted for one in EXTRAS[extra])]
    needed += [] if name == "run" else PROJECT["build-system"]["requires"]
    assert {_canonical(requirement) for requirement in needed} <= _hashed(name).keys(), "run `make pins`"


MOST_PACKAGES = 60


def test_the_plain_installation_is_small() -> None:
    assert len(_hashed("run")) <= MOST_PACKAGES, "make what one command needs an extra (runtime/extras.py)"


def test_every_library_that_a_user_may_lack_is_in_the_extra_that_its_message_names() -> None:
    for library, extra in extras.EXTRAS.items():
        names = {_canonical(requirement) for requirement in EXTRAS[extra]}
        assert _canonical(library) in names


def _canonical(requirement: str) -> str:
    name = requirement
    for mark in "[=<>~!, ":
        name = name.partition(mark)[0]
    return name.lower().replace("_", "-").replace(".", "-")
