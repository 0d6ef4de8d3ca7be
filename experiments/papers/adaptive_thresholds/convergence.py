# SPDX-License-Identifier: Apache-2.0
"""Convergence of the demotion threshold: over time at the paper's rate on the simulator, and on real TCP."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Experiment, Given
from experiments.kit.runners import NamedPoint, Planned, RunAfterRun, ShortRuns, named, one_group
from experiments.kit.runs import Results, Series
from experiments.papers.adaptive_thresholds import common
from sluice.policy.fabrics import TESTBED
from sluice.policy.tags import EDGES_BYTES, attained_tag
from sluice.policy.units import format_bytes
from sluice.runs.files import SCENARIOS, read_document

TCP_ABOUT = """\
Convergence of the demotion threshold, and whether it follows a shift, on real TCP.

A threshold can only be an edge of the tag's buckets. 10 KB is one. A flow of 20 KB ends in the
bucket whose upper edge is 23.7 KB, so the threshold must arrive there after the shift."""

SHIFTED_SHORT_BYTES = 20_000
SHIFTED_EDGE_BYTES = EDGES_BYTES[attained_tag(SHIFTED_SHORT_BYTES) - 1]
SHIFTED_MIX = [
    {"bytes": "20KB", "share": 0.8, "from": ["h3"]},
    {"bytes": "1000KB", "share": 0.2, "from": ["h2", "h4"]},
]
SHIFT = {"shift": {"at": 0.5, "mix": SHIFTED_MIX}}


def tcp_plan(given: Given) -> Mapping[str, Planned]:
    points = [_point(given, f"from-{start}", start, {}) for start in common.STARTS]
    return one_group(given, [*points, _point(given, "shift", "1000KB", SHIFT)])


def _point(given: Given, name: str, start: str, workload: Mapping[str, Any]) -> NamedPoint:
    document = read_document(SCENARIOS / "paper-mix.toml")
    scheme = {**document["scheme"], "thresholds": [start]}
    workload = {"flows": given.flows, **workload}
    return named(document, name, document["seed"], name, scheme=scheme, workload=workload)


def tcp_numbers(results: Results) -> dict[str, Series]:
    """Return (seconds of the run, bytes) at each change of the threshold, and at the last flow's start."""
    numbers = {}
    for variant in results.runs.variants:
        [run] = results.runs.at(variant)
        series = run.thresholds(common.BOTTLENECK_PORT)
        numbers[variant.removeprefix("from-")] = [*series, (run.flows().started_s.max(), series[-1][1])]
    return numbers


def tcp_claims(results: Results) -> list[Claim]:
    series, valid = tcp_numbers(results), results.runs.valid
    starts = [_converges(start, series[start], valid(f"from-{start}")) for start in common.STARTS]
    return [*starts, _follows(series["shift"], valid("shift"))]


def _converges(start: str, series: Series, valid: bool) -> Claim:
    reached_s = next((at for at, threshold in series if threshold == common.SHORT_BYTES), None)
    stays = reached_s is not None and common.settles(series) == reached_s
    measured = "never"
    if reached_s is not None:
        measured = f"10 KB after {max(reached_s, 0):.1f} s, {'stays' if stays else 'leaves it'}"
    what = f"from {start} to the 10 KB edge, and stays"
    return Claim(what, "converges to 10 KB", measured, stays and valid)


def _follows(series: Series, valid: bool) -> Claim:
    what = "short flows shift to 20 KB half-way: the threshold follows"
    at_edge = [at for at, threshold in series if threshold == SHIFTED_EDGE_BYTES]
    if not at_edge:
        return Claim(what, "(section 2.2)", "never", False)
    last = series[-1][1]
    measured = f"{format_bytes(last)} at the end, reached after {at_edge[0]:.1f} s"
    return Claim(what, "(section 2.2)", measured, last == SHIFTED_EDGE_BYTES and valid)


def tcp_draw(results: Results) -> Figure:
    figure, [[axes]] = grid(1, 1, width=8, height=4.5)
    for name, series in tcp_numbers(results).items():
        times = [max(at, 0.0) for at, _ in series]
        label = "shift to 20 KB half-way" if name == "shift" else f"start {name}"
        axes.step(times, [threshold for _, threshold in series], where="post", label=label)
    axes.axhline(common.SHORT_BYTES, color="0.8", zorder=0)
    axes.set(yscale="log", xlabel="seconds since the traffic began", ylabel="demotion threshold (bytes)")
    axes.set_title("Threshold at the receiver's port: 80 % 10 KB, 20 % 1000 KB, load 0.8")
    axes.legend(frameon=False)
    return figure


ON_TCP = Experiment(
    claim="The demotion threshold converges to 10 KB from any start, and follows a shift of the sizes.",
    figure="Gutiérrez et al., Fig. 5",
    minutes=3,
    about=TCP_ABOUT,
    runner=RunAfterRun(tcp_plan),
    on=(TESTBED,),
    flows=1200,
    quick={"flows": 700},
    claims=tcp_claims,
    numbers=tcp_numbers,
    draw=tcp_draw,
)


SHOWN_LOAD = 0.8
COLOURS = {"1KB": "#4477aa", "10KB": "#228833", "1000KB": "#ee6677"}


def _series(results: Results, start: str, load: float | None = None) -> list[Series]:
    """Return the threshold at the receiver's port over time, at one load or at all."""
    return [run.thresholds(common.BOTTLENECK_PORT) for run in results.runs.at(f"dynamic-{start}", load)]


def fig5_claims(results: Results) -> list[Claim]:
    verdict = []
    for start in common.STARTS:
        settled = [common.settles(series) for series in _series(results, start)]
        times = sorted(at for at in settled if at is not None)
        reached = f"10 KB after {times[0]:.1f} … {times[-1]:.1f} s, and stays" if times else "never"
        measured = f"{reached}: {len(times)} of {len(settled)} runs"
        what = f"threshold from {start}, all loads"
        verdict.append(Claim(what, "converges to 10 KB", measured, len(times) == len(settled)))
    return verdict


def fig5_draw(results: Results) -> Figure:
    figure, [[axes]] = grid(1, 1, width=4.4, height=3.8)
    end_s = float(results.runs.at("dynamic-1KB", SHOWN_LOAD)[0].flows().started_s.max())
    for start in reversed(common.STARTS):
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


FIG5 = Experiment(
    claim="The demotion threshold converges to the short flows' 10 KB, from 1, 10 and 1000 KB.",
    figure="Gutiérrez et al., Fig. 5",
    about="The demotion threshold over time, at the paper's rate on the simulator.",
    runner=ShortRuns(common.plan),
    claims=fig5_claims,
    draw=fig5_draw,
    **common.SHARED,
)
