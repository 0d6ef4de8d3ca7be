# SPDX-License-Identifier: Apache-2.0
"""The pages: the dashboard and the runs. All their data comes through the API."""

from __future__ import annotations

from flask import Blueprint, render_template

from webui import __version__

pages = Blueprint("pages", __name__)


@pages.get("/")
def dashboard() -> str:
    return render_template("dashboard.html", version=__version__)


@pages.get("/runs")
def runs() -> str:
    return render_template("runs.html", version=__version__)
