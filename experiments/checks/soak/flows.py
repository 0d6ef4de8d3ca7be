# SPDX-License-Identifier: Apache-2.0
"""The soak's scenario: chains of flows of all kinds, so that the number of active flows stays constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.kit.live import microseconds

HOSTS = 6
RATE = "10Mbit"
"""With acknowledgements this is about 6,000 packets a second, which a small machine can forward."""
SEGMENT_S = 15.0
"""A flow lasts about this long. Then the next one of its chain follows."""
SCHEMES = ("datcp", "d2tcp", "dctcp", "pias")


def document_of(seed: int, seconds: float, concurrent: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return a scenario with one chain for each concurrent flow."""
    flows = [
        _flow(rng, start_s)
        for _ in range(concurrent)
        for start_s in np.arange(rng.uniform(0, SEGMENT_S), seconds, SEGMENT_S)
    ]
    return {
        "name": "soak",
        "seed": seed,
        "fabric": {"topology": "single", "hosts": HOSTS, "host_rate": RATE, "buffer": "200KB"},
        "scheme": {"name": SCHEMES[0]},
        "transport": {"rto_min": "50ms"},
        "workload": {"flow": flows},
    }


def _flow(rng: np.random.Generator, start_s: float) -> dict[str, Any]:
    """Return a flow: endless, sized, with a deadline, or with a deadline and importance."""
    source, to = rng.choice(HOSTS, 2, replace=False) + 1
    flow: dict[str, Any] = {"from": f"h{source}", "to": f"h{to}", "start": microseconds(start_s)}
    kind = rng.random()
    if kind < 0.4:
        return {**flow, "until": microseconds(start_s + SEGMENT_S)}
    flow["bytes"] = f"{int(rng.integers(50_000, 1_000_000))}B"
    if kind < 0.5:
        return flow
    flow["deadline"] = f"{int(rng.integers(500, 20_000))}ms"
    flow["quench"] = str(rng.choice(["never", "kill", "suspend"]))
    if kind < 0.7:
        flow["importance"], flow["importance_share"] = float(rng.integers(1, 8)), 0.5
    return flow
