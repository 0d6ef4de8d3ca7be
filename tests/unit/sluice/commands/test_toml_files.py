# SPDX-License-Identifier: Apache-2.0
"""Commands report a file that the TOML reader cannot take, and name it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.commands import network, policy
from sluice.policy.errors import SluiceError
from sluice.runs.files import read_document, setting
from sluice.runtime.settings.service import from_file
from sluice.webui.options import WebOptions

DEEP, LONG = "a = " + "[" * 5000, "a = " + "9" * 5000


@pytest.mark.parametrize("text", [DEEP, LONG])
@pytest.mark.parametrize(
    "read", [read_document, network._read, policy._read, lambda path: from_file(WebOptions, path)]
)
def test_commands__report_it(read: Callable[[Path], object], text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text)
    with pytest.raises(SluiceError, match=r"file\.toml"):
        read(path)


def test_a_setting_that_is_no_toml_is_text() -> None:
    assert setting(f"fabric.buffer={'9' * 5000}") == ("fabric.buffer", "9" * 5000)
