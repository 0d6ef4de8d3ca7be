# SPDX-License-Identifier: Apache-2.0
"""The scoreboard in the terminal, as a table and a plot, and as a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from sluice.policy.figures.scoreboard import BETTER, WORSE
from sluice.policy.schemes import scheme_named
from sluice.policy.units import US_PER_S
from sluice.report.numbers import time_text
from sluice.terminal import console

Version = Mapping[str, Any]
"""One version in the answer of GET /scoreboard."""

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


def print_scoreboard(board: Mapping[str, Any]) -> None:
    """Print the table, and the distribution of the small flows' FCT."""
    versions = board["versions"]
    base = next((one for one in versions if one["version"] == board["against"]), None)
    console.print(_table(versions))
    if base is not None:
        against = scheme_named(base["scheme"]).title
        console.print(
            f"▼ better and ▲ worse than {against}, with {board['confidence_percent']} % confidence; × its value."
            " No sign: not sure.",
            highlight=False,
        )
    for line in cdf_plot(versions):
        console.print(line)


def _table(versions: Sequence[Version]) -> Table:
    table = Table(title=_title(versions), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("scheme", no_wrap=True)
    names = (*(name for name, *_ in _COLUMNS), "mean\nslowdown", "missed\n%", "retrans-\nmitted")
    for heading in names:
        table.add_column(heading, justify="right", no_wrap=True)
    for one in versions:
        figures = [_figure(one["classes"][group][key], scale) for _, group, key, scale in _COLUMNS]
        scheme = scheme_named(one["scheme"])
        unfinished = f"\n{one['unfinished']} unfinished" if one["unfinished"] else ""
        table.add_row(
            Text(scheme.title + unfinished, style=scheme.colour),
            *figures,
            _figure(one["classes"]["all"]["slowdown"]),
            _figure(one["miss_ratio"], 100),
            str(one["retransmissions"]),
        )
    return table


def _title(versions: Sequence[Version]) -> str:
    counts = sorted({one["flows"] for one in versions})
    return f"{' to '.join(str(count) for count in (counts[:1] + counts[1:][-1:]))} flows under each scheme"


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
    curves = [(one["scheme"], one["classes"][PLOTTED]["cdf"]) for one in versions]
    curves = [(scheme, cdf) for scheme, cdf in curves if cdf["us"]]
    if not curves:
        return []
    low, high = _ends(curves)
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
    return [*_legend(curves), *_rows(curves, dots, owner), *_axis(low, high)]


def _ends(curves: Sequence[tuple[str, Any]]) -> tuple[float, float]:
    """Return the ends of the axis. A few slow flows do not decide about its length."""
    low = min(cdf["us"][0] for _, cdf in curves)
    high = max(np.interp(_SHOWN_SHARE, cdf["share"], cdf["us"]) for _, cdf in curves)
    return low, max(float(high), low * 1.001)


def _legend(curves: Sequence[tuple[str, Any]]) -> list[Text]:
    line = Text("share of small flows with at most this completion time:  ")
    for scheme, _ in curves:
        line.append(f"● {scheme_named(scheme).title}  ", style=scheme_named(scheme).colour)
    return [line]


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


def _axis(low: float, high: float) -> list[Text]:
    middle = math.sqrt(low * high)
    labels = [time_text(float(f"{value:.2g}")) for value in (low, middle, high)]
    room = WIDTH - sum(map(len, labels))
    scale = labels[0] + " " * (room // 2) + labels[1] + " " * (room - room // 2) + labels[2]
    return [Text(f"       └{'─' * WIDTH}"), Text(f"        {scale}")]


# ── A picture ───────────────────────────────────────────────────────────────────────────────────


def write_picture(board: Mapping[str, Any], file: Path) -> None:
    """Write the distributions of the FCT by class, and the mean FCT of small flows with its interval, as a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    versions = board["versions"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(3, 2), layout="constrained")
    for one in versions:
        cdf, scheme = one["classes"][PLOTTED]["cdf"], scheme_named(one["scheme"])
        left.plot(
            np.asarray(cdf["us"]) / US_PER_S * 1000, cdf["share"], color=scheme.colour, label=scheme.title
        )
    left.set(xscale="log", xlabel="FCT of small flows, ms", ylabel="Share of flows", ylim=(0, 1))
    left.legend(frameon=False)
    left.grid(alpha=0.25)
    _bars(right, versions)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _bars(axes: Any, versions: Sequence[Version]) -> None:
    figures = [one["classes"][PLOTTED]["mean_us"] for one in versions]
    schemes = [scheme_named(one["scheme"]) for one in versions]
    values = np.asarray([figure["value"] or 0.0 for figure in figures]) / 1000
    ends = np.asarray([[figure["low"] or 0.0, figure["high"] or 0.0] for figure in figures]).T / 1000
    errors = np.abs(ends - values)
    places = np.arange(len(versions))[::-1]
    axes.barh(places, values, xerr=errors, color=[scheme.colour for scheme in schemes], capsize=3)
    axes.set_yticks(places, [scheme.title for scheme in schemes])
    axes.set(xlabel="Mean FCT of small flows, ms")
    axes.grid(axis="x", alpha=0.25)
