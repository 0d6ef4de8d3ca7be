# SPDX-License-Identifier: Apache-2.0
"""The comparison of the runs of both simulators, flow by flow and in distribution, and the figures of each case."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.checks.ns3 import cases
from experiments.checks.ns3.cases import Case, run_on_ours
from experiments.checks.ns3.ns3 import Outcome, run_on_ns3
from experiments.kit.experiment import Claim, markdown_table
from experiments.kit.flows import jain_index
from sluice.policy.figures.metrics import size_classes
from sluice.policy.units import FRAME_BYTES, HEADER_BYTES
from sluice.policy.wire.records import SIZE_CLASSES
from sluice.policy.workload.flows import FlowBatch
from sluice.terminal import console

Floats = npt.NDArray[np.float64]

EXACT = 0.005
"""For a flow alone in the network."""
AVERAGE = 0.05
"""For means and medians."""
TAIL = 0.1
"""For 99th percentiles, and for counts of rare events."""
FEW = 3
"""Counts that differ by at most this number are equal."""


@dataclass(frozen=True)
class Figure:
    """One figure from both simulators, and their greatest allowed difference."""

    what: str
    unit: str
    ours: float
    """The median, if there are several runs."""
    ns3: float
    tolerance: float
    few: float = 0
    """Absolute difference up to which the figures are equal."""
    runs: tuple[float, ...] = ()
    """Our figure in every run with starts moved by up to 100 ns. It shows the effect of chance alone."""

    @property
    def ratio(self) -> float:
        """ns-3's figure over ours."""
        return self.ns3 / self.ours if self.ours else (1.0 if self.ns3 == self.ours else float("inf"))

    @property
    def holds(self) -> bool:
        return abs(self.ns3 - self.ours) <= max(self.few, self.tolerance * abs(self.ours))

    @property
    def is_chance(self) -> bool:
        """Whether ns-3 is at most as far from our median as our own runs are."""
        return bool(self.runs) and min(self.runs) <= self.ns3 <= max(self.runs)

    def document(self) -> dict[str, Any]:
        """Return it for the verdict's numbers."""
        return {**asdict(self), "ratio": self.ratio, "holds": self.holds, "is_chance": self.is_chance}

    def claim(self, explanation: str = "") -> Claim:
        """Return it as a claim of the verdict. ns-3's figure takes the place of a paper's."""
        chance = "as far apart as our own runs with starts moved by up to 100 ns" if self.is_chance else ""
        explanation = "" if self.holds else (chance or explanation)
        allowed = f"{number(self.ns3)} {self.unit}".strip()
        measured = f"{number(self.ours)}, ratio {self.ratio:.3f} (1 ± {self.tolerance:g})"
        if self.runs:
            measured += f", own runs {number(min(self.runs))} … {number(max(self.runs))}"
        return Claim(self.what, f"ns-3: {allowed}", measured, self.holds, explanation)


