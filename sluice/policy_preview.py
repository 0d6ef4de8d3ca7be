# SPDX-License-Identifier: Apache-2.0
"""What a change of the policy would change, as a table in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from policy.field_entry import Draft
from policy.fields import POLICY_FIELDS, Override
from policy.schemes import scheme_named
from sluice.terminal import console


def print_preview(preview: Mapping[str, Any]) -> None:
    """Print the answer of `POST /policy/preview`."""
    against = preview["against"]
    if not preview["changes"]:
        console.print(f"nothing changes against version {against}")
        return
    title = "there is no policy yet" if against is None else f"changes against version {against}"
    table = Table("field", "now", "then", "because", title=title, title_justify="left")
    for change in preview["changes"]:
        before, after = (
            _text(preview["policy"], change["field"], change[key]) for key in ("before", "after")
        )
        table.add_row(change["field"], before, after, change["because"])
    console.print(table)


def _text(policy: Mapping[str, Any], name: str, value: Any) -> str:
    """Return a value with its unit."""
    if value is None or value == []:
        return "–"
    field = next(field for field in POLICY_FIELDS if field.name == name)
    if name == "overrides":
        value = [Override.of_document(one) for one in value]
    return field.kind_of(Draft(scheme_named(policy["scheme"]))).show(value)
