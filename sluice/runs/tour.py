# SPDX-License-Identifier: Apache-2.0
"""The traffic of a demonstration, and a tour: several schemes one after the other in one network.

A demonstration's traffic lasts for a given time or without end, with a live view in the terminal. Every stage of a tour
puts its scheme in force, waits until switches and hosts follow it, offers the schedule of the scenario's seed, and lets
its flows end. So each stage has the same offered flows, and all of them live wholly under its version of the policy.
The scoreboard compares the stages: in the terminal, as a table and a plot, and in a report.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from sqlalchemy.exc import SQLAlchemyError

from sluice.policy.figures.metrics import summarise
from sluice.policy.figures.scoreboard import BETTER, CONFIDENCE_PERCENT, SETTLE_S, WORSE
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.fitting import Surroundings, fitted, path_of
from sluice.policy.schemes import scheme_named
from sluice.policy.units import format_bytes
from sluice.policy.wire.agents import HostHeartbeat, PortHeartbeat
from sluice.policy.wire.records import ScheduledFlow
from sluice.policy.workload.scenario import Scenario, scheduled_flows, traffic_of
from sluice.report.runs import find_runs, variants
from sluice.report.tables import compared, time_text
from sluice.runs.bundle import VersionOf, by_run, replaced_by_others
from sluice.runs.stack import NETWORK, START_LEAD_S, SimulatedStack, Stack
from sluice.store import desired, flows, observed
from sluice.store.desired import PolicyVersion
from sluice.terminal import console, summary_table

# ── The traffic of a demonstration ───────────────────────────────────────────────────────────────────


ROUND_S = 3600.0
"""An endless demonstration draws its schedule for one hour at a time."""
REFRESH_S = 1.0
WINDOW_S, SIMULATED_WINDOW_S = 30.0, 5.0
"""What the table covers. A simulated network ends hundreds of flows each second, and reading them has a price."""
DRAIN_S = 3.0


def testbed_traffic(stack: Stack, duration_s: float | None) -> None:
    """Run agents with one schedule after another until the time is over, or until Ctrl-C."""
    scenario = stack.scenario
    rng = np.random.default_rng(scenario.seed)
    remaining_s = math.inf if duration_s is None else duration_s
    number = 0
    while remaining_s > 0:
        round_s = min(ROUND_S, remaining_s)
        run_id = f"{scenario.name}-{int(time.time())}-{number}"
        flows = scheduled_flows(scenario, stack.topology, rng, run_id, until_s=round_s)
        _carry(stack, flows, round_s + DRAIN_S)
        remaining_s -= round_s
        number += 1


def _carry(
    stack: Stack, flows: Sequence[ScheduledFlow], seconds: float, done: Callable[[], bool] = lambda: False
) -> None:
    """Let agents carry the flows, until so long after the first one or until `done`, while the stack's watch looks."""
    stack.reserve.take()
    stack.prepare_agents(flows)
    with stack.watch:
        try:
            stack.start_traffic(time.time() + START_LEAD_S)
            show(stack, time.monotonic() + START_LEAD_S + seconds, done)
        finally:
            stack.reserve.release()  # the last readings need some room, too
    stack.stop_agents()


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
    pace = ""
    if isinstance(stack, SimulatedStack):
        dilation = stack.heartbeat().dilation
        speed = f"{dilation:.1f} times slower than" if dilation > 1.05 else "in"
        pace = f", simulated {speed} real time"
    return f"{left}{stack.recorded()} flows recorded{pace}"


