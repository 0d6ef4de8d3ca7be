# SPDX-License-Identifier: Apache-2.0
"""The `sluice` command."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import TypeAlias

from policy.errors import SluiceError
from policy.fabrics import SIMULATOR, TESTBED
from runtime.command import CommandFailed
from sluice.runs.fabrics import FABRICS, need_root
from sluice.terminal import end_in_order
from webui.options import add_retention, retention

_DESCRIPTION = (
    "Flow scheduling for data-centre networks: run schemes on a testbed of real switches and real TCP, "
    "or on a packet simulator."
)

_EXAMPLES = """examples:
  sluice doctor                                        what this machine can do, measured
  sluice demo --duration 60                            the live demonstration, for a minute
  sluice run paper-mix --on testbed --out results/mix  one scenario; its results in a folder
  sluice run my.toml --on simulator --out results/sim  the same on the simulator; no root needed
  sluice sweep my.toml --schemes dctcp pias --loads 0.5 0.8 --seeds 1 2 3 --out results/sweep
  sluice compare results/sweep --baseline dctcp        one HTML page: tables, distributions, FCT against load
  sluice top                                           what runs now, in the terminal
  sluice capture s1:2 --seconds 5 --out x.pcap         packets of a switch port

scenarios that come along are in experiments/scenarios; docs/ARCHITECTURE.md lists the keys.
"""

_SWEEP_EPILOG = """A scenario's [sweep] table may hold schemes, loads and seeds, and settings of one scheme or load:
  [sweep.scheme.pias.0.8]
  thresholds = ["1327KB", ...]

A finished bundle of the very same scenario is not run again: call it again after Ctrl-C and it goes on.
A cluster can take the points over (DIR on a shared file system; `sluice sweep` has written DIR/sweep.json):
  snakemake --snakefile sluice/sweep/Snakefile --directory DIR --configfile DIR/sweep.json
            --rerun-triggers params --keep-going --executor slurm --jobs 100
