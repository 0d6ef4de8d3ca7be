# SPDX-License-Identifier: Apache-2.0
"""What the views work with, kept on the application."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flask import current_app
from sqlalchemy import Engine

if TYPE_CHECKING:
    from webui.live import Live

EXTENSION = "sluice"


@dataclass(frozen=True)
class Services:
    engine: Engine
    token: str
    live: Live
    stopping: threading.Event
    """Set when the process has been told to end: whoever waits, stops waiting."""


def services() -> Services:
    """Those of the application that serves the request."""
    found: Services = current_app.extensions[EXTENSION]
    return found
