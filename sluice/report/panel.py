# SPDX-License-Identifier: Apache-2.0
"""One picture of a report: drawing it, its data, and its copies in the page and in files.

On the page it is SVG with the page's colours (light or dark), no addresses, and its own ids.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

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
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', _opening(label), text, count=1)
    text = text.replace("xlink:href=", "href=")
    text = _with_colours(text)
    text = re.sub(r"font: (?:\w+ )?([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    text = re.sub(r"font-family: [^;\"]*;?", "", text)
    return _with_own_ids(text)


def colour_variable(colour: str) -> str:
    """Return the page's CSS variable for a plot's colour."""
    return f"--c{colour.removeprefix('#')}"


def _opening(label: str) -> str:
    return rf'<svg viewBox="\1" role="img" aria-label="{escape(label)}">'


def _with_colours(text: str) -> str:
    for colour, page_colour in _PAGE_COLOURS.items():
        text = text.replace(colour, page_colour)
    return re.sub(
        r"(fill|stroke): (#[0-9a-f]{6})", lambda m: f"{m[1]}: var({colour_variable(m[2])}, {m[2]})", text
    )


def _with_own_ids(text: str) -> str:
    """Remove the ids that nothing refers to. The page can make the others unique if it holds
    several figures."""
    used = {one or other for one, other in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)}
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{ID_PREFIX}{m[1]}"' if m[1] in used else "", text)
    text = text.replace('href="#', f'href="#{ID_PREFIX}')
    return text.replace("url(#", f"url(#{ID_PREFIX}")


# ── The panel ────────────────────────────────────────────────────────────────────────────────────────


PRINTED_GRID = "#dddddd"
"""Colour of the grid in files. On the page it follows the page's theme."""
PNG_DPI = 200
DIGITS = 6
"""Significant digits of the data."""

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
    x_name: str
    y_name: str
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
        return f"data:text/csv;charset=utf-8,{quote(self.csv)}"

    @property
    def stem(self) -> str:
        """The title as the stem of a file's name."""
        return file_stem(self.title)

    def save(self, folder: Path, stem: str) -> None:
        """Write the picture as PNG and PDF with a legend, and its data as CSV."""
        with mpl.rc_context(_STYLE):
            for axes in self.figure.axes:
                for line in (*axes.get_xgridlines(), *axes.get_ygridlines()):
                    line.set_color(PRINTED_GRID)
                if len(axes.get_legend_handles_labels()[0]) > 1:
                    axes.legend(frameon=False, fontsize=8)
            self.figure.savefig(folder / f"{stem}.png", dpi=PNG_DPI)
            self.figure.savefig(folder / f"{stem}.pdf", metadata={"CreationDate": None})
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
        drawing = Drawing(axes, x_name, y_name, **formats)
        yield drawing
        svg = inline(figure, title)
        into.append(Panel(title, svg, figure, _csv(drawing), _hover(drawing)))
        plt.close(figure)


def _csv(drawing: Drawing) -> str:
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["series", drawing.x_name, drawing.y_name])
    for series in drawing.series:
        for x, y in zip(series.x, series.y, strict=True):
            rows.writerow([series.label, _number(x), _number(y)])
    return file.getvalue()


def _number(value: Any) -> Any:
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value


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
            "colours": {one.label: colour_variable(one.colour) for one in drawing.series},
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
