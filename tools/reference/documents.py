# SPDX-License-Identifier: Apache-2.0
"""Tables of the keys of a document: key, kind, bounds, default, help."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.policy.schema.entries import Entry, TableOf, entries
from sluice.policy.schema.kinds import Choice, Kind, ListOf, Text
from tools.reference.markdown import code, sentence, table

HEADINGS = ("key", "kind", "allowed", "default", "meaning")


def keys_of(cls: type, without: Iterable[str] = ()) -> str:
    """Every key of a document, except some."""
    left_out = set(without)
    return table(HEADINGS, [row(one) for one in entries(cls) if one.key not in left_out])


def row(one: Entry) -> tuple[str, str, str, str, str]:
    return code(one.key), kind_name(one.kind), allowed(one.kind), default(one), sentence(one.help)


def kind_name(kind: Kind) -> str:
    """The kind and its unit; a quantity that users write with a unit needs none."""
    item = kind.item if isinstance(kind, ListOf) else kind
    shown = "table" if kind.is_table else kind.name
    unit = getattr(item, "of", "")
    return f"{shown}, {unit}" if unit else shown


def allowed(kind: Kind) -> str:
    """Bounds or options."""
    if isinstance(kind, ListOf):
        return _list_allowed(kind)
    if isinstance(kind, TableOf):
        return "keys below"
    if isinstance(kind, Choice):
        return ", ".join(code(option) for option in kind.options)
    if isinstance(kind, Text):
        return kind.allowed.replace("\\x00", "NUL")
    return kind.allowed.removeprefix("a whole number ").removeprefix("a number ")


def _list_allowed(kind: ListOf) -> str:
    least = f"at least {kind.shortest}; " if kind.shortest else ""
    return f"{least}each: {allowed(kind.item)}"


def default(one: Entry) -> str:
    """The default as a user writes it."""
    if one.is_required:
        return "required"
    return code(one.shown_default) if one.shown_default not in ("", '""', "[]") else "–"
