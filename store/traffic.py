# SPDX-License-Identifier: Apache-2.0
"""The newest flow records as the columns from which a network's traffic is measured."""

from __future__ import annotations

import numpy as np
from sqlalchemy import Engine, select

from sluice.policy.thresholds.static import MeasuredFlows
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import ALL, TRAFFIC
from sluice.store.connections import reading
from sluice.store.schema import flows

MOST_FLOWS = 5_000
"""How many records a measurement reads: enough for the 99th percentile, and read within milliseconds."""


def newest_traffic(engine: Engine) -> MeasuredFlows:
    """Return the newest flows, scheduled and watched. An unfinished flow ends when its record arrived."""
    names = ("bytes", "dst", "started_at", "fct_us", "received_at")
    query = select(*(flows.c[name] for name in names)).where(flows.c.source.in_(TRAFFIC[ALL]))
    with reading(engine) as connection:
        rows = connection.execute(query.order_by(flows.c.sequence.desc()).limit(MOST_FLOWS)).all()
    ended = [
        row.received_at if row.fct_us is None else row.started_at + row.fct_us / US_PER_S for row in rows
    ]
    return MeasuredFlows(
        np.asarray([row.bytes for row in rows], np.float64),
        [row.dst for row in rows],
        np.asarray([row.started_at for row in rows], np.float64),
        np.asarray(ended, np.float64),
    )