def _live_view(stack: Stack, left_s: float) -> Group:
    window_s = SIMULATED_WINDOW_S if isinstance(stack, SimulatedStack) else WINDOW_S
    recent = flows.recent_flows(stack.engine, time.time() - window_s, limit=20_000)
    policy = desired.current_policy(stack.engine)
    assert policy is not None
    state = "applied" if policy.applied_at else "pending"
    head = f"policy {policy.version}: {policy.policy.scheme} ({state}); {_progress_line(stack, left_s)}"
    ports = [
        f"{port} {' / '.join(format_bytes(t) for t in change.thresholds_bytes)}"
        for port, change in list(observed.latest_thresholds(stack.engine).items())[:6]
    ]
    return Group(
        Text(head, style="bold"),
        summary_table(summarise(recent), f"the last {window_s:.0f} seconds"),
        Text(f"thresholds: {',  '.join(ports)}" if ports else "no thresholds yet"),
    )


# ── The scoreboard ───────────────────────────────────────────────────────────────────────────────────


Version = Mapping[str, Any]
"""The figures of one stage, as GET /scoreboard has those of a version."""

_COLUMNS = (
    ("small\nmean ms", "small", "mean_us", 1e-3),
    ("small\np99 ms", "small", "p99_us", 1e-3),
    ("medium\nmean ms", "medium", "mean_us", 1e-3),
    ("large\nmean s", "large", "mean_us", 1e-6),
)
_MARKS = {BETTER: ("▼", "green"), WORSE: ("▲", "red")}
WIDTH, HEIGHT = 64, 14
_SHOWN_SHARE = 0.995
PLOTTED = "small"


def print_scoreboard(versions: Sequence[Version], base: str) -> None:
    """Print the table, which compares with the scheme `base`, and the distribution of the small flows' FCT."""
    console.print(_table(versions))
    console.print(
        f"▼ better and ▲ worse than {scheme_named(base).title}, with {CONFIDENCE_PERCENT} % confidence; × its value."
        " No sign: not sure.",
        highlight=False,
    )
    for line in cdf_plot(versions):
        console.print(line)


def _table(versions: Sequence[Version]) -> Table:
    counts = sorted({version["flows"] for version in versions})
    title = f"{' to '.join(str(count) for count in (counts[:1] + counts[1:][-1:]))} flows under each scheme"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("scheme", no_wrap=True)
    names = (*(name for name, *_ in _COLUMNS), "mean\nslowdown", "missed\n%", "retrans-\nmitted")
    for heading in names:
        table.add_column(heading, justify="right", no_wrap=True)
    for version in versions:
        figures = [_figure(version["classes"][group][key], scale) for _, group, key, scale in _COLUMNS]
        scheme = scheme_named(version["scheme"])
        unfinished = f"\n{version['unfinished']} unfinished" if version["unfinished"] else ""
        table.add_row(
            Text(scheme.title + unfinished, style=scheme.colour),
            *figures,
            _figure(version["classes"]["all"]["slowdown"]),
            _figure(version["miss_ratio"], 100),
            str(version["retransmissions"]),
        )
    return table


def _figure(figure: Mapping[str, Any], scale: float = 1.0) -> Text:
    """Return a value, and below it the ratio to the base with a sign if it is better or worse."""
    if figure["value"] is None:
        return Text("–")
    text = Text(f"{figure['value'] * scale:.3g}")
    compared = figure["against"]
    if compared is not None and compared["ratio"] is not None:
        sign, colour = _MARKS.get(compared["verdict"], ("", "dim"))
        text.append(f"\n×{compared['ratio']:.2f}{sign}", style=colour)
    return text


