# SPDX-License-Identifier: Apache-2.0
"""What a change of the policy would change, as a table in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from sluice.field_text import field_text
from sluice.terminal import console


def print_preview(preview: Mapping[str, Any]) -> None:
    """Print the answer of `POST /policy/preview`."""
    against = preview["against"]
    if not preview["changes"]:
        console.print(f"nothing changes against version {against}")
        return
    title = "there is no policy yet" if against is None else f"changes against version {against}"
    table = Table("field", "now", "then", "because", title=title, title_justify="left")
    scheme = preview["policy"]["scheme"]
    for change in preview["changes"]:
        before, after = (field_text(scheme, change["field"], change[key]) for key in ("before", "after"))
        table.add_row(change["field"], before, after, change["because"])
    console.print(table)
