# SPDX-License-Identifier: Apache-2.0
"""The parts of the live picture that say what needs attention: alerts, and whether the figures are valid."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

from sluice.store import ages
from sluice.store.observed import all_agents
from sluice.webui.alerts.documents import alerts_document
from sluice.webui.alerts.settings import AlertSettings
from sluice.webui.validity import validity_document


def attention(engine: Engine, settings: AlertSettings) -> dict[str, Any]:
    return {
        "alerts": alerts_document(engine, settings),
        "validity": validity_document(engine, all_agents(engine), ages.age_s(engine)),
    }
