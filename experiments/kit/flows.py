# SPDX-License-Identifier: Apache-2.0
"""The flows of a finished run as columns, and their figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.policy.wire.records import SCHEDULED

Column = npt.NDArray[Any]

COLUMNS = ("id", "size_class", "bytes", "started_at", "fct_us", "ideal_us", "deadline_us", "slowdown")


@dataclass(frozen=True)
class Flows:
    """Columns with one row for each flow, in the order of the flows' ends. A missing value is nan."""

    id: Column
    size_class: Column
    bytes: Column
    started_s: Column
    """Seconds since the run began."""
    fct_us: Column
    """nan for an unfinished flow."""
    ideal_us: Column
    deadline_us: Column
    slowdown: Column
    retransmissions: Column

    def of(self, chosen: Column) -> Flows:
        """Return the flows that a mask or an array of indices selects."""
        return Flows(*(column[chosen] for column in vars(self).values()))

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def by_number(self) -> Flows:
        """Return the flows in the order of the schedule. A flow's id ends with its number."""
        return self.of(np.argsort([int(text.rsplit("/", 1)[1]) for text in self.id]))

    def need_finished(self) -> Flows:
        """Return the same flows. ValueError: a flow is unfinished, so any mean would be too low."""
        if np.isnan(self.fct_us).any():
            raise ValueError("some flows are unfinished, so the mean FCT would be too low")
        return self


def read_flows(bundle: Path) -> Flows:
    """Return the scheduled flows of a bundle."""
    table = pq.read_table(bundle / "flows.parquet")
    if "source" in table.column_names:
        table = table.filter(pc.equal(table.column("source"), SCHEDULED))
    began_at = json.loads((bundle / "meta.json").read_text()).get("start_at", 0.0)
    columns = {name: table.column(name).to_numpy() for name in COLUMNS}
    started_s = columns.pop("started_at") - began_at
    retransmissions = table.column("retransmissions").to_numpy().astype(float)
    return Flows(**columns, started_s=started_s, retransmissions=retransmissions)


def says_source(bundle: Path) -> bool:
    """Whether flows.parquet distinguishes scheduled flows from others. Bundles of old versions do not."""
    return "source" in pq.read_schema(bundle / "flows.parquet").names


def percentile(values: Column, percent: float) -> float:
    """Return a percentile; nan without values."""
    return float(np.percentile(values, percent)) if len(values) else np.nan


def means(groups: Mapping[str, Column]) -> dict[str, float]:
    """Return `<name>_mean` of each group's values; nan for an empty group."""
    return {
        f"{name}_mean": float(values.mean()) if len(values) else np.nan for name, values in groups.items()
    }


def jain_index(shares: Sequence[float]) -> float:
    """Return Jain's index of fairness (Jain, Chiu, Hawe, 1984): 1 for equal shares, 1/n if one flow has all."""
    total, squares = sum(shares), sum(share * share for share in shares)
    return total * total / (len(shares) * squares) if squares else 1.0
