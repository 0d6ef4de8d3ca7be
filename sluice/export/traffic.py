# SPDX-License-Identifier: Apache-2.0
"""The traffic for which an export plans its classes: distributions with a load, or flows that hosts have reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sluice.policy.schema.desired import Policy
from sluice.policy.thresholds.online import DelayModel, threshold_limits
from sluice.policy.thresholds.static import known_delays
from sluice.policy.workload.sizes import SizeCdf, Sizes
from sluice.remote import Remote

LEAST_FLOWS = 100
"""A plan from fewer reported flows would follow chance."""
_PAGE = 1000
_MOST_PAGES = 20
_POINTS = 200


@dataclass(frozen=True)
class Traffic:
    """One kind of traffic at one load of a port."""

    name: str
    sizes: Sizes
    load: float
    scale: float = 1.0

    def model(self, policy: Policy) -> DelayModel:
        """The delay model of a port with this traffic under the policy."""
        levels = len(policy.thresholds) + 1
        return known_delays(self.sizes, self.load, levels, self.scale, *threshold_limits(policy))


@dataclass(frozen=True)
class Reported:
    """The newest flows that host agents have reported."""

    flows: Sequence[tuple[str, int]]
    """Receiver and size in bytes."""

    def traffic(self, load: float, to: str | None = None) -> Traffic | None:
        """Return the sizes of the flows to a host, or of all flows. None if they are too few."""
        sizes = [size for host, size in self.flows if to in (None, host)]
        if len(sizes) < LEAST_FLOWS:
            return None
        return Traffic(f"{len(sizes)} reported flows{f' to {to}' if to else ''}", _distribution(sizes), load)


def reported_flows(remote: Remote) -> Reported:
    """Return the newest 20,000 flows that host agents have reported."""
    flows: list[tuple[str, int]] = []
    path = f"flows?limit={_PAGE}"
    for _ in range(_MOST_PAGES):
        page: dict[str, Any] = remote.get(path)
        flows += [(flow["dst"], flow["bytes"]) for flow in page["flows"]]
        if page["next"] is None:
            break
        path = f"flows?limit={_PAGE}&before={page['next']}"
    return Reported(flows)


def _distribution(sizes_bytes: Sequence[int]) -> SizeCdf:
    """The distribution through quantiles of these sizes."""
    ranks = np.linspace(0, 1, min(_POINTS, len(sizes_bytes)))
    points = np.quantile(np.asarray(sizes_bytes, float), ranks)
    return SizeCdf("reported", tuple(points.tolist()), tuple(ranks.tolist()))
