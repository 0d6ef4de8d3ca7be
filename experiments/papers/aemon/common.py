# SPDX-License-Identifier: Apache-2.0
"""Common parts of the experiments on Aemon: schemes, figures of a run, and what the slides leave open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kit.draw import Line, line_of
from experiments.kit.experiment import Given, option
from experiments.kit.flows import read_flow_columns
from experiments.kit.runners import Plan, Planned, axes
from experiments.kit.runs import Results, Runs
from sluice.runs.files import SCENARIOS

LOADS = (0.75, 0.8, 0.85, 0.9)
AGNOSTIC = ("aemon", "pias", "pias+ucp", "2lps+dctcp")
"""The slides' schemes that do not know flow sizes."""
SLIDES = ("aemon", "karuna", "pias", "pias+ucp", "2lps+dctcp")
OURS = "sluice"
LINES = {
    **{scheme: line_of(scheme) for scheme in (*SLIDES, OURS)},
    "pias-optimal": Line("PIAS, best thresholds", line_of("pias").colour, "--"),
}

ALL, PLAIN, TIMED = "fct_us_all_mean", "fct_us_plain_mean", "fct_us_timed_mean"
"""Columns: mean FCT of all flows, of those without a deadline, of those with one."""
MISSED, IMPOSSIBLE = "miss_ratio", "impossible"
"""Columns: missed deadlines; deadlines shorter than the flow's time in an idle network."""

VARIED_LOAD = 0.8
VARIED: Mapping[str, Mapping[str, Any]] = {
    "deadlines of 5 to 25 ms": {"deadlines.min": "5ms", "deadlines.max": "25ms"},
    "deadlines of 50 to 250 ms": {"deadlines.min": "50ms", "deadlines.max": "250ms"},
    "70 % of the flows have one": {"deadlines.share": 0.7},
    "late flows stay urgent": {"simulator.late": "urgent"},
}
"""What the slides leave open, changed one thing at a time."""

SHARED: Mapping[str, Any] = {
    "loads": LOADS,
    "seeds": (1, 2, 3),
    "options": (
        option(
            "--no-variants",
            action="store_true",
            help="leave out what the result depends on (runs at one load)",
        ),
    ),
    "quick": {"seeds": (1,), "loads": (VARIED_LOAD,), "flows": 2000, "no_variants": True},
}
"""Options of both experiments on 144 hosts."""


def columns(bundle: Path) -> dict[str, float]:
    """Return FCT with and without a deadline, and the share of the deadlines that no scheme can meet."""
    flows = read_flow_columns(bundle)
    timed = ~np.isnan(flows.deadline_us)
    return {
        PLAIN: float(np.nanmean(flows.fct_us[~timed])),
        TIMED: float(np.nanmean(flows.fct_us[timed])),
        IMPOSSIBLE: float((flows.ideal_us[timed] > flows.deadline_us[timed]).mean()),
    }


def plan(scenario: str, schemes: Sequence[str], varied_schemes: Sequence[str]) -> Plan:
    """Return a plan of every scheme at every load, and at one load with one thing changed in each group."""
    path = SCENARIOS / f"{scenario}.toml"

    def planned(given: Given) -> Mapping[str, Planned]:
        groups = {"main": Planned(given.out / "main", axes(given, path, schemes=schemes))}
        one_load = replace(given, loads=(VARIED_LOAD,))
        for name, settings in VARIED.items() if not given["no_variants"] else ():
            points = axes(one_load, path, schemes=varied_schemes, settings=settings)
            groups[name] = Planned(given.out / name.replace(" ", "-").replace("%", "percent"), points)
        return groups

    return planned


def varied(results: Results) -> dict[str, Runs]:
    """Return the groups in which one thing is changed."""
    return {name: runs for name, runs in results.groups.items() if name != "main"}


def numbers(columns: Mapping[str, str]) -> Callable[[Results], dict[str, Any]]:
    """Return every group's figures by scheme and load, under these names."""
    return lambda results: {name: runs.by_load(columns) for name, runs in results.groups.items()}
