# SPDX-License-Identifier: Apache-2.0
"""C++ programs of the tests that use parts of the core directly."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

CORE = Path(__file__).parents[2] / "simulator" / "core"


def compiled(source: Path, folder: Path, *before: Path) -> ctypes.CDLL:
    """Compile C++ that belongs to a test into a library, with the checks for undefined behaviour. Headers come from
    `before` if they are there."""
    library = folder / source.with_suffix(".so").name
    flags = [
        *(f"-I{root}" for root in (*before, CORE)),
        "-std=c++20",
        "-O1",
        "-Wall",
        "-Wextra",
        "-fsanitize=undefined",
        "-fno-sanitize-recover=all",
    ]
    subprocess.run(["c++", *flags, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))
