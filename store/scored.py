# SPDX-License-Identifier: Apache-2.0
"""The rows from which the scoreboard is computed: versions of the policy, and the flows of a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, select

from sluice.policy.figures.scoreboard import Applied, Period, ScoredFlows
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import SIZE_CLASSES
from sluice.store.connections import reading
from sluice.store.desired import policy_history
from sluice.store.schema import flows

MOST_FLOWS = 10_000
"""The most flows of one version that are scored: the newest. The bootstrap of so many takes a tenth of a second."""
LATE_S = 300.0
"""A record may arrive so long after its flow has ended."""

_NAMES = ("started_at", "received_at", "fct_us", "ideal_us", "size_class", "met", "retransmissions", "scheme")


def applied_versions(engine: Engine, limit: int) -> list[Applied]:
    """Return the newest versions of the policy, in the order of their numbers."""
    return [
        Applied(version.version, version.policy.scheme, version.created_at, version.applied_at)
        for version in reversed(policy_history(engine, limit))
    ]


def scored_flows(
    engine: Engine, sources: Sequence[str], period: Period, dilation: float = 1.0
) -> ScoredFlows:
    """Return the newest MOST_FLOWS flows of these sources that began in a period.

    `dilation`: seconds of the wall clock for each second of the FCTs, 1 except in a slow simulation. There a record
    says that its flow began one FCT before its end, but it began earlier.
    """
    query = select(*(flows.c[name] for name in _NAMES)).where(
        flows.c.source.in_(sources),
        flows.c.received_at > period.since_s,
        flows.c.scheme == period.scheme,
        flows.c.started_at >= period.since_s,
    )
    if math.isfinite(period.until_s):
        until_s = period.until_s
        query = query.where(flows.c.received_at < until_s + LATE_S, flows.c.started_at < until_s)
    with reading(engine) as connection:
        rows = connection.execute(query.order_by(flows.c.received_at.desc()).limit(MOST_FLOWS)).all()
    return columns_of([tuple(row) for row in rows], dilation)


def columns_of(rows: Sequence[tuple[Any, ...]], dilation: float = 1.0) -> ScoredFlows:
    """Return the flows of rows with the columns started_at, received_at, fct_us and so on, as in _NAMES."""
    listed = list(zip(*rows, strict=True)) if rows else [()] * len(_NAMES)
    started, received, fct, ideal, classes, met, retransmissions, scheme = listed
    fct_us, began_s = _floats(fct), _floats(started)
    lasted_s = fct_us / US_PER_S
    finished_s = began_s + lasted_s
    return ScoredFlows(
        began_s=np.where(np.isnan(fct_us), began_s, finished_s - dilation * lasted_s),
        ended_s=np.where(np.isnan(fct_us), _floats(received), finished_s),
        fct_us=fct_us,
        slowdown=fct_us / _floats(ideal),
        size_class=np.asarray([SIZE_CLASSES.index(name) for name in classes], np.uint8),
        has_deadline=np.asarray([value is not None for value in met], bool),
        missed=np.asarray([value is False or value == 0 for value in met], bool),
        retransmissions=_floats(retransmissions),
        scheme=np.asarray(scheme, np.str_),
    )


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.asarray(values, np.float64)
