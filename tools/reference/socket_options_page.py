# SPDX-License-Identifier: Apache-2.0
"""docs/reference/socket-options.md: the header that programs include."""

from __future__ import annotations

from pathlib import Path

from tools.reference.markdown import fence, page

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "dataplane" / "include" / "sluice.h"

_INTRODUCTION = """\
A program declares a flow by one `setsockopt()` and asks for its state by one `getsockopt()`. The header has every
number, layout and error. Numbers and layouts do not change; a new feature gets a new option. A tutorial is
[deadlines for your program](../tutorials/deadlines.md).

`hostagent/examples/README.md` has the same layouts as tables of offsets, and programs in C, Go
and Python."""


def text() -> str:
    """The page."""
    return page(
        "Socket options",
        "For programmers who declare flows to the kernel.",
        _INTRODUCTION,
        "## `dataplane/include/sluice.h`",
        fence(HEADER.read_text(), "c"),
    )
