# SPDX-License-Identifier: Apache-2.0
"""The report's pictures: the plots, and how the thresholds of a run's ports moved, from its ports.parquet.

Each panel is a separate picture, so that a narrow screen can show them below one another. On the page a picture is SVG
with the page's colours (light or dark), no addresses, and its own ids. Its data and its copies are in files, too.
"""

import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from sluice.policy.figures.metrics import cdf
from sluice.policy.schemes import SCHEMES
from sluice.report import tables
from sluice.report.runs import QUEUES, Flows, Run, Variant
from sluice.report.tables import Estimate

mpl.use("Agg")

INK, MUTED, FAINT = "#010203", "#010204", "#010205"
"""The ink that plots use; the page defines its real colours. No one would choose these values for a plot."""
ID_PREFIX = "@@"
"""Prefix of every id. The page replaces it with a different one for each figure."""
_PAGE_COLOURS = {INK: "var(--ink)", MUTED: "var(--muted)", FAINT: "var(--faint)"}


def inline(figure: Figure, label: str) -> str:
    """Return an <svg> element. `label` is the text for screen readers."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    opening = rf'<svg viewBox="\1" role="img" aria-label="{escape(label)}">'
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, text, count=1)
    text = text.replace("xlink:href=", "href=")
    for colour, page_colour in _PAGE_COLOURS.items():
        text = text.replace(colour, page_colour)
    text = re.sub(
        r"(fill|stroke): (#[0-9a-f]{6})", lambda m: f"{m[1]}: var({colour_variable(m[2])}, {m[2]})", text
    )
    text = re.sub(r"font: (?:\w+ )?([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    text = re.sub(r"font-family: [^;\"]*;?", "", text)
    # Only ids that something refers to stay. The page can make them unique if it holds several figures.
    used = {one or other for one, other in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)}
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{ID_PREFIX}{m[1]}"' if m[1] in used else "", text)
    return text.replace('href="#', f'href="#{ID_PREFIX}').replace("url(#", f"url(#{ID_PREFIX}")


def colour_variable(colour: str) -> str:
    """Return the page's CSS variable for a plot's colour."""
    return f"--c{colour.removeprefix('#')}"


# ── The panel ────────────────────────────────────────────────────────────────────────────────────────


PRINTED_GRID = "#dddddd"
"""Colour of the grid in files. On the page it follows the page's theme."""
PNG_DPI = 200

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "sluice",  # equal figures give equal bytes
    "svg.fonttype": "none",  # text stays text, with the page's colours and font
    "pdf.fonttype": 42,  # text can be edited
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "figure.subplot.left": 0.165,  # room for labels, equal in all panels, so that neighbouring panels align
    "figure.subplot.right": 0.97,
    "figure.subplot.bottom": 0.17,
    "figure.subplot.top": 0.89,
}


@dataclass(frozen=True)
class Series:
    """The points of one line, or the bar of one variant."""

    label: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass
class Drawing:
    """A picture while it is drawn."""

    axes: Axes
    x_format: str = ""
    """How the page's script writes values: time, size, or empty for a number."""
    y_format: str = ""
    steps: bool = False
    """A value holds until the next one. Otherwise only the points count."""
    series: list[Series] = field(default_factory=list)

    def add(self, label: str, colour: str, x: Sequence[float], y: Sequence[float]) -> None:
        """Note the points of a line as data."""
        self.series.append(Series(label, colour, x, y))


@dataclass(frozen=True)
class Panel:
    """A picture as SVG, for inlining, with its data."""

    title: str
    svg: str
    figure: Figure
    csv: str
    hover: str
    """JSON for the page's script: where the axes are, and what they mean. Empty if nothing is to be pointed at."""

    @property
    def csv_uri(self) -> str:
        """The data as an address that the page contains."""
        return tables.csv_address(self.csv)

    @property
    def stem(self) -> str:
        """The title as the stem of a file's name."""
        return file_stem(self.title)

    def save(self, folder: Path, stem: str) -> None:
        """Write the picture as PNG and PDF with a legend beside it, and its data as CSV."""
        with mpl.rc_context(_STYLE):
            for axes in self.figure.axes:
                for line in (*axes.get_xgridlines(), *axes.get_ygridlines()):
                    line.set_color(PRINTED_GRID)
                if len(axes.get_legend_handles_labels()[0]) > 1:
                    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
            self.figure.savefig(folder / f"{stem}.png", dpi=PNG_DPI, bbox_inches="tight")
            self.figure.savefig(folder / f"{stem}.pdf", metadata={"CreationDate": None}, bbox_inches="tight")
        (folder / f"{stem}.csv").write_text(self.csv)


