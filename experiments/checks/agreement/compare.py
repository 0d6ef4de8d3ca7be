# SPDX-License-Identifier: Apache-2.0
"""A testbed's run beside a simulated one of the same flows: figures by class, flow by flow, and what may differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.kit.verdict import Claim, spread
from experiments.papers.adaptive_thresholds.common import BOTTLENECK_PORT
from experiments.papers.adaptive_thresholds.fig5 import settles
from policy.records import SCHEDULED
from sluice.runs.bundle import read_ports

CLASSES = {"small": "10 KB", "medium": "1 MB"}
FIGURES = ("mean", "p50", "p99", "slowdown")
Columns = dict[str, npt.NDArray[Any]]

TOLERANCE = {("small", "mean"): 0.25, ("medium", "mean"): 0.15}
"""By how much the median over the seeds may differ. Small flows take a millisecond or two, of which software has a part
that varies from hop to hop; medium flows take what the link and the sharing of it take."""
EXPLANATION = "see docs/REPRODUCING.md, Testbed and simulator"


@dataclass(frozen=True)
class Side:
    """One run: its flows by number."""

    size_class: npt.NDArray[Any]
    fct_ms: npt.NDArray[Any]
    slowdown: npt.NDArray[Any]
    retransmissions: int
    valid: bool

    def of(self, size_class: str) -> npt.NDArray[Any]:
        """FCT of the flows of that class, in milliseconds."""
        values: npt.NDArray[Any] = self.fct_ms[self.size_class == size_class]
        return values

    def figure(self, size_class: str, name: str) -> float:
        """Milliseconds; the mean slowdown is a number."""
        values = self.of(size_class)
        match name:
            case "mean":
                return float(np.nanmean(values))
            case "slowdown":
                return float(np.nanmean(self.slowdown[self.size_class == size_class]))
            case _:
                return float(np.nanpercentile(values, float(name.removeprefix("p"))))

    def figures(self) -> dict[str, dict[str, float]]:
        return {of: {name: round(self.figure(of, name), 3) for name in FIGURES} for of in CLASSES}

    def document(self) -> dict[str, Any]:
        return {**self.figures(), "retransmissions": self.retransmissions, "valid": self.valid}


def columns_by_number(bundle: Path) -> Columns | None:
    """The scheduled flows in the order of their numbers; None when the bundle is of an older form."""
    table = pq.read_table(bundle / "flows.parquet")
    if "source" not in table.column_names:
        return None
    table = table.filter(pc.equal(table.column("source"), SCHEDULED))
    number = np.asarray([int(text.rsplit("/", 1)[1]) for text in table.column("id").to_pylist()])
    order = np.argsort(number)
    names = ("bytes", "size_class", "fct_us", "slowdown", "retransmissions")
    columns = {name: table.column(name).to_numpy()[order] for name in names}
    begun = json.loads((bundle / "meta.json").read_text()).get("start_at", 0.0)
    return {**columns, "started_s": table.column("started_at").to_numpy()[order] - begun}


def read_side(bundle: Path) -> Side:
    columns = columns_by_number(bundle)
    assert columns is not None, bundle
    summary = json.loads((bundle / "summary.json").read_text())
    return Side(
        size_class=columns["size_class"],
        fct_ms=columns["fct_us"] / 1000,
        slowdown=columns["slowdown"],
        retransmissions=int(np.nansum(columns["retransmissions"].astype(float))),
        valid=summary["valid"]["ok"],
    )


class Pair(NamedTuple):
    """One seed of a variant."""

    testbed: Side
    simulator: Side


Runs = Mapping[str, Sequence[Pair]]


def settled_s(bundle: Path) -> float | None:
    """When the threshold at the receiver's port is at the short flows' size for good, in seconds of the run."""
    begun = json.loads((bundle / "meta.json").read_text()).get("start_at", 0.0)
    rows = [row for row in read_ports(bundle, "thresholds") if row["port"] == BOTTLENECK_PORT]
    found = settles([(row["at"] - begun, row["thresholds_bytes"][0]) for row in rows])
    return None if found is None else round(max(found, 0.0), 2)


def settling_claim(
    variant: str, times: Sequence[tuple[float | None, float | None]], interval_s: float
) -> Claim:
    """`times` of the testbed and the simulator, seed by seed: both settle, at most two adjustments apart."""
    alike = all(a is not None and b is not None and abs(a - b) <= 2 * interval_s for a, b in times)
    measured = ", ".join(f"{a} s and {b} s" for a, b in times)
    what = f"{variant}: the threshold is at 10 KB for good, testbed and simulator"
    return Claim(what, f"within {2 * interval_s:g} s", measured, alike, EXPLANATION)


def ratios(runs: Sequence[Pair], size_class: str, name: str) -> list[float]:
    """Simulator over testbed, seed by seed."""
    return [run.simulator.figure(size_class, name) / run.testbed.figure(size_class, name) for run in runs]


def claims(runs: Runs) -> list[Claim]:
    """The means agree within the tolerance; and the variants come in the same order on both."""
    made = []
    for variant, of_variant in runs.items():
        for (size_class, name), tolerance in TOLERANCE.items():
            found = ratios(of_variant, size_class, name)
            valid = all(run.testbed.valid for run in of_variant)
            theirs, ours = (_median(side, size_class, name) for side in zip(*of_variant, strict=True))
            agrees = valid and abs(float(np.median(found)) - 1) <= tolerance
            measured = f"{ours:.3g} over {theirs:.3g} ms: {spread(found)}"
            what = f"{variant}: {CLASSES[size_class]} flows' {name}, simulator over testbed"
            made.append(Claim(what, f"1 ± {tolerance:g}", measured, agrees, EXPLANATION if valid else ""))
    return [*made, *_order(runs)]


def _order(runs: Runs) -> Iterator[Claim]:
    """Of every two variants whose small flows' means differ by a quarter on the testbed, which is faster."""
    means = {
        variant: [_median(side, "small", "mean") for side in zip(*of_variant, strict=True)]
        for variant, of_variant in runs.items()
    }
    apart = [(a, b) for a in means for b in means if means[a][0] < 0.75 * means[b][0]]
    same = sum(means[a][1] < means[b][1] for a, b in apart)
    if apart:
        what = "of two variants that differ by a quarter, the same one is faster for 10 KB flows"
        yield Claim(what, f"{len(apart)} pairs", f"{same}", same == len(apart))


def _median(sides: Sequence[Side], size_class: str, name: str) -> float:
    """Over the seeds."""
    return float(np.median([side.figure(size_class, name) for side in sides]))


def table(runs: Runs) -> Iterator[str]:
    """Markdown: medians over the seeds, testbed / simulator."""
    yield "| variant | flows | mean ms | p50 ms | p99 ms | slowdown | flow by flow | retransmissions |"
    yield "|---|---|---|---|---|---|---|---|"
    for variant, of_variant in runs.items():
        by_side = list(zip(*of_variant, strict=True))
        for size_class, title in CLASSES.items():
            cells = [
                " / ".join(f"{_median(sides, size_class, name):.3g}" for sides in by_side) for name in FIGURES
            ]
            cells.append(f"{np.median([flow_ratio(*pair, size_class) for pair in of_variant]):.2f}")
            cells.append(
                " / ".join(f"{np.median([side.retransmissions for side in sides]):g}" for sides in by_side)
            )
            yield f"| {variant} | {title} | {' | '.join(cells)} |"


def flow_ratio(theirs: Side, ours: Side, size_class: str) -> float:
    """Median over the flows of simulator over testbed."""
    return float(np.nanmedian(ours.of(size_class) / theirs.of(size_class)))
