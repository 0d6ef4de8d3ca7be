# SPDX-License-Identifier: Apache-2.0
"""A sweep in the terminal: finished points, a bar for each running point, the time left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sluice.sweep.progress import Report, SweepProgress
from sluice.sweep.run import Outcome
from sluice.sweep.table import Row, terminal_table, write
from sluice.terminal import about, console

MAX_WIDTH = 300


@contextmanager
def sweep_display() -> Iterator[Report]:
    """Yield the function that `run_points` reports to. Without a terminal it prints a line
    whenever a point ends."""
    if not console.is_terminal:
        yield _lines()
        return
    with Live(console=console, refresh_per_second=5, transient=True) as live:
        yield lambda progress: live.update(picture(progress))


def picture(progress: SweepProgress) -> Group:
    """Return the headline and the running points."""
    bars = Table.grid(padding=(0, 1))
    for name, status in sorted(progress.running.items()):
        bar = ProgressBar(total=max(status.flows, 1), completed=status.done, width=30)
        flows = f"{status.done}/{status.flows} flows" if status.flows else "starting"
        bars.add_row(Text(f"  {name}"), bar, Text(flows))
    return Group(Text(headline(progress)), bars)


def headline(progress: SweepProgress) -> str:
    """Return a text such as: 7 of 12 points done, 2 running, 1 failed, about 3 min left."""
    parts = [f"{progress.finished} of {progress.points} points done"]
    parts += [f"{len(progress.running)} running"] if progress.running else []
    parts += [f"{progress.failed} failed"] if progress.failed else []
    if progress.remaining_s is None:
        parts.append("time left still unknown")
    elif progress.remaining_s > 0:
        parts.append(f"{about(progress.remaining_s)} left")
    return ", ".join(parts)


def print_outcome(out: Path, rows: Sequence[Row], outcome: Outcome) -> int:
    """Print the table and the failed points, and write sweep.parquet. The exit code is 1 if a point failed."""
    if rows:
        table = terminal_table(rows)
        needed = console.measure(table, options=console.options.update_width(MAX_WIDTH)).maximum
        Console(width=max(needed, console.width)).print(
            table
        )  # because a broken line is easier to read than a cut number
        console.print(f"figures: {write(out, rows)}", highlight=False, soft_wrap=True)
    for name, reason in outcome.failed.items():
        console.print(f"[bold red]failed:[/] {name}: {escape(reason)}", highlight=False, soft_wrap=True)
    return 1 if outcome.failed else 0


def _lines() -> Report:
    last = None

    def report(progress: SweepProgress) -> None:
        nonlocal last
        ended = (progress.finished, progress.failed)
        if ended != last:
            console.print(headline(progress), highlight=False, soft_wrap=True)
        last = ended

    return report
