# SPDX-License-Identifier: Apache-2.0
"""Text of others that becomes one line: of a log, an event, or an operator's terminal. Pure."""

from __future__ import annotations

import re

LONGEST_LINE = 400
_NOT_SHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
"""Control characters, line separators, and marks that reverse the direction of writing."""


def visible(text: str) -> str:
    """Return the text with a space for each run of characters that would control a terminal or end a line."""
    return _NOT_SHOWN.sub(" ", text)


def line_of(text: str) -> str:
    """Return the text as one line, cut to LONGEST_LINE characters."""
    line = visible(text)
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"