def file_stem(title: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.")


@contextmanager
def panel(
    title: str, into: list[Panel], x_name: str, y_name: str, height: float = 2.9, **formats: Any
) -> Iterator[Drawing]:
    """Yield a new picture 4.4 inches wide, where 10-point text is 11 pixels on a phone. The names are of its data."""
    with mpl.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(4.4, height))
        axes.set_title(title)
        drawing = Drawing(axes, **formats)
        yield drawing
        points = ((line.label, *xy) for line in drawing.series for xy in zip(line.x, line.y, strict=True))
        data = tables.csv_text(("series", x_name, y_name), points)
        into.append(Panel(title, inline(figure, title), figure, data, _hover(drawing)))
        plt.close(figure)


def _hover(drawing: Drawing) -> str:
    """Return what a script needs to find the values at a place of the picture."""
    if not any(len(series.x) > 1 for series in drawing.series):
        return ""
    place, (low, high) = drawing.axes.get_position(), drawing.axes.get_xlim()
    return json.dumps(
        {
            "left": round(place.x0, 4),
            "right": round(place.x1, 4),
            "top": round(1 - place.y1, 4),
            "bottom": round(1 - place.y0, 4),
            "low": low,
            "high": high,
            "log": drawing.axes.get_xscale() == "log",
            "steps": drawing.steps,
            "x": drawing.x_format,
            "y": drawing.y_format,
            "colours": {series.label: colour_variable(series.colour) for series in drawing.series},
        }
    )


def logarithmic(axes: Axes, which: str, text: Callable[[float], str]) -> None:
    """Make an axis logarithmic, with as many labels as fit, as values instead of powers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log"})
    low, high = axis.get_view_interval()
    decades = math.log10(max(high, 1e-12) / max(low, 1e-12))
    steps = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_locator(NullLocator())


DASHES: tuple[tuple[float, ...] | None, ...] = (None, (5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (9, 3))
"""For the first, second … variant of one scheme. None is a solid line."""

MARKERS = dict(zip("os^DvPX<>ph*", "●■▲◆▼✚✖◀▶⬟⬢★", strict=True))
"""Of matplotlib, and the character that stands for it in the page's legend."""

WIDE_RATIO = 4.0
"""Above this ratio of largest to smallest value, the axis is logarithmic: otherwise values near 1
would form one line."""
MAX_TICKS = 8
CDF_POINTS = 240


def _line(variant: Variant) -> dict[str, Any]:
    dashes = DASHES[variant.style % len(DASHES)]
    return {
        "color": variant.colour,
        "label": variant.label,
        **({"dashes": dashes} if dashes else {"linestyle": "-"}),
    }


def marker_of(variant: Variant) -> str:
    """Each scheme has its own, for readers to whom two colours look alike."""
    schemes = list(SCHEMES)
    number = schemes.index(variant.scheme) if variant.scheme in schemes else len(schemes)
    return list(MARKERS)[number % len(MARKERS)]


def distributions(
    flows: Mapping[str, Flows], variants: Sequence[Variant], classes: Sequence[str]
) -> list[Panel]:
    """Draw FCT distributions by size class. `flows` is by the label of a variant."""
    panels: list[Panel] = []
    for group in classes:
        curves = {v: flows[v.label].fct_us[flows[v.label].size_class == group] for v in variants}
        curves = {variant: values for variant, values in curves.items() if len(values)}
        with panel(f"{group} flows", panels, "fct_us", "share", x_format="time", steps=True) as drawing:
            for variant, values in curves.items():
                x, share = cdf(values, CDF_POINTS)
                drawing.axes.step(np.append(x[0], x), np.append(0, share), where="post", **_line(variant))
                drawing.add(variant.label, variant.colour, x.tolist(), share.tolist())
            drawing.axes.set(xlabel="FCT", ylabel="share of flows", ylim=(0, 1.01))
            logarithmic(drawing.axes, "x", tables.time_text)
    return panels


