# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import lzma
import struct
from pathlib import Path

import pytest

from sluice.policy.errors import EnvironmentLacking
from tools.guests.image import elf, unpack
from tools.guests.kernels import Kernel

VMLINUX = b"\x7fELF of a kernel"


def image(payload: bytes) -> bytes:
    """Return an image with one setup sector, and bytes after the payload as in Debian's images."""
    made = bytearray(1024)
    made[0x1F1] = 1
    struct.pack_into("<II", made, 0x248, 16, len(payload))
    return bytes(made) + bytes(16) + payload + b"more"


def test_unpack__returns_the_file_in_the_image() -> None:
    assert unpack(image(lzma.compress(VMLINUX))) == VMLINUX


def test_unpack__names_the_compressions_that_it_knows() -> None:
    with pytest.raises(EnvironmentLacking, match="other than xz and zstd"):
        unpack(image(b"\x1f\x8b of gzip"))


def test_elf__is_unpacked_once(tmp_path: Path) -> None:
    kernel = Kernel("6.1.0-1-amd64", tmp_path / "vmlinuz-6.1.0-1-amd64", tmp_path)
    kernel.image.write_bytes(image(lzma.compress(VMLINUX)))
    assert elf(kernel).read_bytes() == VMLINUX
    kernel.image.unlink()
    assert elf(kernel).read_bytes() == VMLINUX
    assert [path.name for path in tmp_path.iterdir()] == ["vmlinux-6.1.0-1-amd64"]
