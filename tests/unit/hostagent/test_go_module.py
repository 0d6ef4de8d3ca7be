# SPDX-License-Identifier: Apache-2.0
"""The Go module is formatted, and its own tests pass. tests/kernel shows its programs with a hook."""

from __future__ import annotations

import re

import pytest

from sluice.hostagent.sockets import flow, options
from tests.kit import go

pytestmark = pytest.mark.go


def test_its_own_tests_pass() -> None:
    done = go.command("go", "test", "./...")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok  \tsluice.internal/sluice\t" in done.stdout


def test_its_files_have_the_format_of_gofmt_and_nothing_to_vet() -> None:
    assert go.command("gofmt", "-l", ".").stdout == ""
    done = go.command("go", "vet", "./...")
    assert (done.returncode, done.stderr) == (0, "")


def test_its_numbers_are_those_of_the_python_package() -> None:
    source = "".join(path.read_text() for path in sorted(go.MODULE.glob("*.go")))
    found = dict(re.findall(r"^\s*(\w+)\s+= (0x[0-9A-F]+|\d+)\b", source, re.MULTILINE | re.IGNORECASE))
    assert int(found["solSluice"], 16) == options.SOL_SLUICE
    assert [int(found[name]) for name in ("optionFlow", "optionState")] == [
        options.SLUICE_FLOW,
        options.SLUICE_STATE,
    ]
    assert int(found["fastestLinkGbit"]) == flow.FASTEST_LINK_GBIT
    assert int(found["importanceMax"]) == flow.IMPORTANCE_MAX
