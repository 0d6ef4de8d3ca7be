# SPDX-License-Identifier: Apache-2.0
"""Congestion controls under names of this process.

The kernel has one list of controls for the whole machine. Under its public name, a test could get the control of
another process, which removes it when it ends.
"""

from __future__ import annotations

import os
from pathlib import Path

from sluice.dataplane import build

DCTCP = "cc_dctcp"
FRAME = "cc_ops.bpf.h"
WINDOW_LAW = "cc_window_law.bpf.h"
PUBLIC_NAME = "#define CC_NAME CC_JOIN(sluice_, CC)\n"
PROGRAMS = sorted(name for name in build.names() if name.startswith("cc_"))


def private_name(program: str = DCTCP) -> str:
    """Return a name for the control of a program (cc_ucp). No other process uses it."""
    return f"sluice_{PROGRAMS.index(program)}_{os.getpid() % 100_000:05}"


def private_build(
    directory: Path, program: str = DCTCP, *, name: str | None = None, change: tuple[str, str] | None = None
) -> Path:
    """Return the object file of a control under its private name or `name`.

    `change` replaces a part of cc_ops.bpf.h.
    """
    frame = (build.SOURCES / FRAME).read_text()
    for old, new in filter(
        None, (change, (PUBLIC_NAME, f"#define CC_NAME {name or private_name(program)}\n"))
    ):
        assert frame.count(old) == 1
        frame = frame.replace(old, new)
    source = (build.SOURCES / f"{program}.bpf.c").read_text()
    for header, text in ((WINDOW_LAW, (build.SOURCES / WINDOW_LAW).read_text()), (FRAME, frame)):
        source = source.replace(f'#include "{header}"', text)
    return build.compile_source(program, source, directory)
