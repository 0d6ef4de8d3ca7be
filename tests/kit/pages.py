# SPDX-License-Identifier: Apache-2.0
"""The code blocks of a page, and what the comment before each says that a test does with it.

<!-- run -->                a shell runs it
<!-- run: background -->    the same, until the page ends
<!-- output -->             the run before it prints these lines
<!-- save: NAME -->         a file that the runs find
<!-- from: PATH -->         a part of a file of the repository
<!-- syntax: statements --> C statements that compile
<!-- on: hub,web1 -->      root runs it on each of these machines (tests/deploy)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_ORDER = re.compile(r"<!-- (run|output|save|from|syntax|on)(?:: (\S+))? -->")


@dataclass(frozen=True)
class Block:
    """One code block with an order."""

    line: int
    """Of the block's first line, from 1."""
    order: str
    argument: str
    text: str
    section: str = ""
    """The last heading before the block."""


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that have an order, from top to bottom."""
    return list(_blocks_of_file(page))


def of_order(page: Path, order: str) -> list[Block]:
    """The blocks of a page with this order."""
    return [block for block in blocks(page) if block.order == order]


def outputs(page: Path) -> dict[int, list[str]]:
    """Line of a run → the lines that it must print. A run without an output is missing."""
    found: dict[int, list[str]] = {}
    run = 0
    for block in blocks(page):
        run = block.line if block.order == "run" else run
        if block.order == "output":
            found[run] = block.text.splitlines()
    return found


def save_files(page: Path, folder: Path) -> None:
    """Write every file that the page tells its reader to save."""
    for block in of_order(page, "save"):
        path = folder / block.argument
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)


@cache
def _blocks_of_file(page: Path) -> tuple[Block, ...]:
    """The same, read once. Most pages have no order, and the parser is slow."""
    text = page.read_text()
    return tuple(_blocks(text)) if _ORDER.search(text) else ()


def _blocks(text: str) -> Iterator[Block]:
    order, section, before = None, "", ""
    for token in MarkdownIt("commonmark").parse(text):
        if before == "heading_open":
            section = token.content
        before = token.type
        if token.type == "html_block":
            order = _ORDER.match(token.content)
        elif token.type == "fence" and order is not None and token.map is not None:
            yield Block(token.map[0] + 2, order[1], order[2] or "", token.content, section)
            order = None
        else:
            order = None
