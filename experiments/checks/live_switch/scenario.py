# SPDX-License-Identifier: Apache-2.0
"""The traffic of live_switch, and the policies that it goes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.checks.scheme_tour.run import SCENARIO as TOUR
from experiments.kit.live import microseconds, poisson_starts_s, short_flow
from sluice.runs.files import read_document, scenario_with
from sluice.sweep.points import points

FLOWS_PER_S = 8
SIZES_KB = (10, 50, 200)


def policies_of(schemes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return a policy document for each scheme, with the settings of scheme_tour."""
    found = points(read_document(TOUR), schemes=schemes)
    return {point.scheme: scenario_with(point.document)[0].policy.to_document() for point in found}


def scenario_of(seed: int, ends_s: float, policy: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return a scenario of two endless flows to h1 and short flows of all kinds."""
    endless = [{"from": host, "to": "h1", "until": microseconds(ends_s)} for host in ("h2", "h3")]
    short = [_short(rng, start_s) for start_s in poisson_starts_s(rng, FLOWS_PER_S, ends_s)]
    scheme = {"name" if key == "scheme" else key: value for key, value in policy.items()}
    return {
        "name": "live-switch",
        "seed": seed,
        "grace": "30s",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "50Mbit", "buffer": "200KB"},
        "scheme": {key: value for key, value in scheme.items() if value not in (None, [])},
        "transport": {"rto_min": "40ms"},
        "workload": {"flow": [*endless, *short]},
    }


def _short(rng: np.random.Generator, start_s: float) -> dict[str, Any]:
    """Return a short flow. Of ten flows, three have a deadline and three a known size."""
    flow = short_flow(f"h{rng.integers(2, 5)}", "h1", rng.choice(SIZES_KB), start_s)
    kind = rng.random()
    if kind < 0.3:
        flow["deadline"] = f"{int(rng.integers(200, 1000))}ms"
    elif kind < 0.6:
        flow["size_known"] = True
    return flow
