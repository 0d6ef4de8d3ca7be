# SPDX-License-Identifier: Apache-2.0
"""The lease of a controller that is not there."""

from __future__ import annotations

from sqlalchemy import Engine

from sluice.controller.leadership import NAME
from sluice.store import lease


def take_lease(engine: Engine, holder: str = "this one") -> int:
    """Take the lease, whoever holds it. Returns its generation."""
    mine = lease.take(engine, NAME, holder, lease.look(engine, NAME))
    assert mine is not None
    return mine.generation
