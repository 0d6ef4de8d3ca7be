# SPDX-License-Identifier: Apache-2.0
"""The scoreboard of a bundle, from its files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.policy.figures.scoreboard import CONFIDENCE_PERCENT, Period, Score, ScoredFlows, scoreboard
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import SCHEDULED, SIZE_CLASSES
from sluice.runs.bundle import POLICIES, POLICY_VERSION


def bundle_scoreboard(bundle: Path, base_scheme: str) -> dict[str, Any]:
    """Return the scheduled flows' figures by version, as GET /scoreboard has them.

    The base is the first version of that scheme, or else the first one.
    """
    scores = bundle_scores(bundle)
    versions = [score.period.version for score in scores]
    of_base = [score.period.version for score in scores if score.period.scheme == base_scheme]
    against = next(iter(of_base or versions), None)
    return {
        "source": SCHEDULED,
        "against": against,
        "confidence_percent": CONFIDENCE_PERCENT,
        "versions": scoreboard(scores, against),
    }


def bundle_scores(bundle: Path) -> list[Score]:
    """Return the scores of the versions under which any scheduled flow lived."""
    table = pq.read_table(bundle / "flows.parquet", filters=[("source", "=", SCHEDULED)])
    rows = json.loads((bundle / POLICIES).read_text())
    flows, lived = scored_columns(table), table[POLICY_VERSION.name].to_numpy()
    scores = []
    for row in rows:
        own = flows.where(np.equal(lived, row["version"]))
        if len(own):
            began, ended = float(own.began_s.min()), math.inf
            scores.append(Score(Period(row["version"], row["policy"]["scheme"], began, ended), own))
    return scores


def scored_columns(table: pa.Table) -> ScoredFlows:
    """Return rows of flows.parquet as the columns of a scoreboard."""
    began_s, fct_us = table["started_at"].to_numpy(), table["fct_us"].to_numpy().astype(float)
    met = np.asarray([value is not False for value in table["met"].to_pylist()])
    return ScoredFlows(
        began_s=began_s,
        ended_s=began_s + fct_us / US_PER_S,
        fct_us=fct_us,
        slowdown=table["slowdown"].to_numpy().astype(float),
        size_class=np.asarray([SIZE_CLASSES.index(one) for one in table["size_class"].to_pylist()], np.uint8),
        has_deadline=table["deadline_us"].is_valid().to_numpy(),
        missed=~met,
        retransmissions=table["retransmissions"].to_numpy().astype(float),
        scheme=np.asarray(table["scheme"].to_pylist(), np.str_),
    )
