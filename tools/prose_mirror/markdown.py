# SPDX-License-Identifier: Apache-2.0
"""The passages of Markdown. Docstrings and comments are parsed as Markdown, too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tools.prose_mirror.passages import Kind, Passage, mask_addresses, mask_of

LABELS = {"heading_open", "th_open", "td_open"}
HTML = ("html_block", "html_inline")
DRAWING = re.compile(r"^\s*[\u2500-\u25ff]|[\u2500-\u25ff]{2,}|[-=|+]{4,}")
FORMULA = re.compile(r"^\s{2,}\S.*\s[=≤≥<>←∝]{1,2}\s")
COLUMNS = re.compile(r"\S {2,}\S")

_PAGES = MarkdownIt("commonmark").enable("table")
_SOURCE = MarkdownIt("commonmark").enable("table").disable([*HTML, "heading", "lheading", "reference"])


def passages_of_page(text: str) -> Iterator[Passage]:
    """Yield the passages of a Markdown file. Code blocks and raw HTML have none."""
    yield from _passages(_PAGES.parse(text), Kind.MARKDOWN, first_line=1)


def passages_of_source(text: str, kind: Kind, first_line: int) -> Iterator[Passage]:
    """Yield the passages of a docstring or comment whose markers and indentation are gone."""
    for offset, chunk in _chunks(text.split("\n")):
        yield from _passages(_SOURCE.parse(chunk), kind, first_line + offset)


def _passages(tokens: list[Token], kind: Kind, first_line: int) -> Iterator[Passage]:
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type != "inline" or token.map is None:
            continue
        pieces = [_text_and_mask(child) for child in token.children or []]
        text, masked = ("".join(piece) for piece in zip(*pieces, strict=True)) if pieces else ("", "")
        if masked.strip():
            label = before is not None and before.type in LABELS
            yield Passage(kind, first_line + token.map[0], text, masked, label)


def _text_and_mask(token: Token) -> tuple[str, str]:
    if token.type in ("softbreak", "hardbreak"):
        return "\n", "\n"
    if token.type in ("code_inline", "html_inline"):
        code = f"`{token.content}`" if token.type == "code_inline" else token.content
        return code, mask_of(code)
    return token.content, mask_addresses(token.content)


def _chunks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield (index of its first line, text) of each part whose first line begins a sentence.

    A row of aligned columns begins a part, because it does not continue the sentence above.
    """
    starts = [0, *(i for i, line in enumerate(lines) if i and COLUMNS.search(line.strip())), len(lines)]
    for begin, end in itertools.pairwise(starts):
        yield begin, "\n".join("" if _is_figure(line) else line for line in lines[begin:end])


def _is_figure(line: str) -> bool:
    return bool(DRAWING.search(line) or FORMULA.match(line))
