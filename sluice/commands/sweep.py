# SPDX-License-Identifier: Apache-2.0
"""`sluice sweep`: every combination of schemes, loads and seeds."""

import argparse
import sys
from functools import partial
from pathlib import Path

from sluice.commands import arguments as options
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.runs.files import FABRICS, need_root, read_document, setting
from sluice.runs.progress import check_length, predicted_total_s
from sluice.sweep import table
from sluice.sweep.cluster import DEFAULT_JOB_MINUTES, Cluster
from sluice.sweep.points import DEFAULT_SEEDS, check_point, is_finished, points, predicted_works
from sluice.sweep.run import check_start, run_points

_EPILOG = """A scenario's [sweep] table can set schemes, loads and seeds, and settings of one scheme or load:
  [sweep.scheme.pias.0.8]
  thresholds = ["1327KB", ...]

A sweep skips every bundle that a call has already finished for the same scenario. After Ctrl-C, call it again.
With --cluster slurm, the points run as jobs of some minutes. Sluice must be installed on all nodes under the same
path, and DIR must be on a file system that they share. A job that is lost starts again. docs/how-to/clusters.md has
more.
"""


def parser() -> argparse.ArgumentParser:
    parser = options.command_parser("sweep", _EPILOG)
    options.add_scenario(parser)
    chosen = parser.add_argument(
        "--schemes", nargs="+", help="names of schemes, or of variants in [sweep.scheme]"
    )
    options.completed(chosen, options.schemes)
    parser.add_argument("--loads", nargs="+", type=float, help="loads of the host links, 0 to 1")
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=options.seed,
        help="seeds; each is one run (default: five on the simulator if all runs together are short, otherwise one)",
    )
    options.add_plugin(parser)
    options.add_settings(parser)
    parser.add_argument(
        "--on", choices=FABRICS, default=SIMULATOR, help="where to run the points (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs",
        type=options.at_least_one,
        help="points at a time (default: one per core; one on the testbed); on a cluster jobs, 100 by default",
    )
    parser.add_argument("--cluster", choices=("slurm",), help="run the points as jobs of this engine")
    parser.add_argument("--profile", metavar="DIR", help="run the points as jobs by this Snakemake profile")
    parser.add_argument(
        "--job-minutes",
        type=options.seconds,
        default=DEFAULT_JOB_MINUTES,
        metavar="MINUTES",
        help="points share a job until it takes about this long (default: 5)",
    )
    parser.add_argument(
        "--out", type=options.folder, required=True, help="folder for the bundles and sweep.parquet"
    )
    options.add_yes(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if (arguments.out / "summary.json").exists():
        raise SluiceError(
            f"--out: {arguments.out} holds the bundle of a run: choose another folder for the sweep"
        )
    wanted = points(
        read_document(arguments.scenario),
        schemes=arguments.schemes,
        loads=arguments.loads,
        seeds=arguments.seeds,
        settings=dict(setting(text) for text in arguments.settings),
        on=arguments.on,
        check=partial(check_point, on=arguments.on),
    )
    if arguments.cluster and arguments.profile:
        raise SluiceError("give either --cluster or --profile")
    if arguments.profile and not Path(arguments.profile).is_dir():
        raise SluiceError(f"--profile: {arguments.profile} is no folder; give one with a config.yaml")
    cluster = None
    if arguments.cluster or arguments.profile:
        profile = arguments.profile and str(Path(arguments.profile).resolve())
        cluster = Cluster(profile, arguments.job_minutes)
    jobs = check_start(arguments.out, arguments.on, arguments.jobs, cluster)
    if cluster is None:  # how many nodes of a cluster are free is unknown
        waiting = [point for point in wanted if not is_finished(arguments.out, point)]
        if waiting and arguments.on == TESTBED:
            need_root()
        works = list(predicted_works(waiting, arguments.on).values())
        check_length(predicted_total_s(works, arguments.on, min(jobs, len(works) or 1)), arguments.yes)
    seeds = sorted({point.seed for point in wanted})
    if arguments.seeds is None and len(seeds) == DEFAULT_SEEDS:
        print(f"seeds {seeds[0]} to {seeds[-1]}; --seeds chooses others", file=sys.stderr)
    with table.sweep_display() as report:
        outcome = run_points(
            wanted, arguments.out, on=arguments.on, jobs=arguments.jobs, cluster=cluster, report=report
        )
    rows = table.rows(arguments.out, outcome.finished)
    return table.print_outcome(arguments.out, rows, outcome)