_SLOWDOWNS = {
    "mean slowdown": "mean",
    "median slowdown": "p50",
    "95th percentile of the slowdown": "p95",
    "99th percentile of the slowdown": "p99",
}


def slowdowns(flows: Mapping[str, Flows], variants: Sequence[Variant]) -> list[Panel]:
    """Draw mean and percentiles of the slowdown by flow size."""
    bins = {variant: tables.slowdown_by_size(flows[variant.label]) for variant in variants}
    panels: list[Panel] = []
    for title, name in _SLOWDOWNS.items():
        if not any(np.isfinite(getattr(curve, name)).any() for curve in bins.values()):
            continue
        with panel(title, panels, "size_bytes", "slowdown", x_format="size") as drawing:
            for variant, curve in bins.items():
                drawn = np.isfinite(getattr(curve, name))
                sizes_bytes, values = curve.size_bytes[drawn], getattr(curve, name)[drawn]
                drawing.axes.plot(sizes_bytes, values, marker=marker_of(variant), **_line(variant))
                drawing.add(variant.label, variant.colour, sizes_bytes.tolist(), values.tolist())
            axes = drawing.axes
            axes.set(xlabel="flow size", ylabel="FCT ÷ FCT alone")
            logarithmic(axes, "x", tables.size_text)
            axes.set_ylim(bottom=1, top=1.2 * axes.get_ylim()[1])
            logarithmic(axes, "y", tables.factor_text)
    return panels


def against_load(variants: Sequence[Variant], baseline: Variant, classes: Sequence[str]) -> list[Panel]:
    """Draw the FCT as a ratio to the baseline's at the same load: the means, and the p99 of the first class after its
    mean."""
    panels: list[Panel] = []
    means = [(group, "mean") for group in (*classes, "all")] if classes else []
    for group, statistic in (*means[:1], *((group, "p99") for group in classes[:1]), *means[1:]):
        figure_of = partial(tables.of_class, measure="fct_us", group=group, name=statistic)
        with panel(f"{group} flows, {statistic}", panels, "load", "fct_ratio") as drawing:
            axes = drawing.axes
            for variant in variants:
                loads = [load for load in _loads([variant]) if baseline.at(load)]
                ratios = {
                    load: tables.ratio(variant.at(load), baseline.at(load), figure_of) for load in loads
                }
                _load_curve(drawing, variant, ratios)
            axes.set(xlabel="load", ylabel=f"FCT ÷ {baseline.label}")
            axes.set_xticks(_some(_loads(variants)))
            if axes.get_ylim()[1] > WIDE_RATIO:
                logarithmic(axes, "y", tables.factor_text)
            else:
                axes.set_ylim(bottom=0)
    return panels


def misses_against_load(variants: Sequence[Variant]) -> list[Panel]:
    """Draw the share of missed deadlines."""
    panels: list[Panel] = []
    with panel("deadlines missed", panels, "load", "share_missed") as drawing:
        axes = drawing.axes
        for variant in variants:
            shares = {load: tables.miss_ratio(variant.at(load)) for load in _loads([variant])}
            _load_curve(drawing, variant, shares)
        axes.set(xlabel="load", ylabel="share missed")
        axes.set_xticks(_some(_loads(variants)))
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    return panels


def _load_curve(drawing: Drawing, variant: Variant, values: Mapping[float, Estimate | None]) -> None:
    estimates = {load: value for load, value in values.items() if value is not None}
    spread = [value.deviation or 0.0 for value in estimates.values()]
    means = [value.mean for value in estimates.values()]
    style = {"marker": marker_of(variant), "capsize": 2, "elinewidth": 0.9, **_line(variant)}
    drawing.axes.errorbar(list(estimates), means, yerr=spread, **style)
    drawing.add(variant.label, variant.colour, list(estimates), means)


