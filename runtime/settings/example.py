# SPDX-License-Identifier: Apache-2.0
"""The commented example of a configuration file: every key with its meaning and its default."""

from __future__ import annotations

import textwrap

from sluice.policy.schema.entries import Entry, entries
from sluice.runtime.settings.service import Service

_WIDTH = 98
_LICENCE = "# SPDX-" + "License-Identifier: Apache-2.0\n"
"""In two parts, because tools look for the whole text."""


def example(service: Service[object]) -> str:
    """Return the text of a file in which every setting is commented out, except those that have no default."""
    head = (
        f"Settings of `sluice {service.name}`. A line without # changes a default. "
        f"Environment variables ({service.prefix}…) and flags come before this file. "
        f"`sluice {service.name} --check` checks the file."
    )
    parts = [_LICENCE + _comment(head)]
    parts += [f"{_comment(one.help)}{_line(one)}" for one in entries(service.table)]
    return "\n".join(parts)


def _comment(text: str) -> str:
    """Comment lines with two signs, so that an editor can tell them from settings."""
    return (
        textwrap.fill(text, _WIDTH, initial_indent="## ", subsequent_indent="## ", break_on_hyphens=False)
        + "\n"
    )


def _line(one: Entry) -> str:
    if one.default in (None, ()) or one.is_required:
        return f"## {one.key} must be {one.kind.allowed}.\n# {one.key} =\n"
    return f"# {one.key} = {one.shown_default}\n"
