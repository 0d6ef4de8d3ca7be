# SPDX-License-Identifier: Apache-2.0
"""The traffic of a network as its flow records show it: the distribution of sizes, and the load of a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluice.policy.columns import wire_bytes
from sluice.policy.framing import MIN_FLOW_BYTES
from sluice.policy.sizes import SizeCdf
from sluice.policy.static_thresholds import Traffic
from sluice.policy.units import BITS_PER_BYTE

Floats = npt.NDArray[np.float64]

LEAST_FLOWS = 200
"""Fewer flows say too little about the sizes. Of 200, two are above the 99th percentile."""
LEAST_S = 5.0
"""A shorter time says too little about the load."""
QUANTILES = 100
LOADS = (0.05, 0.95)
"""The loads for which thresholds are computed. A measured load outside counts as the nearest of both."""


@dataclass(frozen=True)
class MeasuredFlows:
    """Flows as columns of one length."""

    size_bytes: Floats
    dst: Sequence[str]
    """Names of the receiving hosts."""
    began_s: Floats
    ended_s: Floats


def measured_traffic(flows: MeasuredFlows, rates_bps: Mapping[str, int]) -> Traffic | None:
    """Return the traffic of these flows, or None if they are too few. `rates_bps`: rate of each host's link.

    The load is that of the link of a typical byte: the mean of the receivers' loads, weighted by their bytes.
    """
    count = len(flows.size_bytes)
    if count < LEAST_FLOWS:
        return None
    lasted_s = float(flows.ended_s.max() - flows.began_s.min())
    if lasted_s < LEAST_S:
        return None
    load = _typical_load(flows, rates_bps, lasted_s)
    if load is None:
        return None
    shares = np.linspace(0, 1, QUANTILES + 1)
    sizes = np.quantile(np.maximum(flows.size_bytes, MIN_FLOW_BYTES), shares)
    name = f"{count:,} flows of the last {lasted_s:.0f} s, load {load:.2f}"
    return Traffic(SizeCdf("measured", tuple(sizes.tolist()), tuple(shares.tolist())), load, name=name)


def _typical_load(flows: MeasuredFlows, rates_bps: Mapping[str, int], lasted_s: float) -> float | None:
    """Return None if no receiver's rate is known."""
    received: dict[str, float] = {}
    for dst, frames in zip(flows.dst, wire_bytes(flows.size_bytes).tolist(), strict=True):
        if rates_bps.get(dst):
            received[dst] = received.get(dst, 0.0) + frames
    total = sum(received.values())
    if not total:
        return None
    load = sum(
        count / total * count * BITS_PER_BYTE / rates_bps[dst] / lasted_s for dst, count in received.items()
    )
    return min(max(load, LOADS[0]), LOADS[1])
