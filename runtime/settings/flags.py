# SPDX-License-Identifier: Apache-2.0
"""Flags of a command line, made from the entries of a table."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import Any

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import Entry, entries
from sluice.policy.schema.kinds import Choice, Flag, Kind, ListOf
from sluice.runtime.settings.layers import flag_of, typed


def add_flags(parser: argparse._ActionsContainer, table: type) -> None:
    """Add a flag for each entry. Their values are texts, and None if the user gave none."""
    for one in entries(table):
        if isinstance(one.kind, Flag):
            parser.add_argument(
                flag_of(one), dest=one.name, action=argparse.BooleanOptionalAction, help=help_of(one)
            )
        else:
            action = "append" if isinstance(one.kind, ListOf) else "store"
            parser.add_argument(
                flag_of(one), dest=one.name, action=action, metavar=metavar(one.kind), help=help_of(one)
            )


def add_checked_flags(parser: argparse._ActionsContainer, table: type, keys: Collection[str]) -> None:
    """Add the flags of some entries to a command that has no configuration file. Their values are checked at once."""
    for one in entries(table):
        if one.key in keys:
            parser.add_argument(
                flag_of(one),
                dest=one.name,
                type=checked(one.kind),
                default=one.default,
                metavar=metavar(one.kind),
                help=help_of(one),
            )


def checked(kind: Kind) -> Callable[[str], Any]:
    """Return a type of argparse's that reads a value of this kind."""

    def read(text: str) -> Any:
        try:
            return kind.read("", typed(kind, text))
        except FieldError as error:
            raise argparse.ArgumentTypeError(error.problem) from None

    return read


def help_of(one: Entry) -> str:
    """Return the help with the default."""
    text = one.help.rstrip(".").replace("%", "%%")
    shown = one.shown_default.strip('"')
    if one.default in (None, (), False) or one.is_required or not shown:
        return text + (" (required)" if one.is_required else "")
    return f"{text} (default {shown})".replace("%", "%%")


def metavar(kind: Kind) -> str:
    """Return the placeholder of a value in the help."""
    if isinstance(kind, ListOf):
        return metavar(kind.item)
    if isinstance(kind, Choice):
        return "{" + ",".join(kind.options) + "}"
    return str(getattr(kind, "metavar", kind.name.upper()))
