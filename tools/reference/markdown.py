# SPDX-License-Identifier: Apache-2.0
"""Markdown in pieces: tables, pages, sections that a generator owns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Generated from the code: `make gen` writes this page. -->"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Cells may hold Markdown; a vertical bar is escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|") or " "


def page(title: str, readers: str, *parts: str) -> str:
    """Return a page: its title, a line that names its readers, and its parts."""
    return "\n\n".join([f"# {title}", readers, NOTICE, *parts]) + "\n"


def code(text: str) -> str:
    """A code span; empty text stays empty."""
    return f"`{text}`" if text else ""


def fence(text: str, language: str = "text") -> str:
    """A code block."""
    return f"```{language}\n{text.rstrip()}\n```"


def sentence(text: str) -> str:
    """The text with a full stop at its end, and a capital at its start if it starts with an ordinary word."""
    text = text.strip()
    if not text:
        return ""
    word = text.split()[0]
    plain = word.rstrip(",;").isalpha()
    return (text[0].upper() + text[1:] if plain else text) + ("" if text.endswith((".", "?", ":")) else ".")


def between(text: str, name: str, content: str) -> str:
    """`text` with new content between its markers for `name`. Raises ValueError without them."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no markers {begin} and {end}")
    return f"{head}{begin}\n\n{content}\n\n{end}{tail}"
