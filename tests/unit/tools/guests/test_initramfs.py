# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.guests import initramfs


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"odd")
    monkeypatch.setattr(initramfs, "program", lambda name: str(busybox))
    return initramfs.build({"init": b"#!/bin/sh\n", "objects/deep/x.o": bytes(range(7))})


def test_the_archive_holds_every_file_and_its_folders(archive: bytes) -> None:
    names = _names(archive)
    assert {"bin/busybox", "init", "objects", "objects/deep", "objects/deep/x.o", "proc"} <= set(names)
    assert names[-1] == "TRAILER!!!"


def test_a_folder_comes_before_what_is_in_it(archive: bytes) -> None:
    names = _names(archive)
    assert names.index("objects") < names.index("objects/deep") < names.index("objects/deep/x.o")


def test_every_part_begins_at_a_multiple_of_four(archive: bytes) -> None:
    assert len(archive) % 4 == 0
    assert all(at % 4 == 0 for at in _offsets(archive))


def test_a_program_comes_with_its_libraries() -> None:
    files = initramfs.with_libraries(subprocess.check_output(["which", "tc"], text=True).strip())
    assert any(name.rpartition("/")[2].startswith("libc.so") for name in files)
    assert not any(name.startswith("/") for name in files)


def _offsets(archive: bytes) -> dict[int, str]:
    """Return the names in an archive by offset. The sizes are hexadecimal fields of eight digits."""
    found, at = {}, 0
    while at < len(archive):
        assert archive[at : at + 6] == b"070701"
        size, name_size = int(archive[at + 54 : at + 62], 16), int(archive[at + 94 : at + 102], 16)
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        found[at] = name
        at += (110 + name_size + 3) // 4 * 4 + (size + 3) // 4 * 4
    return found


def _names(archive: bytes) -> list[str]:
    return list(_offsets(archive).values())
