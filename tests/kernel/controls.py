# SPDX-License-Identifier: Apache-2.0
"""Congestion controls under names of this process.

The kernel has one list of controls for the whole machine: under its own name, a control that another process registered
(and takes away when it ends) would be tested.
"""

from __future__ import annotations

import os
from pathlib import Path

from dataplane import build

DCTCP = "cc_dctcp"
PROGRAMS = sorted(name for name in build.names() if name.startswith("cc_"))


def private_name(program: str = DCTCP) -> str:
    """A name for the control of a program (cc_ucp) that no other process uses."""
    return f"sluice_{PROGRAMS.index(program)}_{os.getpid() % 100_000:05}"


def private_build(
    directory: Path, program: str = DCTCP, *, name: str | None = None, change: tuple[str, str] | None = None
) -> Path:
    """The object file of a control under its private name, or `name`.

    `change` replaces a piece of cc_ops.bpf.h by another.
    """
    source = (build.SOURCES / f"{program}.bpf.c").read_text()
    operations = (build.SOURCES / "cc_ops.bpf.h").read_text()
    if change:
        assert operations.count(change[0]) == 1
        operations = operations.replace(*change)
    name, public = name or private_name(program), f"sluice_{program.removeprefix('cc_')}\n"
    assert source.count(public) == 1
    source = source.replace(public, f"{name}\n")
    source = source.replace('#include "cc_ops.bpf.h"', operations)
    return build.compile_source(name, source, directory)
