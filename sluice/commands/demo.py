# SPDX-License-Identifier: Apache-2.0
"""The live demonstration: traffic for a given time, the dashboard in the browser, a summary in the terminal."""

from __future__ import annotations

import argparse
import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group
from rich.live import Live
from rich.text import Text

from policy.errors import FieldError, SluiceError
from policy.graph import Topology
from policy.metrics import summarise
from policy.records import WATCHED
from policy.scenario import Scenario, scheduled_flows
from policy.schedule import ScheduledFlow
from policy.units import format_bytes
from sluice.commands.arguments import SCENARIO_HELP, add_store, at_least_one, command_parser
from sluice.runs.bundle import machine_meta, write_bundle
from sluice.runs.fabrics import need_root
from sluice.runs.files import scenario_from_file
from sluice.runs.process_input import WebSettings
from sluice.runs.stack import Stack
from sluice.runs.validity import RunWatch
from sluice.terminal import console, print_summary, summary_table
from store import desired, flows, observed
from topologies import build_topology
from webui.options import add_retention, retention

ROUND_S = 3600.0
"""An endless demonstration draws its schedule for one hour at a time."""
REFRESH_S = 1.0
WINDOW_S = 30.0
DRAIN_S = 3.0


def parser() -> argparse.ArgumentParser:
    made = command_parser("demo")
    made.add_argument(
        "--scenario", type=Path, default=Path("demo"), help=f"{SCENARIO_HELP} (default: %(default)s)"
    )
    made.add_argument(
        "--duration",
        type=float,
        default=os.environ.get("SLUICE_DEMO_SECONDS") or None,
        help="length in seconds (or SLUICE_DEMO_SECONDS); default: until Ctrl-C",
    )
    made.add_argument(
        "--listen", default="127.0.0.1:8080", help="address of the dashboard (default: %(default)s)"
    )
    made.add_argument(
        "--out",
        type=Path,
        default=Path("results/demo"),
        help="folder for the bundle (default: %(default)s)",
    )
    made.add_argument(
        "--services",
        type=Path,
        metavar="FOLDER",
        help="use a web process and a controller that already run; FOLDER holds their store and sockets",
    )
    made.add_argument(
        "--workers", type=at_least_one, default=1, help="number of web processes (default: %(default)s)"
    )
    add_store(made)
    add_retention(made)
    return made


def execute(arguments: argparse.Namespace) -> int:
    scenario, document = scenario_from_file(arguments.scenario)
    need_root()
    if arguments.services and (arguments.store or arguments.event_log):
        raise SluiceError("--services has a store and a web process of its own: omit --store and --event-log")
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


def run_demo(
    scenario: Scenario,
    document: Mapping[str, Any],
    out: Path,
    *,
    listen: str,
    duration_s: float | None,
    external: Path | None = None,
    store: str | None = None,
    web: WebSettings | None = None,
) -> int:
    """Run for `duration_s` or until Ctrl-C, and print the summary. The exit code is 0 either way."""
    topology = build_topology(scenario)
    if external is None:
        check_free(listen)
    console.print(
        f"[bold]Sluice[/] starts {len(topology.switches)} switches and {len(topology.hosts)} hosts …"
    )
    run_folder = out / f"run-{int(time.time())}"
    with Stack.start(
        scenario, topology, run_folder, listen=listen, external=external, store=store, web=web
    ) as stack:
        _print_where(stack, listen)
        watch = RunWatch.of(stack.testbed)
        try:
            with watch:
                _rounds(stack, scenario, topology, duration_s)
        except KeyboardInterrupt:
            console.print("stopping …")
        stack.stop_agents()
        summary = write_bundle(
            out,
            scenario=document,
            meta={**machine_meta(scenario.seed), "cpu": watch.summary()},
            flows=stack.records(),
            thresholds=stack.thresholds(),
            samples=stack.samples(),
            validity_reasons=watch.reasons(),
            watched=stack.records(WATCHED),
        )
    print_summary(summary, title="the whole demonstration")
    console.print(f"bundle: {out}")
    return 0


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
    console.print(f"  with the right to change the scheme: http://{listen}/#token={stack.token}")
    console.print("Ctrl-C ends the demonstration and leaves nothing behind.\n")


def _rounds(stack: Stack, scenario: Scenario, topology: Topology, duration_s: float | None) -> None:
    rng = np.random.default_rng(scenario.seed)
    remaining_s = math.inf if duration_s is None else duration_s
    number = 0
    while remaining_s > 0:
        round_s = min(ROUND_S, remaining_s)
        run_id = f"{scenario.name}-{int(time.time())}-{number}"
        part = scheduled_flows(scenario, topology, rng, run_id, until_s=round_s)
        _watch_round(stack, part, round_s, number)
        stack.stop_agents()
        remaining_s -= round_s
        number += 1


def _watch_round(stack: Stack, part: Sequence[ScheduledFlow], round_s: float, number: int) -> None:
    start_at = stack.start_agents(part)
    end = start_at + round_s + DRAIN_S
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        next_print = time.time() + 10 * REFRESH_S
        while time.time() < end:
            stack.check()
            live.update(_live_view(stack, end - time.time()))
            if not console.is_terminal and time.time() > next_print:
                console.print(_progress_line(stack, end - time.time()))
                next_print = time.time() + 10 * REFRESH_S
            time.sleep(REFRESH_S / 2)


def _progress_line(stack: Stack, left_s: float) -> str:
    return f"{max(left_s, 0):.0f} s left, {stack.recorded()} flows recorded"


def _live_view(stack: Stack, left_s: float) -> Group:
    recent = flows.recent_flows(stack.engine, time.time() - WINDOW_S, limit=20_000)
    policy = desired.current_policy(stack.engine)
    assert policy is not None
    state = "applied" if policy.applied_at else "pending"
    head = f"policy {policy.version}: {policy.policy.scheme} ({state}); {_progress_line(stack, left_s)}"
    return Group(
        Text(head, style="bold"),
        summary_table(summarise(recent), f"the last {WINDOW_S:.0f} seconds"),
        Text(_thresholds_line(stack)),
    )


def _thresholds_line(stack: Stack) -> str:
    latest = observed.latest_thresholds(stack.engine)
    if not latest:
        return "no thresholds yet"
    shown = [
        f"{port} {' / '.join(format_bytes(t) for t in change.thresholds_bytes)}"
        for port, change in list(latest.items())[:6]
    ]
    return "thresholds: " + ",  ".join(shown)
