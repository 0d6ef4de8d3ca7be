# SPDX-License-Identifier: Apache-2.0
"""Comparison of a run on the testbed with a simulated run of the same flows: by class, and flow by flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from experiments.kit.experiment import Claim, spread
from experiments.kit.flows import Column
from experiments.kit.runs import Run
from experiments.papers.adaptive_thresholds.common import BOTTLENECK_PORT, settles

CLASSES = {"small": "10 KB", "medium": "1 MB"}
FIGURES = ("mean", "p50", "p99", "slowdown")

TOLERANCE = {("small", "mean"): 0.25, ("medium", "mean"): 0.15}
"""The greatest difference of the median over the seeds. Small flows take a millisecond or two, and
the software's part of that time varies from hop to hop. The time of medium flows depends on the
link and on how flows share it."""
EXPLANATION = "docs/measurements/agreement.md explains what differs"


@dataclass(frozen=True)
class Side:
    """The flows of one run, by number."""

    size_class: Column
    fct_ms: Column
    slowdown: Column
    retransmissions: int
    valid: bool

    def of(self, size_class: str) -> Column:
        """Return the FCT of that class's flows, in milliseconds."""
        values: Column = self.fct_ms[self.size_class == size_class]
        return values

    def figure(self, size_class: str, name: str) -> float:
        """Return a figure in milliseconds; the mean slowdown has no unit."""
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


def side_of(run: Run) -> Side:
    flows = run.flows().by_number
    retransmissions = int(np.nansum(flows.retransmissions))
    return Side(flows.size_class, flows.fct_us / 1000, flows.slowdown, retransmissions, run.valid)


class Pair(NamedTuple):
    """The runs of a variant with one seed on both fabrics."""

    testbed: Side
    simulator: Side


Pairs = Mapping[str, Sequence[Pair]]
"""Variant → one pair for each seed."""

Settled = tuple[float | None, float | None]
"""Seconds until the threshold settles, on the testbed and on the simulator; None: never."""


def settled_s(run: Run) -> float | None:
    """Return the time in seconds after which the threshold at the receiver's port stays at 10 KB."""
    found = settles(run.thresholds(BOTTLENECK_PORT))
    return None if found is None else round(max(found, 0.0), 2)


def settling_claim(variant: str, times: Sequence[Settled], interval_s: float) -> Claim:
    """Claim that both fabrics settle with every seed, at most two adjustments apart."""
    alike = all(a is not None and b is not None and abs(a - b) <= 2 * interval_s for a, b in times)
    measured = ", ".join(f"{a} s and {b} s" for a, b in times)
    what = f"{variant}: the threshold settles at 10 KB, testbed and simulator"
    return Claim(what, f"within {2 * interval_s:g} s", measured, alike, EXPLANATION)


def ratios(runs: Sequence[Pair], size_class: str, name: str) -> list[float]:
    """Return simulator over testbed for each seed."""
    return [run.simulator.figure(size_class, name) / run.testbed.figure(size_class, name) for run in runs]


def claims_of(runs: Pairs) -> list[Claim]:
    """Claim that the means agree within the tolerance, and that both fabrics order the variants alike."""
    made = [
        _agrees(variant, pairs, size_class, name)
        for variant, pairs in runs.items()
        for size_class, name in TOLERANCE
    ]
    return [*made, *_order(runs)]


def _agrees(variant: str, pairs: Sequence[Pair], size_class: str, name: str) -> Claim:
    found, tolerance = ratios(pairs, size_class, name), TOLERANCE[size_class, name]
    valid = all(pair.testbed.valid for pair in pairs)
    theirs, ours = (_median(side, size_class, name) for side in zip(*pairs, strict=True))
    agrees = valid and abs(float(np.median(found)) - 1) <= tolerance
    measured = f"{ours:.3g} over {theirs:.3g} ms: {spread(found)}"
    what = f"{variant}: {CLASSES[size_class]} flows' {name}, simulator over testbed"
    return Claim(what, f"1 ± {tolerance:g}", measured, agrees, EXPLANATION if valid else "")


def _order(runs: Pairs) -> Iterator[Claim]:
    """Claim which of two variants is faster, if the testbed's means of small flows differ by a quarter."""
    means = {
        variant: [_median(side, "small", "mean") for side in zip(*pairs, strict=True)]
        for variant, pairs in runs.items()
    }
    apart = [(a, b) for a in means for b in means if means[a][0] < 0.75 * means[b][0]]
    same = sum(means[a][1] < means[b][1] for a, b in apart)
    if apart:
        what = "of two variants that differ by a quarter, the same one is faster for 10 KB flows"
        yield Claim(what, f"{len(apart)} pairs", f"{same}", same == len(apart))


def _median(sides: Sequence[Side], size_class: str, name: str) -> float:
    """Return the median over the seeds."""
    return float(np.median([side.figure(size_class, name) for side in sides]))


def table_of(runs: Pairs) -> Iterator[str]:
    """Yield a Markdown table of medians over the seeds: testbed / simulator."""
    yield "| variant | flows | mean ms | p50 ms | p99 ms | slowdown | flow by flow | retransmissions |"
    yield "|---|---|---|---|---|---|---|---|"
    for variant, pairs in runs.items():
        for size_class, title in CLASSES.items():
            yield f"| {variant} | {title} | {' | '.join(_cells(pairs, size_class))} |"


def _cells(pairs: Sequence[Pair], size_class: str) -> Iterator[str]:
    by_side = list(zip(*pairs, strict=True))
    for name in FIGURES:
        yield " / ".join(f"{_median(sides, size_class, name):.3g}" for sides in by_side)
    yield f"{np.median([flow_ratio(*pair, size_class) for pair in pairs]):.2f}"
    yield " / ".join(f"{np.median([side.retransmissions for side in sides]):g}" for sides in by_side)


def flow_ratio(theirs: Side, ours: Side, size_class: str) -> float:
    """Return the median over the flows of simulator over testbed."""
    return float(np.nanmedian(ours.of(size_class) / theirs.of(size_class)))
