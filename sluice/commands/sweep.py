# SPDX-License-Identifier: Apache-2.0
"""`sluice sweep`: every combination of schemes, loads and seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

from policy.fabrics import SIMULATOR
from sluice.commands.arguments import (
    SCENARIO_HELP,
    add_plugin,
    add_settings,
    at_least_one,
    command_parser,
    folder,
    seed,
)
from sluice.completion import completed, scenarios, schemes
from sluice.runs.fabrics import FABRICS
from sluice.runs.files import read_document
from sluice.runs.settings import setting
from sluice.sweep import table
from sluice.sweep.display import print_outcome, sweep_display
from sluice.sweep.points import points
from sluice.sweep.run import run_points

_EPILOG = """A scenario's [sweep] table can set schemes, loads and seeds, and settings of one scheme or load:
  [sweep.scheme.pias.0.8]
  thresholds = ["1327KB", ...]

A sweep skips every bundle that a call has already finished for the same scenario. After Ctrl-C, call it again.
A cluster can run the points. DIR is on a shared file system; `sluice sweep` has written DIR/sweep.json:
  snakemake --snakefile sluice/sweep/Snakefile --directory DIR --configfile DIR/sweep.json
            --rerun-triggers params --keep-going --executor slurm --jobs 100
"""


def parser() -> argparse.ArgumentParser:
    made = command_parser("sweep", _EPILOG)
    scenario = made.add_argument("scenario", type=Path, help=SCENARIO_HELP)
    completed(scenario, scenarios, files=("toml",))
    chosen = made.add_argument(
        "--schemes", nargs="+", help="names of schemes, or of variants in [sweep.scheme]"
    )
    completed(chosen, schemes)
    made.add_argument("--loads", nargs="+", type=float, help="loads of the host links, 0 to 1")
    made.add_argument("--seeds", nargs="+", type=seed, help="seeds; each is one run")
    add_plugin(made)
    add_settings(made)
    made.add_argument(
        "--on", choices=FABRICS, default=SIMULATOR, help="where to run the points (default: %(default)s)"
    )
    made.add_argument(
        "--jobs", type=at_least_one, help="points at a time (default: one per core; one on the testbed)"
    )
    made.add_argument("--out", type=folder, required=True, help="folder for the bundles and sweep.parquet")
    return made


def execute(arguments: argparse.Namespace) -> int:
    wanted = points(
        read_document(arguments.scenario),
        schemes=arguments.schemes,
        loads=arguments.loads,
        seeds=arguments.seeds,
        settings=dict(setting(text) for text in arguments.settings),
    )
    with sweep_display() as report:
        outcome = run_points(wanted, arguments.out, on=arguments.on, jobs=arguments.jobs, report=report)
    rows = table.rows(arguments.out, outcome.finished)
    return print_outcome(arguments.out, rows, outcome)
