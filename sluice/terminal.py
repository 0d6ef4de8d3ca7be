# SPDX-License-Identifier: Apache-2.0
"""Output in the terminal: a progress bar with the time left, a summary table, the doctor's list."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from runtime.signals import on_first_end

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


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[Any], None]]:
    """Show a bar over the run's time. Yields the function that a run reports its progress to."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[flows]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=not console.is_terminal) as bar:
        task = bar.add_task(name, flows="starting", total=None)

        def report(progress: Any) -> None:
            done = min(max(progress.elapsed_s, 0.0), progress.expected_s)
            flows = f"{progress.recorded}/{progress.scheduled} flows"
            bar.update(task, total=max(progress.expected_s, 0.1), completed=done, flows=flows)

        yield report


def summary_table(summary: Mapping[str, Any], title: str) -> Table:
    """Return a table of the FCT by size class, in milliseconds."""
    table = Table(title=title, title_justify="left")
    for heading in ("flows", "n", "mean ms", "median ms", "p95 ms", "p99 ms", "slowdown p99"):
        table.add_column(heading, justify="left" if heading == "flows" else "right")
    for name in ("small", "medium", "large", "all"):
        fct, slowdown = summary["fct_us"][name], summary["slowdown"][name]
        figures = [_ms(fct[key]) for key in ("mean", "p50", "p95", "p99")]
        table.add_row(
            name, str(fct["n"]), *figures, "–" if slowdown["p99"] is None else f"{slowdown['p99']:.1f}"
        )
    return table


def print_summary(summary: Mapping[str, Any], title: str) -> None:
    console.print(summary_table(summary, title))
    deadlines = summary["deadlines"]
    if deadlines["n"]:
        console.print(
            f"deadlines: {deadlines['missed']} of {deadlines['n']} missed ({deadlines['miss_ratio']:.1%})"
        )
    console.print(f"unfinished: {summary['unfinished']}, retransmissions: {summary['retransmissions']}")
    print_validity(summary)


def print_validity(summary: Mapping[str, Any]) -> None:
    """Print why a run is not valid, if it is not."""
    for reason in summary.get("valid", {}).get("reasons", []):
        console.print(f"[bold red]not valid:[/] {reason}")


def print_checks(checks: Iterable[Any]) -> int:
    """Print one line for each check as it is made. The exit code is 1 if one failed."""
    failed, before = 0, ""
    for name, ok, detail, remedy in checks:
        failed += not ok
        _print_as_is(f"{'[green]✓[/]' if ok else '[red]✗[/]'} ", f"{name}: {detail}")
        if not ok and remedy:
            _print_as_is("    remedy: ", "as above" if remedy == before else remedy)
            before = remedy
    return 1 if failed else 0


def print_tiers(tiers: Iterable[tuple[str, str]]) -> None:
    """Print the active tier of each feature."""
    _print_as_is("", "What is active here:")
    for feature, active in tiers:
        _print_as_is("  ", f"{feature}: {active}")


def _print_as_is(styled: str, text: str) -> None:
    """Print a text in which brackets are no styles. Lines are not broken, so that commands can be copied."""
    console.print(styled + escape(text), highlight=False, soft_wrap=True)


def _ms(value_us: float | None) -> str:
    return "–" if value_us is None else f"{value_us / 1000:.2f}"