"""


def main(argv: list[str] | None = None) -> int:
    """Parse and run; user errors are one line on standard error and exit code 2."""
    arguments = _parser().parse_args(argv)
    level = logging.DEBUG if arguments.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    end_in_order()
    try:
        return int(arguments.command(arguments))
    except (SluiceError, CommandFailed, TimeoutError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sluice: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sluice",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="log what is done, every command included"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        _add_run,
        _add_sweep,
        _add_compare,
        _add_demo,
        _add_top,
        _add_capture,
        _add_doctor,
        _add_bench,
    ):
        add(commands)
    return parser


# argparse has no public name for it
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add_run(commands: Commands) -> None:
    run = commands.add_parser("run", help="run one scenario and write its result bundle")
    run.add_argument("scenario", type=Path, help="a TOML file, or the name of one in experiments/scenarios")
    run.add_argument("--on", choices=FABRICS, default=TESTBED, help="where to run it (default: %(default)s)")
    run.add_argument("--out", type=Path, required=True, help="folder for the bundle")
    _add_store(run)
    run.set_defaults(command=_run)


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        metavar="URL",
        help="a store that outlives the run: sqlite:////path/store.db or postgresql+psycopg://… "
        "(default: a file of its own)",
    )
    parser.add_argument(
        "--event-log", type=Path, metavar="FILE", help="write every event as a line of JSON, too"
    )


def _add_sweep(commands: Commands) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="run a scenario under every scheme, load and seed",
        epilog=_SWEEP_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sweep.add_argument("scenario", type=Path, help="a TOML file, or the name of one in experiments/scenarios")
    sweep.add_argument("--schemes", nargs="+", help="names of schemes, or of variants in [sweep.scheme]")
    sweep.add_argument("--loads", nargs="+", type=float, help="of the host links, 0 to 1")
    sweep.add_argument("--seeds", nargs="+", type=int, help="one run for each")
    sweep.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="a key of the scenario for all points, as in --set workload.flows=10000; may be repeated",
    )
    sweep.add_argument(
        "--on", choices=FABRICS, default=SIMULATOR, help="where to run the points (default: %(default)s)"
    )
    sweep.add_argument(
        "--jobs", type=_at_least_one, help="points at a time (default: one a core; one on the testbed)"
    )
    sweep.add_argument("--out", type=Path, required=True, help="folder for the bundles and sweep.parquet")
    sweep.set_defaults(command=_sweep)


def _add_compare(commands: Commands) -> None:
    compare = commands.add_parser("compare", help="one HTML report of bundles, or of a sweep")
    compare.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="a bundle, or a folder that holds bundles"
    )
    compare.add_argument(
        "--out", type=Path, default=Path("report.html"), help="the page (default: %(default)s)"
    )
    compare.add_argument("--baseline", help="the scheme that ratios are to (default: the first)")
    compare.set_defaults(command=_compare)


def _add_demo(commands: Commands) -> None:
    demo = commands.add_parser("demo", help="the live demonstration, with the dashboard")
    demo.add_argument("--scenario", type=Path, default=Path("demo"), help="default: %(default)s")
    demo.add_argument(
        "--duration",
        type=float,
        default=os.environ.get("SLUICE_DEMO_SECONDS") or None,
        help="seconds (or SLUICE_DEMO_SECONDS); without it, until Ctrl-C",
    )
    demo.add_argument(
        "--listen", default="127.0.0.1:8080", help="address of the dashboard (default: %(default)s)"
    )
    demo.add_argument("--out", type=Path, default=Path("results/demo"), help="default: %(default)s")
    demo.add_argument(
        "--services",
        type=Path,
        metavar="FOLDER",
        help="web process and controller run elsewhere; their store and sockets are in this folder",
    )
    demo.add_argument("--workers", type=_at_least_one, default=1, help="web processes (default: %(default)s)")
    _add_store(demo)
    add_retention(demo)
    demo.set_defaults(command=_demo)


def _add_top(commands: Commands) -> None:
    top = commands.add_parser("top", help="what runs now, live in the terminal")
    top.add_argument(
        "--url", default="http://127.0.0.1:8080", help="of the web process (default: %(default)s)"
    )
    top.add_argument("--once", action="store_true", help="print it once and end, for scripts")
    top.set_defaults(command=_top)


def _add_capture(commands: Commands) -> None:
    capture = commands.add_parser(
        "capture", help="packets of a switch port, on a testbed that runs, as a pcap file"
    )
    capture.add_argument("port", help="as the dashboard names it: SWITCH:NUMBER, say s1:2")
    capture.add_argument("--seconds", type=_seconds, default=5.0, help="how long (default: %(default)s)")
    capture.add_argument("--out", type=Path, required=True, help="the file, for tcpdump -r or Wireshark")
    capture.add_argument("--testbed", type=int, metavar="PID", help="which, where several run")
    capture.set_defaults(command=_capture)


def _add_doctor(commands: Commands) -> None:
    doctor = commands.add_parser("doctor", help="check this machine: BPF, queues, marking, shaping")
    doctor.add_argument("--quick", action="store_true", help="only look; measure nothing")
    doctor.set_defaults(command=_doctor)


def _add_bench(commands: Commands) -> None:
    bench = commands.add_parser("bench", help="measure what data plane, control loop and simulator cost")
    bench.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="PART",
        help="packets, throughput, tagger, connections, hook, policy, control, store, ingest, simulator"
        " (default: all)",
    )
    bench.add_argument("--out", type=Path, default=Path("results/bench.json"), help="default: %(default)s")
    bench.set_defaults(command=_bench)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError("must be above 0 and up to 3600")
    return value


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _run(arguments: argparse.Namespace) -> int:
    from sluice.runs.fabrics import runner
    from sluice.runs.files import scenario_from_file
    from sluice.terminal import print_summary, progress_bar

    scenario, document = scenario_from_file(arguments.scenario)
    run_scenario = runner(arguments.on)
    keeping = {"store": arguments.store, "event_log": arguments.event_log}
    if arguments.on == SIMULATOR and any(keeping.values()):
        raise SluiceError("a simulated run has neither store nor events: leave --store and --event-log out")
    more = keeping if arguments.on == TESTBED else {}
    with progress_bar(scenario.name) as report:
        summary = run_scenario(scenario, document, arguments.out, report, **more)
    print_summary(summary, title=f"{scenario.name}: {scenario.policy.scheme}")
    print(f"bundle: {arguments.out}")
    return 0


def _sweep(arguments: argparse.Namespace) -> int:
    from sluice.runs.files import read_document
    from sluice.sweep import table
    from sluice.sweep.display import print_outcome, sweep_display
    from sluice.sweep.points import points, setting
    from sluice.sweep.run import run_points

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


def _compare(arguments: argparse.Namespace) -> int:
    from sluice.report import write_report

    for notice in write_report(arguments.folders, arguments.out, baseline=arguments.baseline):
        print(f"note: {notice}", file=sys.stderr)
    print(f"report: {arguments.out}")
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from sluice.commands.demo import run_demo
    from sluice.runs.files import scenario_from_file
    from sluice.runs.stack import WebSettings

    scenario, document = scenario_from_file(arguments.scenario)
    need_root()
    if arguments.services and (arguments.store or arguments.event_log):
        raise SluiceError("--services brings its own store and web process: leave --store, --event-log out")
    return run_demo(
        scenario,
        document,
        arguments.out,
        listen=arguments.listen,
        duration_s=arguments.duration,
        external=arguments.services,
        store=arguments.store,
        web=WebSettings(arguments.workers, retention(arguments), arguments.event_log),
    )


def _top(arguments: argparse.Namespace) -> int:
    from sluice.commands.top import run_top

    return run_top(arguments.url, once=arguments.once)


def _capture(arguments: argparse.Namespace) -> int:
    from sluice.commands.capture import capture

    need_root()
    count = capture(arguments.port, arguments.seconds, arguments.out, testbed_pid=arguments.testbed)
    print(f"{arguments.out}: {count} packets of {arguments.port}")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from sluice.terminal import print_checks
    from topologies.doctor import checks

    return print_checks(checks(measure=not arguments.quick))


def _bench(arguments: argparse.Namespace) -> int:
    from sluice.bench.parts import run_benchmarks

    return run_benchmarks(arguments.out, arguments.only)


if __name__ == "__main__":
    sys.exit(main())
