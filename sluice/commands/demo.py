# SPDX-License-Identifier: Apache-2.0
"""The live demonstration: traffic for a given time, the dashboard in the browser, a summary in the terminal."""

import argparse
import os
import socket
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.commands.arguments import (
    SCENARIO_HELP,
    add_plugin,
    add_store,
    at_least_one,
    command_parser,
    folder,
    seconds,
    services_folder,
)
from sluice.completion import completed, scenarios
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED, missing
from sluice.policy.network.graph import Topology
from sluice.policy.units import format_rate, rate_bps
from sluice.policy.wire.records import SCHEDULED, WATCHED
from sluice.runs import validity
from sluice.runs.bundle import COMMAND, BundleWriter, by_time, machine_meta, policy_rows
from sluice.runs.fabrics import FABRICS
from sluice.runs.files import Resolved, scenario_from_file, scenario_with
from sluice.runs.live.stack import SimulatedStack
from sluice.runs.obstacle import obstacle
from sluice.runs.services import WebSettings
from sluice.runs.stack import Stack
from sluice.runs.tour import (
    STAGE_S,
    Stage,
    by_stage,
    finish_tour,
    run_tour,
    simulated_traffic,
    testbed_traffic,
    tour_policies,
)
from sluice.runs.validity import RunWatch
from sluice.runtime import extras
from sluice.runtime.settings.kinds import is_loopback
from sluice.simulator import build
from sluice.simulator.limits import check_scenario
from sluice.store.flows import flow_pages
from sluice.terminal import console, print_summary, print_validity
from sluice.webui.options import PLAINTEXT, add_retention, retention

AUTO = "auto"
SCENARIOS = {TESTBED: "demo", SIMULATOR: "demo-simulator"}
"""The default scenario of each fabric."""


def parser() -> argparse.ArgumentParser:
    parser = command_parser("demo")
    scenario = parser.add_argument(
        "scenario",
        type=Path,
        nargs="?",
        help=f"{SCENARIO_HELP} (default: demo; on the simulator demo-simulator)",
    )
    completed(scenario, scenarios, files=("toml",))
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
        default=STAGE_S,
        metavar="SECONDS",
        help="length of the traffic of each scheme of the tour (default: %(default)g)",
    )
    parser.add_argument(
        "--listen", default="127.0.0.1:8080", help="address of the dashboard (default: %(default)s)"
    )
    parser.add_argument(
        "--plaintext-beyond-loopback",
        action="store_true",
        help="allow --listen an address that other machines reach, though it has no TLS",
    )
    parser.add_argument(
        "--out",
        type=folder,
        default=Path("results/demo"),
        help="folder for the bundle (default: %(default)s)",
    )
    parser.add_argument(
        "--services",
        type=services_folder,
        metavar="FOLDER",
        help="use a web process and a controller that already run; FOLDER holds their store and sockets",
    )
    parser.add_argument(
        "--workers", type=at_least_one, default=1, help="number of web processes (default: %(default)s)"
    )
    add_plugin(parser)
    add_store(parser)
    add_retention(parser)
    return parser


@dataclass(frozen=True)
class Demo:
    """A demonstration that can start."""

    resolved: Resolved
    on: str
    """TESTBED or SIMULATOR."""
    out: Path
    listen: str
    duration_s: float | None
    external: Path | None = None
    store: str | None = None
    web: WebSettings | None = None
    tour_s: float | None = None
    """Length of each stage of a tour; None: no tour."""
    rate_bps: int | None = None
    """Rate of all links of the default demonstration; None: the scenario's rates."""


def execute(arguments: argparse.Namespace) -> int:
    check_plaintext(arguments.listen, arguments.plaintext_beyond_loopback)
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
    return run_demo(
        Demo(
            resolved,
            on,
            arguments.out,
            listen=arguments.listen,
            duration_s=arguments.duration,
            external=arguments.services,
            store=arguments.store,
            web=WebSettings(
                arguments.workers,
                retention(arguments),
                arguments.event_log,
                plaintext_beyond_loopback=arguments.plaintext_beyond_loopback,
                fsync=arguments.store is not None,
            ),
            tour_s=arguments.tour_seconds if arguments.tour else None,
            rate_bps=rate,
        )
    )


def demo_rate(text: str) -> int:
    """Return bit/s. Raises ArgumentTypeError."""
    try:
        rate = rate_bps("--rate", text)
    except FieldError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not validity.RATES_BPS[0] <= rate <= validity.RATES_BPS[-1]:
        raise argparse.ArgumentTypeError(f"must be from 1Mbit to 10Mbit, not {text}")
    return rate


def fitting_rate() -> int:
    """Measure what this machine forwards, and say which rate fits."""
    console.print("measuring what this machine forwards …")
    forwarding = validity.measure()
    console.print(
        f"links of {format_rate(forwarding.rate_bps())}: {forwarding}", highlight=False, soft_wrap=True
    )
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
            console.print(f"simulated network, because: {reason}", highlight=False, soft_wrap=True)
    return scenario_from_file(path or Path(SCENARIOS[on])), on