def number(value: float) -> str:
    """Return a number as text: large ones with commas, others with four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def times_of(fct_us: Floats, ideal_us: Floats) -> dict[str, float]:
    """Return completion times in microseconds and slowdowns of the finished flows."""
    done = ~np.isnan(fct_us)
    fct_us, slowdown = fct_us[done], (fct_us / ideal_us)[done]
    return {
        "FCT mean": float(fct_us.mean()),
        "FCT p50": float(np.median(fct_us)),
        "FCT p99": float(np.percentile(fct_us, 99)),
        "slowdown mean": float(slowdown.mean()),
        "slowdown p99": float(np.percentile(slowdown, 99)),
    }


def class_times(sizes_bytes: npt.NDArray[np.int64], fct_us: Floats, ideal_us: Floats) -> dict[str, float]:
    """Return the same for each size class with flows, for example as "small FCT mean"."""
    of_class = size_classes(sizes_bytes)
    return {
        f"{name} {what}": value
        for i, name in enumerate(SIZE_CLASSES)
        if (of_class == i).any()
        for what, value in times_of(fct_us[of_class == i], ideal_us[of_class == i]).items()
    }


def figures_of_times(
    name: str, runs: Sequence[Mapping[str, float]], ns3: Mapping[str, float]
) -> Iterable[Figure]:
    """Yield the figures. `runs` are ours, one or several."""
    for what, value in ns3.items():
        ours = tuple(run[what] for run in runs)
        yield Figure(
            what=f"{name}: {what}",
            unit="us" if "FCT" in what else "",
            ours=float(np.median(ours)),
            ns3=value,
            tolerance=TAIL if "p99" in what else AVERAGE,
            runs=ours if len(ours) > 1 else (),
        )


REPEATS = 10
JITTER_S = 100e-9


@dataclass(frozen=True)
class Pair:
    """A case with one seed on both simulators."""

    flows: FlowBatch
    ours: Outcome
    ns3: Outcome
    shipped: Outcome | None
    """ns-3 with its mistakes, if that was run."""


def run_pairs(case: Case, out: Path, *, shipped: bool) -> list[Pair]:
    """Run the case for each seed. Unchanged results of an earlier call of ns-3 are read again."""
    console.print(f"{case.name}, seeds {', '.join(map(str, case.seeds))}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda seed: _run_pair(case, seed, out, shipped=shipped), case.seeds))


def _run_pair(case: Case, seed: int, out: Path, *, shipped: bool) -> Pair:
    scenario, topology, flows = case.made(seed)
    network = (scenario, topology, flows, case.until_s)
    folder = out / f"{case.name}-seed{seed}"
    return Pair(
        flows,
        run_on_ours(*network, case.watch),
        run_on_ns3(*network, folder, case.watch),
        run_on_ns3(*network, folder / "shipped", case.watch, mended=False) if shipped else None,
    )


def sides(pairs: list[Pair]) -> tuple[list[Outcome], list[Outcome]]:
    """Return (our outcomes, ns-3's outcomes)."""
    return [pair.ours for pair in pairs], [pair.ns3 for pair in pairs]


def repeats(case: Case) -> list[list[Outcome]]:
    """Return our runs that show chance: every seed, REPEATS times, each start up to JITTER_S later."""
    runs: list[list[Outcome]] = [[] for _ in range(REPEATS)]
    for repeat, outcomes in enumerate(runs):
        for seed in case.seeds:
            scenario, topology, flows = case.made(seed)
            shift = np.random.default_rng((seed, repeat)).uniform(0, JITTER_S, len(flows))
            moved = replace(flows, start_s=np.maximum.accumulate(flows.start_s + shift))
            outcomes.append(run_on_ours(scenario, topology, moved, case.until_s, None))
    return runs


def times_us(outcomes: Sequence[Outcome]) -> Floats:
    """Return the completion times of several runs, one after the other."""
    return np.concatenate([outcome.fct_us for outcome in outcomes])


TIMES = ("FCT mean", "FCT p50", "FCT p99", "slowdown mean", "slowdown p99")


def class_table(figures: Sequence[Figure]) -> str:
    """Return a row for each case and size class: ours / ns-3's."""
    by_name = {figure.what: figure for figure in figures}
    rows = []
    for case, size_class in product(dict.fromkeys(name.split(": ")[0] for name in by_name), SIZE_CLASSES):
        row = [by_name.get(f"{case}: {size_class} {what}") for what in TIMES]
        if all(row):
            rows.append((case, size_class, *(_pair(figure) for figure in row if figure)))
    return markdown_table(("case", "flows", *TIMES), rows)


def _pair(figure: Figure) -> str:
    mark = "" if figure.holds else (" (chance)" if figure.is_chance else " **differs**")
    return f"{number(figure.ours)} / {number(figure.ns3)} ({figure.ratio:.2f}){mark}"


def other_table(figures: Sequence[Figure]) -> str:
    """Return a row for each figure that is not of a size class."""
    rows = []
    for figure in figures:
        case, what = figure.what.split(": ", 1)
        if what.startswith(SIZE_CLASSES):
            continue
        spread = f"{number(min(figure.runs))} … {number(max(figure.runs))}" if figure.runs else "–"
        name = f"{what} ({figure.unit})" if figure.unit else what
        ratio = f"{figure.ratio:.3f}" if figure.ours else "–"
        within = "chance" if figure.is_chance else "**differs**"
        if figure.holds:
            within = f"{figure.tolerance:{'.1%' if figure.tolerance < 0.01 else '.0%'}}"
        rows.append((case, name, number(figure.ours), spread, number(figure.ns3), ratio, within))
    return markdown_table(("case", "figure", "Sluice", "its own range", "ns-3", "ratio", "within"), rows)


_RECOVERY = (
    "a lost packet's second copy may find no room, which depends on the time of its retransmission. "
    "To ns-3 a packet is lost when three beyond it were selectively acknowledged, "
    "and when a packet that was retransmitted later has arrived"
)
_WHILE_MARKED = (
    "a loss does not begin ns-3's recovery while it reduces a window for marks "
    "(a TODO in TcpSocketBase::ProcessAck)"
)
EXPLANATIONS = {
    "lone": "ns-3 answers the SYN-ACK with an ACK of its own before the data, 66 bytes: 0.0528 us of this link",
    "long-8": "windows have eight packets. Ours are whole packets with cuts rounded to the nearest; ns-3's are bytes. "
    "With cuts rounded down, ours has 4 % more marks",
    "losses-8": f"{_RECOVERY}; with both rules in ours, 95 time out",
    "losses-32": f"{_RECOVERY}; with both rules in ours, 339 time out",
    "marks-and-losses-32": f"{_RECOVERY}; with both rules in ours, 81 time out. And {_WHILE_MARKED}",
    "web-0.5: dropped": _WHILE_MARKED,
    "web-0.5: retransmissions": _WHILE_MARKED,
}
"""Start of a figure's name → why that figure differs."""


def explanation_of(figure: Figure) -> str:
    """Return the known reason; empty if there is none."""
    return next((why for start, why in EXPLANATIONS.items() if figure.what.startswith(start)), "")


def lone_figures(case: Case, pairs: list[Pair]) -> Iterator[Figure]:
    (pair,) = pairs
    for size, ours, ns3 in zip(cases.LONE_SIZES, pair.ours.fct_us, pair.ns3.fct_us, strict=True):
        yield Figure(f"{case.name}: FCT of {size}", "us", float(ours), float(ns3), EXACT)


def closed_form(case: Case, pairs: list[Pair]) -> Claim:
    """Claim the closed form: a round trip of headers, then the ideal time. No window delays a lone
    flow on this path."""
    (pair,) = pairs
    delay_us = 4 * 1.0 + 4 * 8e6 * HEADER_BYTES / cases.LINK_BPS
    expected_us = pair.flows.ideal_us + delay_us
    most = float(np.abs(pair.ours.fct_us / expected_us - 1).max())
    form = f"handshake {delay_us:.4f} us, then frames of {FRAME_BYTES} bytes at link rate"
    return Claim(
        f"{case.name}: ours against the closed form", form, f"differs by {most:.1e} at most", most < EXACT
    )


def long_figures(case: Case, pairs: list[Pair]) -> Iterator[Figure]:
    """Yield figures of all seeds together. Shares are those of the run with the most uneven ones."""
    ours, ns3 = (_long_numbers(outcomes) for outcomes in sides(pairs))
    tolerance = {"goodput": EXACT, "queue mean": AVERAGE}
    for (what, unit), value in ours.items():
        yield Figure(f"{case.name}: {what}", unit, value, ns3[what, unit], tolerance.get(what, TAIL))


def _long_numbers(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], float]:
    """Return (name, unit) → value. Queue figures exclude the first flows' slow start."""
    settled = int(cases.LONG_SETTLED_S * 1e12) // cases.WATCH_EVERY_PS
    packets = np.concatenate([outcome.backlog_bytes[settled:] for outcome in outcomes]) / FRAME_BYTES
    received_bytes = float(np.mean([outcome.received_bytes.sum() for outcome in outcomes]))
    return {
        ("goodput", "Gb/s"): 8 * received_bytes / cases.LONG_S / 1e9,
        ("Jain's index", ""): min(jain_index(outcome.received_bytes.tolist()) for outcome in outcomes),
        ("queue mean", "packets"): float(packets.mean()),
        ("queue p1", "packets"): float(np.percentile(packets, 1)),
        ("queue p99", "packets"): float(np.percentile(packets, 99)),
        ("marks a run", "packets"): float(np.mean([outcome.marked for outcome in outcomes])),
    }


