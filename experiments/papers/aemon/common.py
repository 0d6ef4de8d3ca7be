# SPDX-License-Identifier: Apache-2.0
"""What aemon_fct and aemon_misses share: schemes, figures of a run, what is varied because the slides leave it open."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from experiments.kit.runs import ByLoad, Line, line_of, run_sweep
from sluice.runs.files import SCENARIOS, read_document

LOADS = (0.75, 0.8, 0.85, 0.9)
AGNOSTIC = ("aemon", "pias", "pias+ucp", "2lps+dctcp")
"""Of the slides' schemes, those that know no size."""
SLIDES = ("aemon", "karuna", "pias", "pias+ucp", "2lps+dctcp")
OURS = "sluice"
LINES = {
    **{scheme: line_of(scheme) for scheme in (*SLIDES, OURS)},
    "pias-optimal": Line("PIAS, best thresholds", line_of("pias").colour, "--"),
    "pfabric": Line("pFabric (knows sizes)", line_of("pfabric").colour, ":"),
}

VARIED_LOAD = 0.8
VARIED: dict[str, Mapping[str, Any]] = {
    "deadlines of 5 to 25 ms": {"deadlines.min": "5ms", "deadlines.max": "25ms"},
    "deadlines of 50 to 250 ms": {"deadlines.min": "50ms", "deadlines.max": "250ms"},
    "70 % of the flows have one": {"deadlines.share": 0.7},
    "late flows stay urgent": {"simulator.late": "urgent"},
}
"""What the slides leave open, one thing changed at a time, by a name for people."""


def figures(bundle: Path) -> dict[str, float]:
    """Columns beyond every sweep's: FCT with and without a deadline, and the deadlines that no scheme can meet."""
    table = pq.read_table(bundle / "flows.parquet", columns=["fct_us", "ideal_us", "deadline_us"])
    fct_us, ideal_us, deadline_us = (column.to_numpy().astype(float) for column in table.columns)
    timed = ~np.isnan(deadline_us)
    return {
        "fct_us_plain_mean": float(np.nanmean(fct_us[~timed])),
        "fct_us_timed_mean": float(np.nanmean(fct_us[timed])),
        "impossible": float((ideal_us[timed] > deadline_us[timed]).mean()),
    }


def run_main(scenario: str, arguments: argparse.Namespace, schemes: Sequence[str]) -> ByLoad:
    """Every scheme at every load."""
    document = read_document(SCENARIOS / f"{scenario}.toml")
    return run_sweep(document, arguments.out / "main", arguments, schemes=schemes, more=figures)


def run_varied(scenario: str, arguments: argparse.Namespace, schemes: Sequence[str]) -> dict[str, ByLoad]:
    """The same at one load, with one thing changed each; nothing when the command line says so."""
    if arguments.no_variants:
        return {}
    document = read_document(SCENARIOS / f"{scenario}.toml")
    at_one_load = argparse.Namespace(**{**vars(arguments), "loads": [VARIED_LOAD]})
    return {
        name: run_sweep(
            document,
            arguments.out / name.replace(" ", "-").replace("%", "percent"),
            at_one_load,
            schemes=schemes,
            settings=settings,
            more=figures,
        )
        for name, settings in VARIED.items()
    }


def add_no_variants(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-variants", action="store_true", help="leave out what the result depends on (runs at one load)"
    )
