# SPDX-License-Identifier: Apache-2.0
"""What can name a file, compared with what the kernel takes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sluice.runtime.toml import can_name_a_file, exists, is_file


@pytest.mark.parametrize("text", ["a", "a" * 255, "ä" * 127, "b/" * 2047 + "b", "/" + "c" * 200, ".."])
def test_a_name_that_the_kernel_takes(text: str) -> None:
    assert can_name_a_file(text)
    assert not is_file(Path("/nowhere") / text)


@pytest.mark.parametrize("text", ["a" * 256, "ä" * 128, "b/" * 2048 + "b", f"/tmp/{'c' * 256}/d"])
def test_a_name_that_is_too_long(text: str) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
        Path(text).lstat()
    assert not can_name_a_file(text)
    assert not is_file(Path(text))
    assert not exists(Path(text))


@pytest.mark.parametrize("text", ["", " ", "a\0b"])
def test_a_text_that_is_no_name(text: str) -> None:
    assert not can_name_a_file(text)


def test_a_file_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    assert is_file(tmp_path / "there")
    assert exists(tmp_path)
    assert not is_file(tmp_path)
