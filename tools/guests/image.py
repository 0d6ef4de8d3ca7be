# SPDX-License-Identifier: Apache-2.0
"""The kernel's ELF file (vmlinux) in its compressed image (bzImage).

Source of the image's form: Documentation/arch/x86/boot.rst of the kernel, "The real-mode kernel header".
"""

from __future__ import annotations

import lzma
import struct
import subprocess
import tempfile
from pathlib import Path

from sluice.policy.errors import EnvironmentLacking
from tools.guests.kernels import Kernel, program

_SETUP_SECTORS, _PAYLOAD = 0x1F1, 0x248
_SECTOR_BYTES = 512
_XZ, _ZSTD = b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"


def elf(kernel: Kernel) -> Path:
    """Return the ELF file of a kernel. It is unpacked once and kept beside the image.

    A guest that starts it needs half the CPU time of its boot, because it does not decompress the image itself.
    """
    kept = kernel.image.with_name(f"vmlinux-{kernel.release}")
    if not kept.exists():
        with tempfile.NamedTemporaryFile(dir=kept.parent, prefix="elf.", delete=False) as partial:
            partial.write(unpack(kernel.image.read_bytes()))
        Path(partial.name).replace(kept)
    return kept


def unpack(image: bytes) -> bytes:
    """Return the ELF file in a kernel's image. Raises EnvironmentLacking for an unknown compression."""
    begin, size = struct.unpack_from("<II", image, _PAYLOAD)
    start = (image[_SETUP_SECTORS] + 1) * _SECTOR_BYTES + begin
    payload = image[start : start + size]
    if payload.startswith(_XZ):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(_ZSTD):
        return _with_zstd(payload)
    raise EnvironmentLacking("the kernel's image has a compression other than xz and zstd, which Debian uses")


def _with_zstd(payload: bytes) -> bytes:
    """Return the decompressed file. zstd complains about the length that follows it in the image."""
    ended = subprocess.run([program("zstd"), "-dcq"], input=payload, capture_output=True, check=False)
    if not ended.stdout.startswith(b"\x7fELF"):
        raise EnvironmentLacking(f"zstd cannot unpack the kernel's image: {ended.stderr.decode().strip()}")
    return ended.stdout