# ── A plot of characters ────────────────────────────────────────────────────────────────────────

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille character, by row and column."""


def cdf_plot(versions: Sequence[Version]) -> list[Text]:
    """Return lines with the share of the small flows that have at most an FCT, over the FCT on a logarithmic axis."""
    curves = [(version["scheme"], version["classes"][PLOTTED]["cdf"]) for version in versions]
    curves = [(scheme, cdf) for scheme, cdf in curves if cdf["us"]]
    if not curves:
        return []
    low = min(cdf["us"][0] for _, cdf in curves)
    high = max(np.interp(_SHOWN_SHARE, cdf["share"], cdf["us"]) for _, cdf in curves)
    high = max(float(high), low * 1.001)  # a few slow flows do not decide about the length of the axis
    legend = Text("share of small flows with at most this completion time:  ")
    for scheme, _ in curves:
        legend.append(f"● {scheme_named(scheme).title}  ", style=scheme_named(scheme).colour)
    dots, owner = np.zeros((HEIGHT, WIDTH), int), np.full((HEIGHT, WIDTH), -1)
    for number, (_, cdf) in enumerate(curves):
        places = np.log(np.asarray(cdf["us"]) / low) / math.log(high / low) * (2 * WIDTH - 1)
        at = np.clip(places, 0, 2 * WIDTH - 1)
        shares = np.interp(np.arange(2 * WIDTH), at, cdf["share"], left=0.0)
        for x, share in enumerate(shares):
            if share <= 0 or x > at[-1]:
                continue
            y = min(4 * HEIGHT - 1, int((1 - share) * 4 * HEIGHT))
            dots[y // 4, x // 2] |= _DOTS[y % 4][x % 2]
            owner[y // 4, x // 2] = number
    labels = [time_text(float(f"{value:.2g}")) for value in (low, math.sqrt(low * high), high)]
    room = WIDTH - sum(map(len, labels))
    scale = labels[0] + " " * (room // 2) + labels[1] + " " * (room - room // 2) + labels[2]
    axis = [Text(f"       └{'─' * WIDTH}"), Text(f"        {scale}")]
    return [legend, *_rows(curves, dots, owner), *axis]


def _rows(curves: Sequence[tuple[str, Any]], dots: Any, owner: Any) -> list[Text]:
    lines = []
    for row in range(HEIGHT):
        share = {0: "100 %", HEIGHT // 2: " 50 %", HEIGHT - 1: "  0 %"}.get(row, "")
        line = Text(f"{share:>6} │")
        for column in range(WIDTH):
            mine = owner[row, column]
            colour = scheme_named(curves[mine][0]).colour if mine >= 0 else ""
            line.append(chr(0x2800 + int(dots[row, column])), style=colour)
        lines.append(line)
    return lines


# ── The tour ─────────────────────────────────────────────────────────────────────────────────────────


SCHEMES = ("tcp", "dctcp", "pias", "mlfq-adaptive", "sluice")
BASE = "dctcp"
"""The scheme with which the table compares the others."""
STAGE_S = 40.0
AUTHOR = "tour"
"""Who puts the tour's versions of the policy in force."""
SLOWEST = 6.0
"""A simulated stage ends at the latest after so many times its length."""


@dataclass(frozen=True)
class Stage:
    """One scheme of a tour."""

    version: int
    run_id: str
    """The first part of the ids of its flows."""


def tour_policies(scenario: Scenario, topology: Topology, schemes: Sequence[str] = SCHEMES) -> list[Policy]:
    """Return the policy of each stage: fair in the scenario's network and for its traffic.

    The scenario's own scheme keeps the scenario's values, but adaptive thresholds begin at the scheme's: a scenario
    may begin far away from good ones to show the adaptation.
    """
    around = Surroundings(
        path_of(topology), (scenario.policy,), traffic_of(scenario.workload), fits_thresholds=True
    )
    policies, own = [], scenario.policy
    for scheme in schemes:
        document: dict[str, Any] = {"scheme": scheme}
        if scheme == own.scheme:
            document = own.to_document()
            if own.definition.threshold_rule.adapts:
                del document["thresholds"]
        policies.append(fitted(document, around).policy)
    return policies


def by_stage(stages: Sequence[Stage], versions: Sequence[PolicyVersion]) -> VersionOf:
    """Each flow lived under the version of its stage, unless someone else changed the policy before it ended."""
    own = {stage.run_id: stage.version for stage in stages}
    return by_run(own, replaced_by_others(versions, AUTHOR))


