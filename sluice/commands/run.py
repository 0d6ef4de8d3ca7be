# SPDX-License-Identifier: Apache-2.0
"""`sluice run`: one scenario on the testbed or on the simulator.

`sluice sweep` runs every combination of schemes, loads and seeds. `sluice compare` makes one HTML page that compares
bundles.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from sluice.commands import arguments as options
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.workload.scenario import TcpVariant
from sluice.runs import files
from sluice.runs.files import FABRICS, Resolved
from sluice.runs.pcap import write_pcap
from sluice.runs.progress import Progress, check_length, predicted_total_s, predicted_work, progress_file
from sluice.runtime import extras
from sluice.simulator.division import Division, divide
from sluice.sweep import points as sweeps
from sluice.sweep import table
from sluice.sweep.run import DEFAULT_JOB_MINUTES, Cluster, check_start, run_points
from sluice.terminal import print_summary, progress_bar

# ── run ──────────────────────────────────────────────────────────────────────────────────────────────


def run_parser() -> argparse.ArgumentParser:
    parser, at_least_one = options.command_parser("run"), options.at_least_one
    options.add_scenario(parser)
    parser.add_argument(
        "--on", choices=FABRICS, default=SIMULATOR, help="where to run it (default: %(default)s)"
    )
    options.add_plugin(parser)
    options.add_settings(parser)
    parser.add_argument("--flows", type=at_least_one, metavar="N", help="the same as --set workload.flows=N")
    parser.add_argument(
        "--threads", type=at_least_one, metavar="N", help="the same as --set simulator.threads=N"
    )
    parser.add_argument(
        "--pcap",
        action="append",
        default=[],
        metavar="PORT",
        help="write what a port sends, such as s1:2, as s1-2.pcap; sets simulator.traced_ports; may be repeated",
    )
    parser.add_argument("--out", type=options.folder, required=True, help="folder for the bundle")
    parser.add_argument("--replace", action="store_true", help="replace the bundle that --out holds already")
    options.add_yes(parser)
    options.add_store(parser)
    return parser


def run_execute(arguments: argparse.Namespace) -> int:
    if not arguments.replace and (arguments.out / "summary.json").exists():
        raise SluiceError(
            f"--out: {arguments.out} holds the bundle of another run: choose another folder, or add --replace"
        )
    settings = dict(files.setting(text) for text in arguments.settings)
    if arguments.flows is not None:
        settings["workload.flows"] = arguments.flows
    if arguments.threads is not None:
        settings["simulator.threads"] = arguments.threads
    if arguments.pcap:
        if arguments.on != SIMULATOR or any("*" in port for port in arguments.pcap):
            raise SluiceError("--pcap: name one port of the simulator; sluice capture is for the testbed")
        settings["simulator.traced_ports"] = arguments.pcap
    resolved = files.scenario_from_file(arguments.scenario, settings)
    scenario = resolved.scenario
    files.check_on(scenario, arguments.on)
    run_scenario = files.runner(arguments.on)
    keeping = {"store": arguments.store, "event_log": arguments.event_log}
    if arguments.on == SIMULATOR and any(keeping.values()):
        raise SluiceError(
            "a simulated run has no store and no events: omit --store and --event-log, or say --on testbed"
        )
    check_length(predicted_total_s([predicted_work(resolved, arguments.on)], arguments.on), arguments.yes)
    more = keeping if arguments.on == TESTBED else {"division": _division(resolved)}
    names = {"name": scenario.name, "scheme": scenario.policy.scheme, "on": arguments.on}
    with progress_file(arguments.out, **names) as file, progress_bar(scenario.name) as show:

        def report(progress: Progress) -> None:
            show(progress)
            file.report(progress)

        summary = run_scenario(resolved, arguments.out, report, **more)
    print_summary(summary, title=f"{scenario.name}: {scenario.policy.scheme}")
    print(f"bundle: {arguments.out}")
    for port in arguments.pcap:
        print(f"packets: {write_pcap(arguments.out, port, scenario.simulator.tcp or TcpVariant())}")
    return 0


def _division(resolved: Resolved) -> Division:
    """Divide the network. Say why one thread runs it although several are asked for."""
    division = divide(resolved.scenario, resolved.topology)
    if division.obstacle:
        print(f"threads: {division.obstacle}, so one thread runs the whole network", file=sys.stderr)
    return division


# ── sweep ────────────────────────────────────────────────────────────────────────────────────────────


_SWEEP_EPILOG = """A scenario's [sweep] table can set schemes, loads and seeds, and settings of one scheme or load:
  [sweep.scheme.pias.0.8]
  thresholds = ["1327KB", ...]

A sweep skips every bundle that a call has already finished for the same scenario. After Ctrl-C, call it again.
With --cluster slurm, the points run as jobs of some minutes. Sluice must be installed on all nodes under the same
path, and DIR must be on a file system that they share. A job that is lost starts again. docs/how-to/clusters.md has
more.
"""


def sweep_parser() -> argparse.ArgumentParser:
    parser = options.command_parser("sweep", _SWEEP_EPILOG)
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


def sweep_execute(arguments: argparse.Namespace) -> int:
    if (arguments.out / "summary.json").exists():
        raise SluiceError(
            f"--out: {arguments.out} holds the bundle of a run: choose another folder for the sweep"
        )
    wanted = sweeps.points(
        files.read_document(arguments.scenario),
        schemes=arguments.schemes,
        loads=arguments.loads,
        seeds=arguments.seeds,
        settings=dict(files.setting(text) for text in arguments.settings),
        on=arguments.on,
        check=partial(sweeps.check_point, on=arguments.on),
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
        waiting = [point for point in wanted if not sweeps.is_finished(arguments.out, point)]
        if waiting and arguments.on == TESTBED:
            files.need_root()
        works = [point.work for point in waiting]
        check_length(predicted_total_s(works, arguments.on, min(jobs, len(works) or 1)), arguments.yes)
    seeds = sorted({point.seed for point in wanted})
    if arguments.seeds is None and len(seeds) == sweeps.DEFAULT_SEEDS:
        print(f"seeds {seeds[0]} to {seeds[-1]}; --seeds chooses others", file=sys.stderr)
    with table.sweep_display() as report:
        outcome = run_points(
            wanted, arguments.out, on=arguments.on, jobs=arguments.jobs, cluster=cluster, report=report
        )
    rows = table.rows(arguments.out, outcome.finished)
    return table.print_outcome(arguments.out, rows, outcome)


# ── compare ──────────────────────────────────────────────────────────────────────────────────────────


def compare_parser() -> argparse.ArgumentParser:
    parser = options.command_parser("compare")
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="a bundle, or a folder that holds bundles"
    )
    parser.add_argument(
        "--out",
        type=options.file,
        default=Path("report.html"),
        help="HTML file to write (default: %(default)s)",
    )
    parser.add_argument(
        "--baseline",
        help="the scheme, or version of the policy, that the others are compared with (default: the first)",
    )
    parser.add_argument(
        "--figures",
        type=options.folder,
        metavar="FOLDER",
        help="also write every picture as PNG and PDF, and its data as CSV, into FOLDER",
    )
    options.add_plugin(parser)
    return parser


def compare_execute(arguments: argparse.Namespace) -> int:
    extras.need("matplotlib", "sluice compare")
    from sluice.report.page import write_report

    out, figures = arguments.out, arguments.figures
    for notice in write_report(arguments.folders, out, baseline=arguments.baseline, figures=figures):
        print(f"note: {notice}", file=sys.stderr)
    print(f"report: {out}")
    if figures is not None:
        print(f"figures: {figures}")
    return 0
