# SPDX-License-Identifier: Apache-2.0
"""The live demonstration: traffic for a given time, the dashboard in the browser, a summary in the terminal."""

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sluice.commands import arguments as options
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED, missing
from sluice.policy.units import format_rate
from sluice.policy.wire.records import SCHEDULED, WATCHED
from sluice.runs import tour, validity
from sluice.runs.bundle import COMMAND, BundleWriter, by_time, machine_meta, policy_rows
from sluice.runs.files import FABRICS, Resolved, scenario_from_file, scenario_with
from sluice.runs.obstacle import obstacle
from sluice.runs.stack import SimulatedStack, Stack
from sluice.runtime import extras
from sluice.simulator import build
from sluice.simulator.limits import check_scenario
from sluice.store.flows import numbered_pages
from sluice.terminal import console, print_summary, print_validity, say
from sluice.webui.service import add_retention, retention_argv, retention_of

AUTO = "auto"
SCENARIOS = {TESTBED: "demo", SIMULATOR: "demo-simulator"}
"""The default scenario of each fabric."""


def parser() -> argparse.ArgumentParser:
    parser, seconds = options.command_parser("demo"), options.seconds
    about = f"{options.SCENARIO_HELP} (default: demo; on the simulator demo-simulator)"
    options.add_scenario(parser, about, nargs="?")
    parser.add_argument(
        "--on",
        choices=(AUTO, *FABRICS),
        default=AUTO,
        help="testbed: real switches and real TCP; simulator: a simulated network, without root; "
        "auto: the testbed if this machine can run it (default: %(default)s)",
    )
    parser.add_argument(
        "--duration",
        type=seconds,
        default=os.environ.get("SLUICE_DEMO_SECONDS") or None,
        help="length in seconds (or SLUICE_DEMO_SECONDS); default: until Ctrl-C",
    )
    parser.add_argument(
        "--rate",
        type=demo_rate,
        default=os.environ.get("SLUICE_DEMO_RATE") or None,
        metavar="RATE",
        help="rate of all links of the default demonstration on the testbed, for example 5Mbit (or SLUICE_DEMO_RATE);"
        " default: what this machine can forward, which takes some seconds to measure",
    )
    parser.add_argument(
        "--tour",
        action="store_true",
        help="go through TCP, DCTCP, PIAS, Adaptive MLFQ and Sluice by itself, with the same flows for each, and end"
        " with a table and a plot that compare them",
    )
    parser.add_argument(
        "--tour-seconds",
        type=seconds,
        default=tour.STAGE_S,
        metavar="SECONDS",
        help="length of the traffic of each scheme of the tour (default: %(default)g)",
    )
    options.add_listen(parser)
    parser.add_argument(
        "--out",
        type=options.folder,
        default=Path("results/demo"),
        help="folder for the bundle (default: %(default)s)",
    )
    parser.add_argument(
        "--services",
        type=options.existing_folder,
        metavar="FOLDER",
        help="use a web process and a controller that already run; FOLDER holds their store and sockets",
    )
    workers = "number of web processes (default: %(default)s)"
    parser.add_argument("--workers", type=options.at_least_one, default=1, help=workers)
    options.add_plugin(parser)
    options.add_store(parser)
    add_retention(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    options.check_plaintext(arguments.listen, arguments.plaintext_beyond_loopback)
    if arguments.services and (arguments.store or arguments.event_log):
        raise SluiceError("--services has a store and a web process of its own: omit --store and --event-log")
    if arguments.tour and arguments.duration is not None:
        raise SluiceError("--tour ends by itself: omit --duration, and set --tour-seconds for each scheme")
    if arguments.tour:
        extras.need("matplotlib", "--tour")
    resolved, on = chosen(arguments.on, arguments.scenario)
    rate = None
    if on == TESTBED and arguments.scenario is None:
        rate = arguments.rate or fitting_rate()
        resolved = scenario_with(resolved.document, **validity.at_rate(resolved.document, rate))
    elif arguments.rate is not None:
        raise FieldError(
            "--rate", "is for the default demonstration on the testbed: set host_rate in the scenario"
        )
    return run_demo(arguments, resolved, on, rate)


def demo_rate(text: str) -> int:
    """Return bit/s. Raises ArgumentTypeError."""
    rate = options.rate(text)
    if not validity.RATES_BPS[0] <= rate <= validity.RATES_BPS[-1]:
        raise argparse.ArgumentTypeError(f"must be from 1Mbit to 10Mbit, not {text}")
    return rate


def fitting_rate() -> int:
    """Measure what this machine forwards, and say which rate fits."""
    console.print("measuring what this machine forwards …")
    forwarding = validity.measure()
    say(f"links of {format_rate(forwarding.rate_bps())}: {forwarding}")
    return forwarding.rate_bps()


def chosen(on: str, path: Path | None) -> tuple[Resolved, str]:
    """Return the scenario and the fabric. `on` may be AUTO: then one line says why it is the simulator.

    Raises SluiceError if the testbed is demanded and cannot run here.
    """
    reason = obstacle() if on != SIMULATOR else None
    if on == TESTBED and reason:
        raise SluiceError(
            f"the testbed cannot run here: {reason}. `sluice doctor` names each remedy; "
            f"--on {SIMULATOR} needs none"
        )
    if on == AUTO and not reason and path is not None:
        policy = scenario_from_file(path)[0].policy
        if needs := missing(policy, TESTBED):
            reason = f"{policy.scheme} needs {' and '.join(needs)}"
    if on == AUTO:
        on = SIMULATOR if reason else TESTBED
        if reason:
            say(f"simulated network, because: {reason}")
    return scenario_from_file(path or Path(SCENARIOS[on])), on


def run_demo(arguments: argparse.Namespace, resolved: Resolved, on: str, rate: int | None) -> int:
    """Run for --duration or until Ctrl-C, and print the summary. The exit code is 0 either way.

    `rate`: that of all links of the default demonstration, in bit/s; None: the scenario's rates.
    """
    topology = resolved.topology
    if arguments.services is None:
        options.check_free(arguments.listen)
    if on == SIMULATOR:
        check_scenario(resolved.scenario)
        if not build.is_fresh():
            console.print("compiling the simulator, which takes about a minute …")
            build.build()
    kind = "simulated " if on == SIMULATOR else ""
    console.print(
        f"[bold]Sluice[/] starts {len(topology.switches)} {kind}switches and {len(topology.hosts)} {kind}hosts …"
    )
    with _started(arguments, resolved, on) as stack:
        _print_where(stack, arguments.listen)
        stages: list[tour.Stage] = []
        try:
            if arguments.tour:
                policies = tour.tour_policies(resolved.scenario, topology)
                for stage in tour.run_tour(stack, policies, arguments.tour_seconds):
                    stages.append(stage)
            elif isinstance(stack, SimulatedStack):
                tour.simulated_traffic(stack, arguments.duration)
            else:
                tour.testbed_traffic(stack, arguments.duration)
        except KeyboardInterrupt:
            console.print("stopping …")
        stack.reserve.release()
        stack.stop_agents()
        words = ["--rate", f"{rate}bit"] if rate is not None else []
        words += ["--tour", "--tour-seconds", f"{arguments.tour_seconds:g}"] if arguments.tour else []
        words += ["--duration", f"{arguments.duration:g}"] if arguments.duration is not None else []
        # It repeats the demonstration; the scenario and the folder are not in it.
        command = ["sluice", "demo", "--on", on, *words]
        meta = machine_meta(resolved.scenario.seed) | {"on": on, COMMAND: command}
        summary = _write_bundle(arguments.out, resolved.document, meta, stack, stages)
    if stages:
        tour.finish_tour(arguments.out)
        print_validity(summary)
    else:
        print_summary(summary, title="the whole demonstration")
    console.print(f"bundle: {arguments.out}")
    return 0


def _started(arguments: argparse.Namespace, resolved: Resolved, on: str) -> Stack:
    web = ["--workers", str(arguments.workers), *retention_argv(retention_of(arguments))]
    web += ["--event-log", str(arguments.event_log)] if arguments.event_log else []
    web += ["--plaintext-beyond-loopback"] if arguments.plaintext_beyond_loopback else []
    own: dict[str, Any] = {}
    if on == SIMULATOR:
        own = {"document": resolved.document, "hold_s": arguments.tour_seconds if arguments.tour else None}
    return (Stack if on == TESTBED else SimulatedStack).start(
        resolved.scenario,
        resolved.topology,
        arguments.out / f"run-{int(time.time())}",
        listen=arguments.listen,
        external=arguments.services,
        store=arguments.store,
        web=web,
        **own,
    )


def _write_bundle(
    out: Path,
    document: Mapping[str, Any],
    meta: dict[str, Any],
    stack: Stack,
    stages: Sequence[tour.Stage],
) -> dict[str, Any]:
    """Write the bundle of the whole demonstration, and return the summary."""
    watch = None if isinstance(stack, SimulatedStack) else stack.watch
    dilation = 1.0
    if isinstance(stack, SimulatedStack):
        beat = stack.heartbeat()
        meta |= {"simulated_s": beat.simulated_s, "elapsed_s": beat.elapsed_s}
        dilation = max(1.0, beat.dilation)
    if watch:
        meta |= {"cpu": watch.summary() | stack.host_delays.summary()}
    versions = stack.policies()
    lived = tour.by_stage(stages, versions) if stages else by_time(versions, dilation)
    with BundleWriter(out, scenario=document, policies=policy_rows(versions), version_of=lived) as bundle:
        for _, records in numbered_pages(stack.engine, SCHEDULED, stack.began_after):
            bundle.add_records(records)
        bundle.add_thresholds(map(vars, stack.thresholds()))
        bundle.add_queues(map(vars, stack.samples()))
        return bundle.finish(
            meta=meta,
            validity_reasons=[*watch.reasons(), *stack.host_delays.reasons()] if watch else [],
            remarks=watch.remarks() if watch else [],
            watched=stack.records(WATCHED),
        )


def _print_where(stack: Stack, listen: str) -> None:
    console.print(f"dashboard: [bold]http://{listen}/[/]")
    if console.is_terminal and not stack.external:
        say(f"  with the right to change the scheme: http://{listen}/#token={stack.token}")
    else:  # a log would keep the token
        say(f"  the right to change the scheme is the token in {stack.token_file}")
    console.print("Ctrl-C ends the demonstration and leaves nothing behind.\n")
