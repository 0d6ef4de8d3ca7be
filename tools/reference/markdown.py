# SPDX-License-Identifier: Apache-2.0
"""Markdown in pieces: tables, pages, sections that a generator owns, and the keys of a document as a table."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sluice.policy.schema.entries import Entry, TableOf, entries
from sluice.policy.schema.kinds import Choice, Kind, ListOf, Quantity, Text

NOTICE = "<!-- Generated from the code: `make gen` writes this page. -->"
_PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("pages")),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Cells may hold Markdown; a vertical bar is escaped."""
    lines = [
        [cell.replace("\n", " ").replace("|", "\\|") or " " for cell in line]
        for line in (headings, ["---"] * len(headings), *rows)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(name: str, **values: object) -> str:
    """Return a page of docs/reference: its template in `pages`, with these values."""
    return _PAGES.get_template(f"{name}.md.j2").render(notice=NOTICE, **values)


def joined(parts: Iterable[str]) -> str:
    """Return the parts with an empty line between them."""
    return "\n\n".join(parts)


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
    head, opened, after = text.partition(begin)
    _, closed, tail = after.partition(end)
    if not (opened and closed):
        raise ValueError(f"the page has no markers {begin} and {end}")
    return f"{head}{begin}\n\n{content}\n\n{end}{tail}"


HEADINGS = ("key", "kind", "allowed", "default", "meaning")


def keys_of(cls: type, without: Iterable[str] = ()) -> str:
    """Every key of a document, except some."""
    left_out = set(without)
    return table(HEADINGS, [row(entry) for entry in entries(cls) if entry.key not in left_out])


def row(entry: Entry) -> tuple[str, str, str, str, str]:
    return code(entry.key), kind_name(entry.kind), allowed(entry.kind), default(entry), sentence(entry.help)


def kind_name(kind: Kind) -> str:
    """The kind and its unit; a quantity that users write with a unit needs none."""
    item = kind.item if isinstance(kind, ListOf) else kind
    shown = "table" if kind.is_table else kind.name
    unit = "" if isinstance(item, Quantity) else item.unit
    return f"{shown}, {unit}" if unit else shown


def allowed(kind: Kind) -> str:
    """Bounds or options."""
    if isinstance(kind, ListOf):
        least = f"at least {kind.shortest}; " if kind.shortest else ""
        return f"{least}each: {allowed(kind.item)}"
    if isinstance(kind, TableOf):
        return "keys below"
    if isinstance(kind, Choice):
        return ", ".join(code(option) for option in kind.options)
    if isinstance(kind, Text):
        return kind.allowed.replace("\\x00", "NUL")
    return kind.allowed.removeprefix("a whole number ").removeprefix("a number ")


def default(entry: Entry) -> str:
    """The default as a user writes it."""
    if entry.is_required:
        return "required"
    return code(entry.shown_default) if entry.shown_default not in ("", '""', "[]") else "–"
