# SPDX-License-Identifier: Apache-2.0
"""A passage: a run of prose that ends every sentence within it, such as a paragraph, a list item or a comment."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

ADDRESS = re.compile(r"https?://\S+")


class Kind(enum.StrEnum):
    """Where a passage occurs."""

    MARKDOWN = "markdown"
    DOCSTRING = "docstring"
    COMMENT = "comment"


@dataclass(frozen=True)
class Passage:
    """One run of prose.

    `masked` has the length of `text`. In it, code and addresses are one word of the letter x, so that neither their
    full stops end sentences nor their words count. Line ends stay in both: they lead from a place to its line.
    """

    kind: Kind
    first_line: int
    """Number of its first line in the file, from 1."""
    text: str
    masked: str
    label: bool = False
    """A heading or a table cell, which is a sentence only if it ends or runs on like one."""

    def line_of(self, offset: int) -> int:
        """Return the file's line number of a place in the text."""
        return self.first_line + self.text.count("\n", 0, offset)


def mask_of(code: str) -> str:
    """Return a word of the same length. Its capital lets a sentence begin with code."""
    return "X" + "x" * (len(code) - 1) if code else ""


def mask_addresses(text: str) -> str:
    """Return the text with every web address as one word."""
    return ADDRESS.sub(lambda match: mask_of(match.group()), text)
