# SPDX-License-Identifier: Apache-2.0
"""The flows of a scenario without end: its schedule, again and again, with new random numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from sluice.policy.network.graph import Topology
from sluice.policy.workload.flows import FlowBatch
from sluice.policy.workload.scenario import Scenario, scheduled_batches

ROUND_S = 3600.0
"""The schedule begins again after this long."""


class FlowSource:
    """Hands out flows in the order of their starts. Numbers and starts grow over all rounds."""

    def __init__(
        self, scenario: Scenario, topology: Topology, begin_s: float = 0.0, until_s: float = math.inf
    ) -> None:
        """The schedule begins at `begin_s`. It has the flows that start within `until_s` after that."""
        self._scenario, self._topology = scenario, topology
        self._begin_s, self._until_s = begin_s, until_s
        self._batches = self._drawn()
        self._left: FlowBatch | None = None

    def before(self, end_s: float) -> Iterator[FlowBatch]:
        """Yield the flows that start before `end_s` and have not been handed out."""
        while True:
            batch = self._left if self._left is not None else next(self._batches, None)
            if batch is None:
                return
            due = int(np.searchsorted(batch.start_s, end_s))
            self._left = batch[due:] if due < len(batch) else None
            if due:
                yield batch[:due]
            if self._left is not None:
                return

    def _drawn(self) -> Iterator[FlowBatch]:
        rng, number = np.random.default_rng(self._scenario.seed), 0
        for round_number in count():
            past_s, first = round_number * ROUND_S, number
            round_s = min(ROUND_S, self._until_s - past_s)
            for batch in (
                scheduled_batches(self._scenario, self._topology, rng, round_s) if round_s > 0 else ()
            ):
                yield _later(batch, self._begin_s + past_s, number)
                number += len(batch)
            if number == first:
                return


def _later(batch: FlowBatch, seconds: float, first: int) -> FlowBatch:
    return replace(batch, first=first, start_s=batch.start_s + seconds, until_s=batch.until_s + seconds)