def misses(variants: Sequence[Variant], load: float | None) -> list[Panel]:
    """Draw the share of missed deadlines at one load, with a bar for each variant."""
    shares = {
        variant: share for variant in variants if (share := tables.miss_ratio(variant.at(load))) is not None
    }
    panels: list[Panel] = []
    height = 0.45 + 0.32 * len(shares)
    with panel("deadlines missed", panels, "variant", "share_missed", height) as drawing:
        axes = drawing.axes
        for row, (variant, share) in enumerate(shares.items()):
            spread = share.deviation or 0.0
            axes.barh(row, share.mean, height=0.6, color=variant.colour, xerr=spread, ecolor=MUTED)
            text, right_of_it = f"{variant.label}: {tables.percent(share)}", (share.mean + spread, row)
            axes.annotate(text, right_of_it, (5, 0), textcoords="offset points", va="center")
            drawing.add(variant.label, variant.colour, [row], [share.mean])
        axes.invert_yaxis()
        axes.grid(visible=False)  # the bars have labels
        axes.spines["bottom"].set_visible(False)
        axes.xaxis.set_major_locator(NullLocator())
        axes.yaxis.set_major_locator(NullLocator())
        longest = max((share.mean + (share.deviation or 0) for share in shares.values()), default=0)
        axes.set_xlim(0, max(longest, 1e-6) * 1.9)  # room for the label right of the longest bar
        axes.figure.subplots_adjust(left=0.01, bottom=0.04, top=1 - 0.35 / height)
    return panels


def _loads(variants: Sequence[Variant]) -> list[float]:
    return [load for load in tables.loads_of(variants) if load is not None]


def _some(loads: Sequence[float]) -> Sequence[float]:
    """Return as many of the loads as fit below an axis."""
    return loads[:: math.ceil(len(loads) / MAX_TICKS)]


# ── Thresholds ───────────────────────────────────────────────────────────────────────────────────────


Floats = npt.NDArray[np.float64]

TIMES = 200
"""The most points of time of a plot."""
LOW_PERCENT, HIGH_PERCENT = 10, 90
"""The band around the median port."""


@dataclass(frozen=True)
class Moves:
    """The thresholds of all ports over time, shape (times, thresholds) each."""

    at_s: Floats
    """Seconds since the first one."""
    low: Floats
    median: Floats
    high: Floats


def threshold_moves(run: Run) -> Moves | None:
    """Return the moves of a run's thresholds; None if they did not move, or if the bundle does not have them."""
    by_port = _by_port(run)
    if all(len(values) < 2 or (values == values[0]).all() for _, values in by_port):
        return None
    at_s = np.unique(np.concatenate([times for times, _ in by_port]))
    if len(at_s) > TIMES:
        at_s = np.linspace(at_s[0], at_s[-1], TIMES)
    held = []  # the newest thresholds of each port at these times, NaN before the first
    for times, values in by_port:
        newest = np.searchsorted(times, at_s, side="right") - 1
        held.append(np.where((newest >= 0)[:, None], values[np.maximum(newest, 0)], np.nan))
    low, median, high = np.nanpercentile(np.stack(held), [LOW_PERCENT, 50, HIGH_PERCENT], axis=0)
    return Moves(at_s - at_s[0], low, median, high)


def _by_port(run: Run) -> list[tuple[Floats, Floats]]:
    """Return times and thresholds of each port, in the order of time. Ports with fewer thresholds are left out."""
    path = run.folder / "ports.parquet"
    if not path.exists():
        return []
    filters: list[tuple[str, str, Any]] = [("kind", "=", "thresholds")]
    filters += [] if run.version is None else [("policy_version", "=", run.version)]
    rows: dict[str, list[tuple[float, list[int]]]] = {}
    for row in pq.read_table(path, filters=filters).to_pylist():
        rows.setdefault(row["port"], []).append((row["at"], row["thresholds_bytes"]))
    most = max((len(values) for changes in rows.values() for _, values in changes), default=0)
    histories = []
    for changes in rows.values():
        kept = sorted((at, values) for at, values in changes if len(values) == most and most)
        if kept:
            times, values = zip(*kept, strict=True)
            histories.append((np.asarray(times, float), np.asarray(values, float)))
    return histories


