# SPDX-License-Identifier: Apache-2.0
"""A congestion control under a name of this process.

The kernel has one list of controls for the whole machine: under its own name, a control that another process registered
(and takes away when it ends) would be tested.
"""

from __future__ import annotations

import os
from pathlib import Path

from dataplane import build

_PUBLIC = "sluice_dctcp"


def private_name() -> str:
    """As long as the public one, so that it can take its place in the object file."""
    return f"sluice_{os.getpid() % 100_000:05}"


def private_copy(program: str, directory: Path) -> Path:
    """The object file of a program, with the control in it (and its map) renamed."""
    name = private_name()
    assert len(name) == len(_PUBLIC)
    copy = directory / f"{name}.bpf.o"
    copy.write_bytes(build.ensure(program).read_bytes().replace(_PUBLIC.encode(), name.encode()))
    return copy
