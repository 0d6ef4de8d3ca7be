# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime.toml import NotToml, parse_toml, read_toml

DEEP, LONG = "a = " + "[" * 5000, "a = " + "9" * 5000


def test_parse__tables() -> None:
    assert parse_toml("[a]\nb = 1") == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "problem"), [("a", "Expected '='"), (DEEP, "nested too deeply"), (LONG, "5000 digits")]
)
def test_parse__anything_else_is_no_toml(text: str, problem: str) -> None:
    with pytest.raises(NotToml, match=problem):
        parse_toml(text)


def test_read__bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b'a = "\xff"')
    with pytest.raises(NotToml, match="utf-8"):
        read_toml(tmp_path / "file")
