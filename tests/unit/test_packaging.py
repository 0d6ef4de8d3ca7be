# SPDX-License-Identifier: Apache-2.0
"""What the package has to ship, by pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = [
    pattern.removesuffix("*") for pattern in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


def test_py_typed_is_shipped_with_every_package() -> None:
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["*"]


@pytest.mark.parametrize("pattern", PROJECT["project"]["license-files"])
def test_the_licence_texts_are_there(pattern: str) -> None:
    assert list(ROOT.glob(pattern))


@pytest.mark.parametrize("extra", PROJECT["project"]["optional-dependencies"])
def test_every_requirement_has_an_exact_version(extra: str) -> None:
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().split()}
    canonical = {_canonical(name) for name in pinned}
    requirements = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"][extra]
    assert {_canonical(requirement) for requirement in requirements} <= canonical


def _canonical(requirement: str) -> str:
    name = requirement
    for mark in "[=<>~!, ":
        name = name.partition(mark)[0]
    return name.lower().replace("_", "-").replace(".", "-")
