# SPDX-License-Identifier: Apache-2.0
"""The demotion threshold over time, at the paper's rate on the simulator."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Experiment
from experiments.kit.runners import ShortRuns
from experiments.kit.runs import Results, Series
from experiments.papers.adaptive_thresholds.common import BOTTLENECK_PORT, SHARED, STARTS, plan, settles

SHOWN_LOAD = 0.8
COLOURS = {"1KB": "#4477aa", "10KB": "#228833", "1000KB": "#ee6677"}


def _series(results: Results, start: str, load: float | None = None) -> list[Series]:
    """Return the threshold at the receiver's port over time, at one load or at all."""
    return [run.thresholds(BOTTLENECK_PORT) for run in results.runs.at(f"dynamic-{start}", load)]


def claims(results: Results) -> list[Claim]:
    return [_claim(start, _series(results, start)) for start in STARTS]


def _claim(start: str, series: list[Series]) -> Claim:
    settled = [settles(one) for one in series]
    times = sorted(at for at in settled if at is not None)
    reached = f"10 KB after {times[0]:.1f} … {times[-1]:.1f} s, and stays" if times else "never"
    measured = f"{reached}: {len(times)} of {len(settled)} runs"
    what = f"threshold from {start}, all loads"
    return Claim(what, "converges to 10 KB", measured, len(times) == len(settled))


def numbers(results: Results) -> dict[str, dict[str, list[Series]]]:
    loads = results.runs.loads
    return {start: {f"{load:g}": _series(results, start, load) for load in loads} for start in STARTS}


def draw(results: Results) -> Figure:
    figure, [[axes]] = grid(1, 1, width=4.4, height=3.8)
    end_s = float(results.runs.at("dynamic-1KB", SHOWN_LOAD)[0].flows().started_s.max())
    for start in reversed(STARTS):
        for nth, series in enumerate(_series(results, start, SHOWN_LOAD)):
            times, values = zip(*series, (end_s, series[-1][1]), strict=True)
            label = f"start {start.replace('KB', ' KB')}" if nth == 0 else None
            kilobytes = [value / 1000 for value in values]
            axes.step(times, kilobytes, where="post", color=COLOURS[start], label=label)
    axes.set(yscale="log", xlim=(0, end_s), ylim=(0.7, 1500), xlabel="seconds")
    axes.set_ylabel("demotion threshold (KB)")
    axes.yaxis.set_major_locator(FixedLocator([1, 10, 100, 1000]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_title(f"Threshold at the receiver's port, load {100 * SHOWN_LOAD:g} %", fontsize="medium")
    axes.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    name="dyna_fig5",
    claim="The demotion threshold converges to the short flows' 10 KB, from 1, 10 and 1000 KB.",
    figure="Gutiérrez et al., Fig. 5",
    about=__doc__,
    runner=ShortRuns(plan),
    claims=claims,
    numbers=numbers,
    draw=draw,
    **SHARED,
)
