# SPDX-License-Identifier: Apache-2.0
"""The types of a kernel that does not run here (its vmlinux.h), from its image."""

from __future__ import annotations

from pathlib import Path

from sluice.runtime.command import run
from tools.guests.image import elf
from tools.guests.kernels import Kernel, program


def header(kernel: Kernel, folder: Path) -> Path:
    """Write vmlinux.h of a kernel into a folder, and return its path."""
    made = folder / "vmlinux.h"
    made.write_text(run([program("bpftool"), "btf", "dump", "file", str(elf(kernel)), "format", "c"]))
    return made
