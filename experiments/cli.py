# SPDX-License-Identifier: Apache-2.0
"""The `sluice` command."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from experiments.terminal import end_in_order
from policy.errors import SluiceError
from runtime.command import CommandFailed

_DESCRIPTION = (
    "Flow scheduling for data-centre networks: run schemes on a testbed of real switches and real TCP."
)

_EXAMPLES = """examples:
  sluice doctor                                        what this machine can do, measured
  sluice demo --duration 60                            the live demonstration, for a minute
  sluice run paper-mix --on testbed --out results/mix  one scenario; its results in a folder
  sluice run my.toml --on testbed --out results/mine

scenarios that come along are in experiments/scenarios; docs/ARCHITECTURE.md lists the keys.
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

    run = commands.add_parser("run", help="run one scenario and write its result bundle")
    run.add_argument("scenario", type=Path, help="a TOML file, or the name of one in experiments/scenarios")
    run.add_argument(
        "--on", choices=["testbed"], default="testbed", help="where to run it (default: %(default)s)"
    )
    run.add_argument("--out", type=Path, required=True, help="folder for the bundle")
    run.set_defaults(command=_run)

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
    demo.set_defaults(command=_demo)

    doctor = commands.add_parser("doctor", help="check this machine: BPF, queues, marking, shaping")
    doctor.add_argument("--quick", action="store_true", help="only look; measure nothing")
    doctor.set_defaults(command=_doctor)

    bench = commands.add_parser("bench", help="measure the cost of the data plane and the control loop")
    bench.add_argument("--out", type=Path, default=Path("results/bench.json"), help="default: %(default)s")
    bench.set_defaults(command=_bench)
    return parser


def _need_root() -> None:
    if os.geteuid() != 0:
        raise SluiceError("the testbed makes network namespaces and loads BPF: run this as root (sudo)")


def _run(arguments: argparse.Namespace) -> int:
    from experiments.files import scenario_from_file
    from experiments.terminal import print_summary, progress_bar
    from experiments.testbed_run import run_on_testbed

    scenario, document = scenario_from_file(arguments.scenario)
    _need_root()
    with progress_bar(scenario.name) as report:
        summary = run_on_testbed(scenario, document, arguments.out, report)
    print_summary(summary, title=f"{scenario.name}: {scenario.policy.scheme}")
    print(f"bundle: {arguments.out}")
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from experiments.demo import run_demo
    from experiments.files import scenario_from_file

    scenario, document = scenario_from_file(arguments.scenario)
    _need_root()
    return run_demo(
        scenario,
        document,
        arguments.out,
        listen=arguments.listen,
        duration_s=arguments.duration,
        external=arguments.services,
    )


def _doctor(arguments: argparse.Namespace) -> int:
    from experiments.terminal import print_checks
    from topologies.doctor import checks

    return print_checks(checks(measure=not arguments.quick))


def _bench(arguments: argparse.Namespace) -> int:
    from experiments.bench import run_benchmarks

    _need_root()
    return run_benchmarks(arguments.out)


if __name__ == "__main__":
    sys.exit(main())
