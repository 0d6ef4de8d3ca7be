# SPDX-License-Identifier: Apache-2.0
"""What the records say of the flows that one host has sent lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, select

from sluice.policy.wire.records import ALL, TRAFFIC
from sluice.store.connections import reading
from sluice.store.flow_columns import FIGURES, FlowColumns
from sluice.store.flow_list import MOST_SEARCHED, received_at, sequence_ends
from sluice.store.schema import flows


@dataclass(frozen=True)
class SentFlows:
    """The scheduled and watched flows of one sender whose records arrived after a time."""

    since: float
    """Epoch seconds. It is later than asked if more than MOST_SEARCHED records arrived after that time."""
    flows: FlowColumns
    srtt_us: NDArray[np.float64]
    """Smoothed round-trip times at the ends of those flows that have one."""
    controls: Mapping[str, int]
    """Number of flows by congestion control, the most frequent first."""


def sent_flows(engine: Engine, host: str, since: float) -> SentFlows:
    """Return the flows that this host sent, of the newest MOST_SEARCHED records."""
    columns = [flows.c[name] for name in FIGURES]
    query = select(*columns, flows.c.srtt_us, flows.c.congestion_control)
    query = query.where(flows.c.src == host, flows.c.received_at > since)
    with reading(engine) as connection:
        first, last = sequence_ends(connection)
        bottom = last - MOST_SEARCHED
        if bottom >= first:
            since = max(since, received_at(connection, bottom) or since)
        found = connection.execute(query.where(flows.c.sequence > bottom).order_by(flows.c.sequence)).all()
    rows = [tuple(row) for row in found if row.source in TRAFFIC[ALL]]
    return SentFlows(
        since,
        FlowColumns.from_rows([row[: len(FIGURES)] for row in rows]),
        np.array([row[-2] for row in rows if row[-2] is not None], dtype=np.float64),
        dict(Counter(row[-1] for row in rows).most_common()),
    )
