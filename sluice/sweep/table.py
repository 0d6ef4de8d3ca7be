# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep: one row for each point in sweep.parquet, and the sweep in the terminal.

While it runs, the terminal shows finished points, a bar for each running point, and the time left. At the end it shows
a table of schemes and loads.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sluice.policy.wire.records import SIZE_CLASSES
from sluice.report.tables import Scale, estimate
from sluice.sweep.points import Point
from sluice.sweep.run import Outcome, Report, SweepProgress
from sluice.terminal import about, console, say

FILE = "sweep.parquet"
STATISTICS = ("n", "mean", "p50", "p95", "p99")
MEASURES = ("fct_us", "slowdown")

Row = dict[str, Any]

COLUMNS = (
    ("small", "fct_us_small_mean", 1e-3),
    ("small p99", "fct_us_small_p99", 1e-3),
    ("medium", "fct_us_medium_mean", 1e-3),
    ("large", "fct_us_large_mean", 1e-3),
    ("all", "fct_us_all_mean", 1e-3),
    ("missed %", "miss_ratio", 100.0),
)
"""Heading, column of sweep.parquet, factor from its unit."""


def rows(out: Path, points: Iterable[Point]) -> list[Row]:
    """Return one row for every point that has a bundle: its scheme, load and seed, and the figures
    of its summary.json."""
    return [
        {
            "scheme": point.scheme,
            "load": point.load,
            "seed": point.seed,
            **figures(json.loads((out / point.name / "summary.json").read_text())),
            "bundle": point.name,
        }
        for point in points
    ]


def figures(summary: Mapping[str, Any]) -> Row:
    """Return a summary.json as one row. A column's name says where its figure comes from (fct_us_small_p99)."""
    row: Row = {
        f"{measure}_{group}_{name}": summary[measure][group][name]
        for measure, group, name in product(MEASURES, ("all", *SIZE_CLASSES), STATISTICS)
    }
    deadlines = summary["deadlines"]
    return row | {
        "deadlines": deadlines["n"],
        "missed": deadlines["missed"],
        "miss_ratio": deadlines["miss_ratio"],
        "retransmissions": summary["retransmissions"],
        "unfinished": summary["unfinished"],
        "valid": summary["valid"]["ok"],
    }


def _times(row: Row) -> tuple[Any, ...]:
    """What two runs have in common only if their flows are the same."""
    return tuple(value for column, value in row.items() if column.startswith(MEASURES))


def write(out: Path, table: Sequence[Row]) -> Path:
    """Write sweep.parquet and return its path."""
    path = out / FILE
    pq.write_table(pa.Table.from_pylist(list(table)), path)
    return path


def terminal_table(table: Sequence[Row]) -> Table:
    """Return a table with loads and schemes in the sweep's order: means over the seeds and their
    standard deviation."""
    seeds = len({row["seed"] for row in table})
    over = f", over {seeds} seeds ± standard deviation" if seeds > 1 else ""
    shown = Table(title=f"mean FCT in ms{over}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    shown.add_column("load", justify="right", no_wrap=True)
    shown.add_column("scheme", no_wrap=True)
    for heading, *_ in COLUMNS:
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    last_load: object = None
    loads, schemes = (list(dict.fromkeys(row[axis] for row in table)) for axis in ("load", "scheme"))
    for load, scheme in product(loads, schemes):
        runs = [row for row in table if (row["load"], row["scheme"]) == (load, scheme)]
        if not runs:
            continue
        if load != last_load and last_load is not None:
            shown.add_section()
        cells = [
            Scale("", factor).show(estimate(row[column] for row in runs)) for _, column, factor in COLUMNS
        ]
        first = "" if load == last_load else ("–" if load is None else f"{load:g}")
        invalid, unfinished = sum(not row["valid"] for row in runs), sum(row["unfinished"] for row in runs)
        doubts = [f"[bold red]{invalid} of {len(runs)} runs not valid[/]"] if invalid else []
        doubts += [f"{unfinished} flows unfinished"] if unfinished else []
        repeated = len(runs) - len({_times(row) for row in runs})
        doubts += (
            [f"[bold red]{repeated} of {len(runs)} seeds repeat the flows of another[/]"] if repeated else []
        )
        shown.add_row(first, scheme, *cells, ", ".join(doubts))
        last_load = load
    return shown


# ── The terminal ─────────────────────────────────────────────────────────────────────────────────────


MAX_WIDTH = 300


@contextmanager
def sweep_display() -> Iterator[Report]:
    """Yield the function that `run_points` reports to. Without a terminal it prints a line
    whenever a point ends."""
    if not console.is_terminal:
        printed = None

        def print_line(progress: SweepProgress) -> None:
            nonlocal printed
            ended = (progress.finished, progress.failed)
            if ended != printed:
                say(headline(progress))
            printed = ended

        yield print_line
        return
    with Live(console=console, refresh_per_second=5, transient=True) as live:
        yield lambda progress: live.update(picture(progress))


def picture(progress: SweepProgress) -> Group:
    """Return the headline and the running points."""
    bars = Table.grid(padding=(0, 1))
    for name, status in sorted(progress.running.items()):
        bar = ProgressBar(completed=100 * status.share, width=30)
        flows = f"{status.recorded}/{status.scheduled} flows" if status.scheduled else "starting"
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
        say(f"figures: {write(out, rows)}")
    for name, reason in outcome.failed.items():
        say(f"[bold red]failed:[/] {name}: {escape(reason)}")
    return 1 if outcome.failed else 0
