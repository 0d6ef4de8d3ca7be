# SPDX-License-Identifier: Apache-2.0
"""The flows of a simulated network that are under way, as the heartbeats of its hosts list them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sluice.hostagent.tcp import MOST_SHOWN
from sluice.policy.network.graph import Topology
from sluice.policy.units import US_PER_S
from sluice.policy.wire.agents import RunningFlow
from sluice.runs.simulated_flows import Texts


def running_flows(
    columns: Mapping[str, Any], topology: Topology, run_id: str, controls: Texts, zero_s: float
) -> dict[int, tuple[RunningFlow, ...]]:
    """Return the index of each sender → its first flows, from `LiveFabric.under_way`.

    `controls` has each flow's TCP_CONGESTION name, and `zero_s` is the epoch time at which simulated time was zero.
    The simulator counts what a flow has delivered only at its end, so its progress is unknown.
    """
    found: dict[int, list[RunningFlow]] = {}
    for row, sender in enumerate(columns["src"].tolist()):
        flows = found.setdefault(sender, [])
        if len(flows) == MOST_SHOWN:
            continue
        endless = not np.isnan(columns["until_s"][row])
        started_at, deadline_us = zero_s + float(columns["start_s"][row]), float(columns["deadline_us"][row])
        flows.append(
            RunningFlow(
                id=f"{run_id}/{columns['number'][row]}",
                dst=topology.hosts[columns["dst"][row]].name,
                label="",
                bytes=None if endless else int(columns["bytes"][row]),
                acked_bytes=None,
                started_at=started_at,
                deadline_at=None if endless or np.isnan(deadline_us) else started_at + deadline_us / US_PER_S,
                retransmissions=None,
                congestion_control=str(controls[row]),
                srtt_us=None,
            )
        )
    return {sender: tuple(flows) for sender, flows in found.items()}
