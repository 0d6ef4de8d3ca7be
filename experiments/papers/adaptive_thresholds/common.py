# SPDX-License-Identifier: Apache-2.0
"""What dyna_fig5 … dyna_fig8 share: the runs of Gutiérrez et al., section 4, and their figures.

All four read the same runs: static and dynamic thresholds from 1, 10 and 1000 KB, five loads, some seeds
(dyna.toml). Where the paper's figures do not come out of them, `CAUSES` changes one thing of the set-up at
a time."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kit.paired import Difference, difference
from experiments.kit.pool import Flows, percentile, read_flows, run_all
from policy.schemes import SCHEMES
from sluice.runs.files import read_document
from sluice.sweep.points import Point, points
from sluice.terminal import end_in_order

SCENARIO = Path(__file__).with_name("dyna.toml")
STARTS = ("1KB", "10KB", "1000KB")
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
SEEDS = (1, 2, 3, 4, 5)
SHORT_BYTES = 10_000
SETTLED_S = 0.25
"""The thresholds have been adjusted once, after 0.2 s, and what was under way then is done."""
BOTTLENECK_PORT = "s1:1"
"""The switch port of N0, the receiver of everything."""
STATIC_COLOUR, DYNAMIC_COLOUR = SCHEMES["pias"].colour, SCHEMES["mlfq-adaptive"].colour

FIGURES = ("short_mean", "short_p99", "long_mean", "long_p99")


@dataclass(frozen=True)
class Runs:
    """Where the runs are, and which."""

    folder: Path
    flows: int
    seeds: tuple[int, ...]
    jobs: int | None

    def figures(self, variant: str, load: float, *, settled: bool = False) -> dict[str, list[float]]:
        """Each figure of FIGURES in microseconds, in the order of the seeds.

        `settled`: of the flows that started when the thresholds of a dynamic run had been adjusted.
        """
        runs = [self._figures(variant, load, seed, settled) for seed in self.seeds]
        return {name: [run[name] for run in runs] for name in FIGURES}

    def _figures(self, variant: str, load: float, seed: int, settled: bool) -> dict[str, float]:
        flows = read_flows(self.bundle(variant, load, seed))
        return figures_of(flows.of(flows.started_s >= SETTLED_S) if settled else flows)

    def bundle(self, variant: str, load: float, seed: int) -> Path:
        return self.folder / Point(variant, load, seed, {}).name

    def change(self, figure: str, start: str, load: float, *, settled: bool = False) -> Difference:
        """Of the dynamic runs from a start over the static ones."""
        dynamic = self.figures(f"dynamic-{start}", load, settled=settled)[figure]
        return difference(dynamic, self.figures(f"static-{start}", load, settled=settled)[figure])


def figures_of(flows: Flows) -> dict[str, float]:
    """Mean and 99th percentile of short and long flows, in microseconds. A flow that did not finish is an error."""
    if np.isnan(flows.fct_us).any():
        raise ValueError("flows are unfinished: their figures would be too good")
    short = flows.bytes <= SHORT_BYTES
    named = {"short": flows.fct_us[short], "long": flows.fct_us[~short]}
    means = {f"{name}_mean": float(values.mean()) for name, values in named.items()}
    return means | {f"{name}_p99": percentile(values, 99) for name, values in named.items()}


def arguments(name: str, description: str | None, argv: Sequence[str] | None) -> tuple[Path, Runs]:
    """The command line of an experiment: where its verdict goes, and the runs, made where they are missing."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results") / name)
    parser.add_argument(
        "--runs", type=Path, default=Path("results/dyna"), help="bundles, shared by dyna_fig5 … dyna_fig8"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument(
        "--flows", type=int, default=10_000, help="per run (default: %(default)s, as the paper)"
    )
    parser.add_argument("--jobs", type=int, help="runs at a time (default: one a core)")
    given = parser.parse_args(argv)
    end_in_order()
    folder = given.runs if given.flows == 10_000 else given.runs.with_name(f"{given.runs.name}-{given.flows}")
    runs = Runs(folder, given.flows, tuple(given.seeds), given.jobs)
    run_all(planned(runs), runs.folder, runs.jobs)
    given.out.mkdir(parents=True, exist_ok=True)
    return given.out, runs


def planned(runs: Runs) -> list[Point]:
    """Every run of the paper's section 4."""
    return points(read_document(SCENARIO), seeds=runs.seeds, settings={"workload.flows": runs.flows})


HEADERS_COUNTED = {
    "mix": [
        {"bytes": "10KB", "share": 0.8, "from": ["h3"]},
        {"bytes": "1028KB", "share": 0.2, "from": ["h2", "h4"]},
    ]
}
"""1000 KB in packets of 1460 bytes with 40 of headers, all of them counted: the last 28 KB lie above a
threshold of 1000 KB."""

CAUSES: Mapping[str, Mapping[str, Any]] = {
    "as-is": {},
    "window-10": {"transport": {"connections": "new", "initial_window": 10}},
    "buffer-3600KB": {"fabric": {"buffer": "3600KB"}},
    "no-marks": {"scheme": {"mark_at": "100MB"}},
    "no-marks-3600KB": {"scheme": {"mark_at": "100MB"}, "fabric": {"buffer": "3600KB"}},
    "rto-10ms": {"transport": {"rto_min": "10ms"}},
    "headers-counted": {"workload": HEADERS_COUNTED},
    "headers-window-10": {
        "workload": HEADERS_COUNTED,
        "transport": {"connections": "new", "initial_window": 10},
    },
}
"""One thing changed at a time: tables of the scenario."""


def cause_points(
    runs: Runs, causes: Sequence[str], variants: Sequence[str], loads: Sequence[float]
) -> list[Point]:
    """Variants of dyna.toml under changed set-ups; a point's scheme is `<cause>-<variant>`."""
    document = read_document(SCENARIO)
    plans = document["sweep"]["scheme"]
    made = {
        f"{cause}-{variant}": _changed(plans[variant], CAUSES[cause])
        for cause in causes
        for variant in variants
    }
    plan = {"scheme": made, "schemes": list(made), "loads": list(loads), "seeds": list(runs.seeds)}
    return points({**document, "sweep": plan}, settings={"workload.flows": runs.flows})


def _changed(plan: Mapping[str, Any], cause: Mapping[str, Any]) -> dict[str, Any]:
    tables = copy.deepcopy(dict(cause))
    return {**plan, **tables.pop("scheme", {}), **tables}
