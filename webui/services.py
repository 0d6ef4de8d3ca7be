# SPDX-License-Identifier: Apache-2.0
"""What the views work with, kept on the application."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flask import current_app
from sqlalchemy import Engine

from store.totals import Tally

if TYPE_CHECKING:
    from webui.ingestion import Ingestion
    from webui.live import Live
    from webui.recent import RecentFlows

EXTENSION = "sluice"


@dataclass(frozen=True)
class Services:
    engine: Engine
    token: str
    recent: RecentFlows
    live: Live
    ingestion: Ingestion
    stopping: threading.Event
    """Set when the process has been told to end: whoever waits, stops waiting."""
    tally: Tally = field(default_factory=Tally)
    """Counted here, added to the store's totals a moment later."""


def services() -> Services:
    """Those of the application that serves the request."""
    found: Services = current_app.extensions[EXTENSION]
    return found
