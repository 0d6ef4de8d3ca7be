# SPDX-License-Identifier: Apache-2.0
"""The types of a kernel that does not run here (its vmlinux.h), from its image.

Source of the image's form: Documentation/arch/x86/boot.rst of the kernel, "The real-mode kernel header".
"""

from __future__ import annotations

import lzma
import struct
import tempfile
from pathlib import Path

from policy.errors import EnvironmentLacking
from runtime.command import run
from tools.guests.kernels import Kernel, program

_SETUP_SECTORS, _PAYLOAD = 0x1F1, 0x248
_SECTOR_BYTES = 512
_XZ = b"\xfd7zXZ"


def header(kernel: Kernel, folder: Path) -> Path:
    """Write vmlinux.h of a kernel into a folder, and return its path."""
    made = folder / "vmlinux.h"
    with tempfile.NamedTemporaryFile() as elf:
        elf.write(unpack(kernel.image.read_bytes()))
        elf.flush()
        made.write_text(run([program("bpftool"), "btf", "dump", "file", elf.name, "format", "c"]))
    return made


def unpack(image: bytes) -> bytes:
    """Return the ELF file in a kernel's image (bzImage). Raises EnvironmentLacking for an unknown compression."""
    begin, size = struct.unpack_from("<II", image, _PAYLOAD)
    start = (image[_SETUP_SECTORS] + 1) * _SECTOR_BYTES + begin
    payload = image[start : start + size]
    if payload.startswith(_XZ):
        return lzma.LZMADecompressor().decompress(payload)
    raise EnvironmentLacking("the kernel's image has a compression other than xz, which is Debian 12's")