def run_demo(demo: Demo) -> int:
    """Run for `duration_s` or until Ctrl-C, and print the summary. The exit code is 0 either way."""
    topology = demo.resolved.topology
    if demo.external is None:
        check_free(demo.listen)
    if demo.on == SIMULATOR:
        check_scenario(demo.resolved.scenario)
        if not build.is_fresh():
            console.print("compiling the simulator, which takes about a minute …")
            build.build()
    kind = "simulated " if demo.on == SIMULATOR else ""
    console.print(
        f"[bold]Sluice[/] starts {len(topology.switches)} {kind}switches and {len(topology.hosts)} {kind}hosts …"
    )
    with _started(demo, topology) as stack:
        _print_where(stack, demo.listen)
        stages: list[Stage] = []
        watch = None if isinstance(stack, SimulatedStack) else RunWatch(stack.testbed)
        try:
            with watch or nullcontext():
                try:
                    _traffic(demo, stack, topology, stages)
                finally:
                    stack.reserve.release()  # the last measurements need some room, too
        except KeyboardInterrupt:
            console.print("stopping …")
        stack.stop_agents()
        summary = _write_bundle(demo, stack, watch, stages)
    if stages:
        finish_tour(demo.out)
        print_validity(summary)
    else:
        print_summary(summary, title="the whole demonstration")
    console.print(f"bundle: {demo.out}")
    return 0


def _started(demo: Demo, topology: Topology) -> Stack:
    folder = demo.out / f"run-{int(time.time())}"
    if demo.on == TESTBED:
        return Stack.start(
            demo.resolved.scenario,
            topology,
            folder,
            listen=demo.listen,
            external=demo.external,
            store=demo.store,
            web=demo.web,
        )
    return SimulatedStack.of_document(
        demo.resolved.scenario,
        demo.resolved.document,
        topology,
        folder,
        listen=demo.listen,
        external=demo.external,
        store=demo.store,
        web=demo.web,
        hold_s=demo.tour_s,
    )


def _traffic(demo: Demo, stack: Stack, topology: Topology, stages: list[Stage]) -> None:
    """Run the traffic. Adds each finished stage of a tour to `stages`."""
    if demo.tour_s is not None:
        for stage in run_tour(stack, tour_policies(demo.resolved.scenario, topology), demo.tour_s):
            stages.append(stage)
    elif isinstance(stack, SimulatedStack):
        simulated_traffic(stack, demo.duration_s)
    else:
        testbed_traffic(stack, demo.resolved.scenario, topology, demo.duration_s)


def _write_bundle(
    demo: Demo, stack: Stack, watch: RunWatch | None, stages: Sequence[Stage]
) -> dict[str, Any]:
    """Write the bundle of the whole demonstration, and return the summary."""
    tour = [] if demo.tour_s is None else ["--tour", "--tour-seconds", f"{demo.tour_s:g}"]
    ends = [] if demo.duration_s is None else ["--duration", f"{demo.duration_s:g}"]
    rate = [] if demo.rate_bps is None else ["--rate", f"{demo.rate_bps}bit"]
    # It repeats the demonstration; the scenario and the folder are not in it.
    command = ["sluice", "demo", "--on", demo.on, *rate, *tour, *ends]
    meta = machine_meta(demo.resolved.scenario.seed) | {"on": demo.on, COMMAND: command}
    dilation = 1.0
    if isinstance(stack, SimulatedStack):
        beat = stack.heartbeat()
        meta |= {"simulated_s": beat.simulated_s, "elapsed_s": beat.elapsed_s}
        dilation = max(1.0, beat.dilation)
    versions = stack.policies()
    lived = by_stage(stages, versions) if stages else by_time(versions, dilation)
    policies = policy_rows(versions)
    with BundleWriter(
        demo.out, scenario=demo.resolved.document, policies=policies, version_of=lived
    ) as bundle:
        for records in flow_pages(stack.engine, SCHEDULED, stack.began_after):
            bundle.add_records(records)
        bundle.add_thresholds(map(vars, stack.thresholds()))
        bundle.add_queues(map(vars, stack.samples()))
        return bundle.finish(
            meta=meta | ({"cpu": watch.summary() | stack.host_delays.summary()} if watch else {}),
            validity_reasons=[*watch.reasons(), *stack.host_delays.reasons()] if watch else [],
            remarks=watch.remarks() if watch else [],
            watched=stack.records(WATCHED),
        )


def check_plaintext(listen: str, allowed: bool) -> None:
    """Raise FieldError if other machines reach the dashboard without TLS, and no one said that they may."""
    try:
        beyond = not is_loopback(listen)
    except ValueError:
        raise FieldError("--listen", f"must be HOST:PORT, not {listen!r}") from None
    if beyond and not allowed:
        raise FieldError("--listen", PLAINTEXT.format(address=listen))


def check_free(listen: str) -> None:
    """Raise FieldError or SluiceError if the dashboard cannot use this address."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise FieldError("--listen", f"must be HOST:PORT, not {listen!r}")
    try:
        socket.create_server((host.strip("[]"), int(port))).close()
    except (OSError, OverflowError) as error:
        raise SluiceError(
            f"cannot serve the dashboard on {listen} ({error}): "
            "stop the program that listens there, or choose another --listen"
        ) from None


def _print_where(stack: Stack, listen: str) -> None:
    console.print(f"dashboard: [bold]http://{listen}/[/]")
    if console.is_terminal and not stack.external:
        console.print(
            f"  with the right to change the scheme: http://{listen}/#token={stack.token}", soft_wrap=True
        )
    else:  # a log would keep the token
        console.print(f"  the right to change the scheme is the token in {stack.token_file}", soft_wrap=True)
    console.print("Ctrl-C ends the demonstration and leaves nothing behind.\n")