def run_tour(stack: Stack, policies: Sequence[Policy], stage_s: float) -> Iterator[Stage]:
    """Run the stages, and yield each one when its flows have ended."""
    for number, policy in enumerate(policies, start=1):
        title = policy.definition.title
        console.print(f"[bold]{number} of {len(policies)}: {title}[/], {stage_s:.0f} s of traffic")
        run_id = f"{stack.scenario.name}-{int(time.time())}-{number}"
        if isinstance(stack, SimulatedStack):
            yield _simulated_stage(stack, policy, run_id, stage_s)
        else:
            yield _testbed_stage(stack, policy, run_id, stage_s)


def finish_tour(bundle: Path) -> None:
    """Print the table and the plot of a tour, and write a report into its bundle."""
    from sluice.report.page import write_report

    stages = sorted(variants(find_runs([bundle])), key=lambda stage: stage.runs[0].version or 0)
    base = next((stage for stage in stages if stage.scheme == BASE), stages[0])
    print_scoreboard(list(compared(stages, base, base.runs[0].load).values()), base.scheme)
    write_report([bundle], bundle / "report.html", baseline=base.label)
    console.print(f"report: {bundle / 'report.html'}")


# ── Testbed ─────────────────────────────────────────────────────────────────────────────────────


def _testbed_stage(stack: Stack, policy: Policy, run_id: str, stage_s: float) -> Stage:
    stack.scenario = scenario = replace(stack.scenario, policy=policy)
    version = desired.put_policy(stack.engine, policy, AUTHOR)
    stack.wait_applied(version)

    def ports_follow() -> bool:
        beats = [agent.heartbeat for agent in observed.all_agents(stack.engine)]
        ports = [beat for beat in beats if isinstance(beat, PortHeartbeat)]
        return bool(ports) and all(beat.policy_version >= version for beat in ports)

    stack.wait(ports_follow, f"the ports follow policy version {version}")
    settled = time.monotonic() + SETTLE_S
    stack.wait(lambda: time.monotonic() >= settled, "the hosts follow")
    rng = np.random.default_rng(scenario.seed)
    flows = scheduled_flows(scenario, stack.topology, rng, run_id, until_s=stage_s)
    before = stack.recorded()
    _carry(stack, flows, stage_s + scenario.grace_s, lambda: stack.recorded() - before >= len(flows))
    return Stage(version, run_id)


# ── Simulator ───────────────────────────────────────────────────────────────────────────────────


def _simulated_stage(stack: SimulatedStack, policy: Policy, run_id: str, stage_s: float) -> Stage:
    """Run a stage in a network of its own, so that every stage begins with empty queues at the same flow."""
    stack.services.stop(NETWORK)
    stack.document = {**stack.document, "scheme": scheme_table(policy)}
    stack.run_id, stack.hold_s = run_id, stage_s
    version = desired.put_policy(stack.engine, policy, AUTHOR)
    stack.start_network()
    stack.wait_applied(version)
    settled = time.monotonic() + SETTLE_S
    stack.wait(lambda: time.monotonic() >= settled, "the network settles")
    began_s = stack.heartbeat().simulated_s
    stack.begin_traffic()
    end = time.monotonic() + SLOWEST * stage_s + stack.scenario.grace_s

    def has_ended() -> bool:
        """Return whether the simulation is past the stage and no flow is active."""
        if stack.heartbeat().simulated_s < began_s + stage_s + SETTLE_S:
            return False
        beats = [agent.heartbeat for agent in observed.all_agents(stack.engine)]
        return not any(beat.flows_active for beat in beats if isinstance(beat, HostHeartbeat))

    show(stack, end, has_ended)
    stack.stop_agents()
    return Stage(version, run_id)


def scheme_table(policy: Policy) -> dict[str, Any]:
    """Return a policy as the [scheme] table of a scenario."""
    document = policy.to_document()
    return {"name": document.pop("scheme"), **document}
