# SPDX-License-Identifier: Apache-2.0
"""What the views work with, kept on the application."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flask import current_app
from sqlalchemy import Engine

if TYPE_CHECKING:
    from webui.live import Live
    from webui.recent import RecentFlows

EXTENSION = "sluice"


@dataclass(frozen=True)
class Services:
    engine: Engine
    token: str
    recent: RecentFlows
    live: Live
    stopping: threading.Event
    """Set when the process has been told to end: whoever waits, stops waiting."""
    ingestion: threading.Lock = field(default_factory=threading.Lock)
    """Held while flow records are written: batches commit in the order of their sequence numbers, which is what lets
    RecentFlows read on from the last one it has seen; and threads do not fight over the store's one writer."""


def services() -> Services:
    """Those of the application that serves the request."""
    found: Services = current_app.extensions[EXTENSION]
    return found