def incast_figures(case: Case, pairs: list[Pair]) -> Iterator[Figure]:
    """Yield figures of all seeds together."""
    ideal = np.concatenate([pair.flows.ideal_us for pair in pairs])
    ours, ns3 = (times_of(times_us(outcomes), ideal) for outcomes in sides(pairs))
    yield from figures_of_times(case.name, [ours], ns3)
    yield from _counts(case, sides(pairs)[:1], sides(pairs)[1])
    if np.concatenate([pair.ns3.timeouts for pair in pairs]).any():
        means_us = []
        for outcomes in sides(pairs):
            timeouts = np.concatenate([outcome.timeouts for outcome in outcomes])
            means_us.append(float(times_us(outcomes)[timeouts == 0].mean()))
        ours_us, ns3_us = means_us
        yield Figure(f"{case.name}: FCT mean of flows without a timeout", "us", ours_us, ns3_us, AVERAGE)


def _counts(case: Case, runs: Sequence[Sequence[Outcome]], ns3: Sequence[Outcome]) -> Iterator[Figure]:
    for what in ("dropped", "timeouts", "retransmissions"):
        ours = tuple(_sum(run, what) for run in runs)
        several = ours if len(ours) > 1 else ()
        yield Figure(
            f"{case.name}: {what}", "", float(np.median(ours)), _sum(ns3, what), TAIL, few=FEW, runs=several
        )


