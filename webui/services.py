# SPDX-License-Identifier: Apache-2.0
"""The objects that the views work with, kept on the application."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flask import current_app
from sqlalchemy import Engine

from sluice.store.totals import Tally

if TYPE_CHECKING:
    from sluice.webui.authority import Authority
    from sluice.webui.callers import StreamPlaces
    from sluice.webui.heartbeats import Heartbeats
    from sluice.webui.ingestion import Ingestion
    from sluice.webui.live import Live
    from sluice.webui.problems import Refusals
    from sluice.webui.recent import RecentFlows

EXTENSION = "sluice"


@dataclass(frozen=True)
class Services:
    engine: Engine
    token: str = field(repr=False)
    recent: RecentFlows
    live: Live
    ingestion: Ingestion
    heartbeats: Heartbeats
    stopping: threading.Event
    """Set when the process must end. Every waiting thread then stops waiting."""
    refusals: Refusals
    streams: StreamPlaces
    authority: Authority | None = None
    """None: no agents of other machines."""
    hosts: frozenset[str] = frozenset()
    """The names under which this process answers."""
    run_manager: Path | None = None
    """The socket of the process that starts and lists runs. None: this web process has no folder of runs."""
    tally: Tally = field(default_factory=Tally)
    """Counts of this process; housekeeping adds them to the store's totals within a second."""


def services() -> Services:
    """Return the services of the application that serves the request."""
    found: Services = current_app.extensions[EXTENSION]
    return found