def threshold_panels(variants: list[tuple[Variant, Run]]) -> list[Panel]:
    """Draw the thresholds of each run that moved any."""
    panels: list[Panel] = []
    for variant, run in variants:
        moves = threshold_moves(run)
        if moves is None:
            continue
        title, colour = f"thresholds, {variant.label}", variant.colour
        with panel(title, panels, "seconds", "threshold_bytes", y_format="size", steps=True) as drawing:
            axes = drawing.axes
            for number in range(moves.median.shape[1]):
                low, median, high = (part[:, number] for part in (moves.low, moves.median, moves.high))
                axes.fill_between(moves.at_s, low, high, color=colour, alpha=0.15, linewidth=0, step="post")
                axes.step(moves.at_s, median, where="post", color=colour)
                drawing.add(f"threshold {number + 1}", colour, moves.at_s.tolist(), median.tolist())
            axes.set(xlabel="time, s", ylabel="threshold")
            logarithmic(axes, "y", tables.size_text)
    return panels


# ── Queues ───────────────────────────────────────────────────────────────────────────────────────────


PORT_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#b08900")
MOST_PORTS = len(PORT_COLOURS)
QUEUE_TIMES, MARKERS_PER_LINE = 60, 10


def queues_over_time(run: Run) -> dict[str, tuple[Floats, Floats]]:
    """Return times in seconds and waiting bytes by port, of the ports that sent the most bytes; none without samples.

    Of more than QUEUE_TIMES samples, a point is the last time and the most bytes of several.
    """
    path = run.folder / QUEUES
    if not path.exists():
        return {}
    table = pq.read_table(path, columns=["at_s", "port", "waiting_bytes", "sent_bytes"])
    sent = table.group_by("port").aggregate([("sent_bytes", "max")])
    busiest = sent.sort_by([("sent_bytes_max", "descending"), ("port", "ascending")])["port"]
    queues = {}
    for port in busiest.to_pylist()[:MOST_PORTS]:
        rows = table.filter(pc.equal(table["port"], port))
        at_s, waiting_bytes = rows["at_s"].to_numpy(), rows["waiting_bytes"].to_numpy().astype(float)
        first = np.unique(np.linspace(0, len(at_s), min(QUEUE_TIMES, len(at_s)), endpoint=False).astype(int))
        last = np.append(first[1:], len(at_s)) - 1
        queues[port] = at_s[last], np.maximum.reduceat(waiting_bytes, first)
    return queues


def queue_panels(variants: list[tuple[Variant, Run]]) -> list[Panel]:
    """Draw the queues of each run that sampled ports."""
    panels: list[Panel] = []
    for variant, run in variants:
        queues = queues_over_time(run)
        if not queues:
            continue
        with panel(
            f"queues, {variant.label}", panels, "seconds", "waiting_bytes", y_format="size"
        ) as drawing:
            axes = drawing.axes
            lines = zip(queues.items(), PORT_COLOURS, MARKERS, strict=False)
            for number, ((port, (at_s, waiting_bytes)), colour, marker) in enumerate(lines):
                step = max(1, len(at_s) // MARKERS_PER_LINE)
                places = number * step // len(queues), step  # markers of two lines do not cover each other
                (line,) = axes.plot(at_s, waiting_bytes, color=colour, marker=marker, label=port)
                line.set(markevery=places, linewidth=1.2)
                drawing.add(port, colour, at_s.tolist(), waiting_bytes.tolist())
            axes.set(xlabel="time, s", ylabel="waiting")
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tables.size_text(value)))
            axes.figure.subplots_adjust(left=0.2, right=0.81)
            axes.legend(
                frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1), handlelength=1.5
            )
    return panels
