# SPDX-License-Identifier: Apache-2.0
"""Output in the terminal: a progress bar with the time left and a summary table."""

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from sluice.runtime.lifecycle import on_first_end

console = Console()


def end_in_order() -> None:
    """Let all signals that ask for the end do what Ctrl-C does: stop all processes, and show no traceback.

    The KeyboardInterrupt has the signal's name.
    """
    on_first_end(_interrupt)
    sys.excepthook = _say_briefly


def _interrupt(number: signal.Signals) -> None:
    raise KeyboardInterrupt(number.name)


def _say_briefly(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def say(text: str, style: str | None = None) -> None:
    """Print a line. It is not broken, so that paths and commands in it can be copied."""
    console.print(text, style=style, highlight=False, soft_wrap=True)


PARTIAL_FROM_S = 10.0
"""A run that lasts longer shows its figures so far."""


class _RunBar(Progress):
    """A bar, and below it the figures so far."""

    partial: Mapping[str, Any] | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.partial:
            yield partial_table(self.partial)


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[Any], None]]:
    """Show a bar over the run's time, and after ten seconds the figures so far. Without a terminal, the figures are
    lines, each after twice the time of the one before. Yields the function that a run reports its progress to."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[flows]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    began_s, due_s = time.monotonic(), PARTIAL_FROM_S
    with _RunBar(*columns, console=console, transient=not console.is_terminal) as bar:
        task = bar.add_task(name, flows="starting", total=None)

        def report(progress: Any) -> None:
            nonlocal due_s
            done = min(max(progress.elapsed_s, 0.0), progress.expected_s)
            flows = f"{progress.recorded}/{progress.scheduled} flows"
            bar.update(task, total=max(progress.expected_s, 0.1), completed=done, flows=flows)
            since_s = time.monotonic() - began_s
            if since_s < due_s or not progress.figures:
                return
            if console.is_terminal:
                due_s = since_s + 1.0
                bar.partial = progress.figures.document()
            else:
                due_s = 2 * since_s
                line = partial_line(flows, progress.figures.document(), progress.remaining_s(since_s))
                bar.console.print(f"{since_s:.0f} s: {line}", highlight=False, soft_wrap=True)

        yield report


def flows_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of figures; the first column names the flows."""
    table = Table(title=title, title_justify="left")
    for heading in ("flows", *headings):
        table.add_column(heading, justify="left" if heading == "flows" else "right")
    for row in rows:
        table.add_row(*row)
    return table


def partial_table(figures: Mapping[str, Any]) -> Table:
    """Return a table of partial figures, as `RunningFigures.document` returns them."""
    rows = [
        (name, str(row["n"]), milliseconds(row["mean_us"]), milliseconds(row["p99_us"]))
        for name, row in figures["classes"].items()
    ]
    return flows_table("so far", ("n", "mean ms", "p99 ms"), rows)


def partial_line(flows: str, figures: Mapping[str, Any], remaining_s: float | None) -> str:
    """Return partial figures as one line."""
    parts = [flows]
    for name, row in figures["classes"].items():
        if row["n"]:
            parts.append(
                f"{name} mean {milliseconds(row['mean_us'])} ms, p99 {milliseconds(row['p99_us'])} ms"
            )
    if figures["deadlines"]:
        parts.append(f"{figures['missed'] / figures['deadlines']:.1%} of deadlines missed")
    if remaining_s is not None:
        parts.append(f"{about(remaining_s)} left")
    return "; ".join(parts)


def about(seconds: float) -> str:
    """Return a length in words, for example "about 5 min"."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"about {minutes} min"
    hours = minutes // 60
    return f"about {hours} h {minutes % 60} min" if hours < 48 else f"about {hours // 24} days"


def confirmed(what: str) -> bool:
    """Ask in the terminal whether to continue. False without a terminal, where there is no one to ask."""
    if not (sys.stdin.isatty() and console.is_terminal):
        return False
    return console.input(f"{escape(what)} Start it? \\[y/N] ").strip().lower() in ("y", "yes")


def summary_table(summary: Mapping[str, Any], title: str) -> Table:
    """Return a table of the FCT by size class, in milliseconds."""
    rows = []
    for name in ("small", "medium", "large", "all"):
        fct, tail = summary["fct_us"][name], summary["slowdown"][name]["p99"]
        times = [milliseconds(fct[key]) for key in ("mean", "p50", "p95", "p99")]
        rows.append((name, str(fct["n"]), *times, "–" if tail is None else f"{tail:.1f}"))
    return flows_table(title, ("n", "mean ms", "median ms", "p95 ms", "p99 ms", "slowdown p99"), rows)


MOST_GROUPS = 10
"""Of labelled flows, in the terminal."""


def print_summary(summary: Mapping[str, Any], title: str) -> None:
    console.print(summary_table(summary, title))
    deadlines = summary["deadlines"]
    if deadlines["n"]:
        console.print(
            f"deadlines: {deadlines['missed']} of {deadlines['n']} missed ({deadlines['miss_ratio']:.1%})"
        )
    for name, completion_us in list(summary.get("groups", {}).items())[:MOST_GROUPS]:
        mean, tail = (milliseconds(completion_us[key]) for key in ("mean", "p99"))
        console.print(f"{name}: {completion_us['n']} complete, mean {mean} ms, p99 {tail} ms")
    console.print(f"unfinished: {summary['unfinished']}, retransmissions: {summary['retransmissions']}")
    print_validity(summary)


def print_validity(summary: Mapping[str, Any]) -> None:
    """Print why a run is not valid, if it is not, and what else was remarkable."""
    for reason in summary.get("valid", {}).get("reasons", []):
        console.print(f"[bold red]not valid:[/] {reason}")
    for remark in summary.get("valid", {}).get("remarks", []):
        console.print(f"remark: {remark}")


def milliseconds(value_us: float | None) -> str:
    """Return a time in ms with two decimals, or a dash."""
    return "–" if value_us is None else f"{value_us / 1000:.2f}"
