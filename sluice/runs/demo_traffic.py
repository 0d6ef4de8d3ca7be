# SPDX-License-Identifier: Apache-2.0
"""The traffic of a demonstration, for a given time or without end, with a live view in the terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from rich.console import Group
from rich.live import Live
from rich.text import Text
from sqlalchemy.exc import SQLAlchemyError

from sluice.policy.figures.metrics import summarise
from sluice.policy.network.graph import Topology
from sluice.policy.units import format_bytes
from sluice.policy.wire.records import ScheduledFlow
from sluice.policy.workload.scenario import Scenario, scheduled_flows
from sluice.runs.live.stack import SimulatedStack
from sluice.runs.stack import Stack
from sluice.store import desired, flows, observed
from sluice.terminal import console, summary_table

ROUND_S = 3600.0
"""An endless demonstration draws its schedule for one hour at a time."""
REFRESH_S = 1.0
WINDOW_S, SIMULATED_WINDOW_S = 30.0, 5.0
"""What the table covers. A simulated network ends hundreds of flows each second, and reading them has a price."""
DRAIN_S = 3.0


def testbed_traffic(stack: Stack, scenario: Scenario, topology: Topology, duration_s: float | None) -> None:
    """Run agents with one schedule after another until the time is over, or until Ctrl-C."""
    rng = np.random.default_rng(scenario.seed)
    remaining_s = math.inf if duration_s is None else duration_s
    number = 0
    while remaining_s > 0:
        round_s = min(ROUND_S, remaining_s)
        run_id = f"{scenario.name}-{int(time.time())}-{number}"
        _testbed_round(stack, scheduled_flows(scenario, topology, rng, run_id, until_s=round_s), round_s)
        stack.stop_agents()
        remaining_s -= round_s
        number += 1


def _testbed_round(stack: Stack, part: Sequence[ScheduledFlow], round_s: float) -> None:
    lead_s = stack.start_agents(part) - time.time()
    show(stack, time.monotonic() + lead_s + round_s + DRAIN_S)


def simulated_traffic(stack: SimulatedStack, duration_s: float | None) -> None:
    """Let the network carry flows until the time is over, or until Ctrl-C. Then let the last flows end."""
    show(stack, math.inf if duration_s is None else time.monotonic() + duration_s)
    stack.end_traffic()
    show(stack, time.monotonic() + DRAIN_S)


def show(stack: Stack, end: float, done: Callable[[], bool] = lambda: False) -> None:
    """Show the live view, and restart what dies, until this second of the monotonic clock or until `done`."""
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        next_print = time.monotonic() + 10 * REFRESH_S
        while time.monotonic() < end and not done():
            stack.check()
            with suppress(SQLAlchemyError):  # the disk of the store is full
                live.update(_live_view(stack, end - time.monotonic()))
            if not console.is_terminal and time.monotonic() > next_print:
                console.print(_progress_line(stack, end - time.monotonic()))
                next_print = time.monotonic() + 10 * REFRESH_S
            time.sleep(REFRESH_S / 2)


def _progress_line(stack: Stack, left_s: float) -> str:
    left = f"{max(left_s, 0):.0f} s left, " if math.isfinite(left_s) else ""
    pace = f", {_pace(stack.heartbeat().dilation)}" if isinstance(stack, SimulatedStack) else ""
    return f"{left}{stack.recorded()} flows recorded{pace}"


def _pace(dilation: float) -> str:
    """Return how fast simulated time passes."""
    return (
        f"simulated {dilation:.1f} times slower than real time"
        if dilation > 1.05
        else "simulated in real time"
    )


def _live_view(stack: Stack, left_s: float) -> Group:
    window_s = SIMULATED_WINDOW_S if isinstance(stack, SimulatedStack) else WINDOW_S
    recent = flows.recent_flows(stack.engine, time.time() - window_s, limit=20_000)
    policy = desired.current_policy(stack.engine)
    assert policy is not None
    state = "applied" if policy.applied_at else "pending"
    head = f"policy {policy.version}: {policy.policy.scheme} ({state}); {_progress_line(stack, left_s)}"
    return Group(
        Text(head, style="bold"),
        summary_table(summarise(recent), f"the last {window_s:.0f} seconds"),
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
