# SPDX-License-Identifier: Apache-2.0
"""The scoreboard of the store's flows. The scores of versions that are over are kept, because no flow joins them."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

from sqlalchemy import Engine

from sluice.policy.figures.scoreboard import CONFIDENCE_PERCENT, Period, Score, periods, scoreboard, scored
from sluice.policy.wire.records import TRAFFIC
from sluice.store.observed import simulation
from sluice.store.scored import LATE_S, applied_versions, scored_flows

VERSIONS = 8
"""How many versions of the policy the scoreboard has: the newest."""


def scoreboard_document(engine: Engine, source: str, against: int | None) -> dict[str, Any]:
    """Return the scores of the newest versions that have flows. Without `against`, the first of them is the base."""
    beat = simulation(engine)
    dilation = round(max(1.0, beat.dilation), 1) if beat else 1.0
    now = time.time()
    found = [_score(engine, source, period, dilation, now) for period in _periods(engine)]
    scores = [score for score in found if score is not None]
    base = against if against is not None else (scores[0].period.version if scores else None)
    return {
        "source": source,
        "against": base,
        "confidence_percent": CONFIDENCE_PERCENT,
        "versions": scoreboard(scores, base),
    }


def _periods(engine: Engine) -> list[Period]:
    return periods(applied_versions(engine, VERSIONS))


def _score(engine: Engine, source: str, period: Period, dilation: float, now: float) -> Score | None:
    if now > period.until_s + LATE_S:
        return _finished(engine, source, period, dilation)
    return _read(engine, source, period, dilation)


def _read(engine: Engine, source: str, period: Period, dilation: float) -> Score | None:
    flows = scored_flows(engine, TRAFFIC[source], period, dilation)
    return next(iter(scored(flows, [period])), None)


_finished = lru_cache(maxsize=4 * VERSIONS)(_read)
