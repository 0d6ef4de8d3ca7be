# SPDX-License-Identifier: Apache-2.0
"""The pages: the dashboard and the runs. All their data comes through the API."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from flask import Blueprint, render_template

from sluice.webui import __version__

pages = Blueprint("pages", __name__)

_STATIC = Path(__file__).parent / "static"
_IMPORTED = re.compile(r'^import\b[^;"]*"(\.[^"]+)"', re.MULTILINE)


@pages.get("/")
def dashboard() -> str:
    return render_template("dashboard.html", version=__version__, modules=modules("js/main.js"))


@pages.get("/runs")
def runs() -> str:
    return render_template("runs.html", version=__version__, modules=modules("js/runs.js"))


@cache
def modules(entry: str) -> tuple[str, ...]:
    """Return the paths of this module and of all that it imports. A browser that knows them fetches all at once."""
    found = [_STATIC / entry]
    for file in found:
        named = _IMPORTED.findall(file.read_text()) if file.exists() else []  # a library may be missing
        found += dict.fromkeys(
            path for name in named if (path := (file.parent / name).resolve()) not in found
        )
    return tuple(str(file.relative_to(_STATIC)) for file in found)
