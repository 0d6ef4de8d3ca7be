# SPDX-License-Identifier: Apache-2.0
"""Throughput over time, as the paper draws it: one line for each flow, one colour for each kind of flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.kit.draw import grid
from experiments.kit.runs import Results, Run
from experiments.papers.datcp.common import setup_of

BACKGROUND = "#8c8c8c"
DEADLINE = "#aa3377"
OTHER = "#4477aa"
COLOURS = {"background": BACKGROUND}
STYLES = ("-", "--", ":", "-.")
MOST_PANELS = 3


def throughputs(
    titles: Mapping[str, str] | None = None, *, colours: Mapping[str, str] = COLOURS, top: float = 0.6
) -> Callable[[Results], Figure]:
    """Return a drawing with a panel for each variant, of its first seed's run.

    `titles`: variant → title of its panel; None: the first three variants by their names.
    `colours`: label of a flow → colour; other flows have that of a deadline. `top`: end of the
    axis as a part of the link's rate.
    """

    def draw(results: Results) -> Figure:
        shown = titles or {name: name for name in results.runs.variants[:MOST_PANELS]}
        width = max(6.5, 4.0 * len(shown)) / len(shown)
        figure, [panels] = grid(1, len(shown), width=width, height=3.6, sharex=True, sharey=True)
        for axes, (variant, title) in zip(panels, shown.items(), strict=True):
            _draw_run(axes, results.runs.at(variant)[0], colours)
            axes.set(title=title, xlabel="seconds", xlim=(0, None))
            axes.set_ylim(0, top * setup_of(results.given).link_mbps)
        panels[0].set_ylabel("throughput (Mb/s)")
        panels[0].legend(frameon=False, fontsize="small")
        return figure

    return draw


def _draw_run(axes: Axes, run: Run, colours: Mapping[str, str]) -> None:
    """Draw a run. Flows of one label share a colour and an entry of the legend."""
    seen: dict[str, int] = {}
    for index, flow in enumerate(run.listed.flows):
        nth = seen[flow.label] = seen.get(flow.label, -1) + 1
        colour, label = colours.get(flow.label, DEADLINE), flow.label if nth == 0 else None
        style = STYLES[nth % len(STYLES)]
        axes.plot(*run.listed.rates(index), color=colour, linestyle=style, linewidth=1.2, label=label)
        if flow.deadline_s is not None:
            axes.axvline(flow.start_s + flow.deadline_s, color=colour, linewidth=0.6, alpha=0.5)
