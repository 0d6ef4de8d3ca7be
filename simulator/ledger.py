# SPDX-License-Identifier: Apache-2.0
"""The schedule's columns of the flows that have not ended, to be joined with their results."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from sluice.policy.workload.flows import FlowBatch

COLUMNS = tuple(f.name for f in fields(FlowBatch) if f.name not in ("first", "labels"))


class Ledger:
    """The columns of FlowBatch and the flows' numbers, for flows that were added and not taken."""

    def __init__(self) -> None:
        self._numbers = np.empty(0, np.uint64)
        self._columns: dict[str, npt.NDArray[np.generic]] = {}

    def add(self, batch: FlowBatch) -> None:
        numbers = np.arange(batch.first, batch.first + len(batch.start_s), dtype=np.uint64)
        self._numbers = np.concatenate([self._numbers, numbers])
        for name in COLUMNS:
            column = getattr(batch, name)
            known = self._columns.get(name)
            self._columns[name] = column if known is None else np.concatenate([known, column])

    def take(self, numbers: npt.NDArray[np.uint64]) -> dict[str, npt.NDArray[np.generic]]:
        """The columns of these flows, in this order. The ledger forgets them."""
        places = np.searchsorted(self._numbers, numbers)
        taken = {name: column[places] for name, column in self._columns.items()}
        keep = np.ones(len(self._numbers), bool)
        keep[places] = False
        self._numbers = self._numbers[keep]
        self._columns = {name: column[keep] for name, column in self._columns.items()}
        return taken

    def before(self, time_s: float) -> dict[str, npt.NDArray[np.generic]]:
        """The numbers and columns of the flows that are left and start before this time, in their order."""
        if not self._columns:
            return {"number": self._numbers, **{name: np.empty(0) for name in COLUMNS}}
        due = np.asarray(self._columns["start_s"], float) < time_s
        return {"number": self._numbers[due], **{name: column[due] for name, column in self._columns.items()}}

    @property
    def numbers(self) -> npt.NDArray[np.uint64]:
        """The numbers of the flows that are left."""
        return self._numbers
