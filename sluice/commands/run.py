# SPDX-License-Identifier: Apache-2.0
"""`sluice run`: one scenario on the testbed or on the simulator."""

import argparse
import sys

from sluice.commands import arguments as options
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.runs.fabrics import FABRICS, check_on, runner
from sluice.runs.files import Resolved, scenario_from_file, setting
from sluice.runs.prediction import check_length, predicted_s
from sluice.runs.progress import Progress, progress_file
from sluice.simulator.division import Division, divide
from sluice.terminal import print_summary, progress_bar


def parser() -> argparse.ArgumentParser:
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
    parser.add_argument("--out", type=options.folder, required=True, help="folder for the bundle")
    parser.add_argument("--replace", action="store_true", help="replace the bundle that --out holds already")
    options.add_yes(parser)
    options.add_store(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if not arguments.replace and (arguments.out / "summary.json").exists():
        raise SluiceError(
            f"--out: {arguments.out} holds the bundle of another run: choose another folder, or add --replace"
        )
    settings = dict(setting(text) for text in arguments.settings)
    if arguments.flows is not None:
        settings["workload.flows"] = arguments.flows
    if arguments.threads is not None:
        settings["simulator.threads"] = arguments.threads
    resolved = scenario_from_file(arguments.scenario, settings)
    scenario = resolved.scenario
    check_on(scenario, arguments.on)
    run_scenario = runner(arguments.on)
    keeping = {"store": arguments.store, "event_log": arguments.event_log}
    if arguments.on == SIMULATOR and any(keeping.values()):
        raise SluiceError(
            "a simulated run has no store and no events: omit --store and --event-log, or say --on testbed"
        )
    check_length(predicted_s(resolved, arguments.on), arguments.yes)
    more = keeping if arguments.on == TESTBED else {"division": _division(resolved)}
    names = {"name": scenario.name, "scheme": scenario.policy.scheme, "on": arguments.on}
    with progress_file(arguments.out, **names) as file, progress_bar(scenario.name) as show:

        def report(progress: Progress) -> None:
            show(progress)
            file.report(progress)

        summary = run_scenario(resolved, arguments.out, report, **more)
    print_summary(summary, title=f"{scenario.name}: {scenario.policy.scheme}")
    print(f"bundle: {arguments.out}")
    return 0


def _division(resolved: Resolved) -> Division:
    """Divide the network. Say why one thread runs it although several are asked for."""
    division = divide(resolved.scenario, resolved.topology)
    if division.obstacle:
        print(f"threads: {division.obstacle}, so one thread runs the whole network", file=sys.stderr)
    return division
