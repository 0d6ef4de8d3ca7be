# SPDX-License-Identifier: Apache-2.0
"""The traffic for which an export plans its classes: distributions with a load, or flows that hosts have reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from policy.desired import Policy
from policy.errors import SluiceError
from policy.online_thresholds import DelayModel, threshold_limits
from policy.sizes import SizeCdf, Sizes
from policy.static_thresholds import known_delays
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


def reported_traffic(remote: Remote, load: float) -> Traffic:
    """Return the sizes of the newest 20,000 flows that host agents have reported. Raises SluiceError for too few."""
    sizes: list[int] = []
    path = f"flows?limit={_PAGE}"
    for _ in range(_MOST_PAGES):
        page: dict[str, Any] = remote.get(path)
        sizes += [flow["bytes"] for flow in page["flows"]]
        if page["next"] is None:
            break
        path = f"flows?limit={_PAGE}&before={page['next']}"
    if len(sizes) < LEAST_FLOWS:
        raise SluiceError(
            f"hosts have reported {len(sizes)} flows, and a plan needs {LEAST_FLOWS}: wait, or name the traffic with "
            "--traffic web-search:0.8"
        )
    return Traffic(f"{len(sizes)} reported flows", _distribution(sizes), load)


def _distribution(sizes_bytes: Sequence[int]) -> SizeCdf:
    """The distribution through quantiles of these sizes."""
    ranks = np.linspace(0, 1, min(_POINTS, len(sizes_bytes)))
    points = np.quantile(np.asarray(sizes_bytes, float), ranks)
    return SizeCdf("reported", tuple(points.tolist()), tuple(ranks.tolist()))