def _sum(outcomes: Sequence[Outcome], what: str) -> float:
    return float(sum(np.sum(getattr(outcome, what)) for outcome in outcomes))


def web_figures(case: Case, pairs: list[Pair]) -> Iterator[Figure]:
    """Yield figures of all seeds together; ours also with moved starts, which shows the effect of chance."""
    flows = [pair.flows for pair in pairs]
    sizes, ideal = (np.concatenate([getattr(f, name) for f in flows]) for name in ("bytes", "ideal_us"))
    ours, ns3 = sides(pairs)
    runs = [ours, *repeats(case)]
    times = [class_times(sizes, times_us(run), ideal) for run in runs]
    yield from figures_of_times(case.name, times, class_times(sizes, times_us(ns3), ideal))
    yield from _counts(case, runs, ns3)


def same_paths(case: Case, pairs: list[Pair]) -> Claim:
    """Claim that flows take the same paths in both simulators, so that the same flows meet."""
    ours, ns3 = (
        np.concatenate([o.port_packets for o in outcomes]).astype(float) for outcomes in sides(pairs)
    )
    most = float(np.abs(ns3 / ours - 1).max())
    return Claim(f"{case.name}: packets on each link", "ns-3: the same", f"within {most:.1%}", most < AVERAGE)


def speeds(pairs: Mapping[str, list[Pair]]) -> dict[str, dict[str, float]]:
    """Return packet-hops per second of CPU time, for the cases that last long enough."""
    by_case = {}
    for name, of_case in pairs.items():
        ours, ns3 = sides(of_case)
        if _sum(ours, "packet_hops") > 10_000_000:
            by_case[name] = {
                f"{whose}_hops_per_s": _sum(outcomes, "packet_hops") / _sum(outcomes, "seconds")
                for whose, outcomes in (("ours", ours), ("ns3", ns3))
            }
    return by_case


def shipped(pairs: Mapping[str, list[Pair]]) -> dict[str, dict[str, float]]:
    """Return the figures of ns-3 with its mistakes."""
    totals = {}
    for name, of_case in pairs.items():
        outcomes = [pair.shipped for pair in of_case if pair.shipped]
        if not outcomes:
            continue
        totals[name] = {what: _sum(outcomes, what) for what in ("timeouts", "marked", "dropped")}
        if not np.isnan(times_us(outcomes)).all():
            totals[name]["FCT mean"] = float(np.nanmean(times_us(outcomes)))
    return totals
