# SPDX-License-Identifier: Apache-2.0
"""PDQ beside D³, DCTCP and TCP under the patterns of its paper, with and without deadlines.

In each round all flows start at once, and every scheme has the same flows. The optimum is that of the receivers' links
alone: the most deadlines that any order meets (Moore, Management Science 1968), or the shortest first.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.kit.draw import curve, grid, legend_below, line_of
from experiments.kit.experiment import Claim, Experiment, Given
from experiments.kit.flows import Column, read_flow_columns
from experiments.kit.runners import Planned, ShortRuns, named
from experiments.kit.runs import Results, difference, noted, with_interval
from sluice.policy.units import WIRE_PER_PAYLOAD
from sluice.policy.workload.random_flows import Hosts, derangement
from sluice.runs.files import read_document

SCENARIO = Path(__file__).with_name("pdq.toml")
SCHEMES = ("pdq", "d3", "dctcp", "tcp")
HOSTS, RACK, RATE_BPS = 12, 3, 1e9  # RACK: hosts of one
ROUNDS, ROUND_US = 20, 200_000
LEAST_BYTES, MOST_BYTES = 2_000, 198_000
LEAST_DEADLINE_US = 3_000
COUNTS = (1, 2, 3, 5, 7, 10, 15, 20, 25)
"""Flows of a round for each receiver."""
TIMED, PLAIN = "deadlines of 20 ms", "no deadlines"
KINDS: Mapping[str, int] = {TIMED: 20, "deadlines of 40 ms": 40, PLAIN: 0}
"""The mean of the deadlines in ms."""
PATTERNS = ("aggregation", "stride 1", "stride 6", "staggered 0.7", "staggered 0.3", "permutation")
ALL_TO_ONE, *OTHERS = PATTERNS
FCT_COUNT = 7
PATTERN_COUNTS: Mapping[str, Sequence[int]] = {TIMED: COUNTS[:6], PLAIN: (FCT_COUNT,)}
"""Of the patterns in which every host receives."""
MET, BEST, FCT = "deadlines met (%)", "most deadlines that can be met (%)", "mean FCT over the optimum"
BySeed = Mapping[str, Sequence[float]]
"""Scheme → the values of the seeds."""
NEAR, SAVED, NOISE = 1.3, 0.75, 1.0
"""Mean FCTs that count as near the optimum, and as about 30 % lower; percentage points that count as equal."""


def pairs_of(pattern: str, count: int, rng: np.random.Generator) -> tuple[Hosts, Hosts]:
    """Return senders and receivers of a round, from 0. The senders have equally many flows, or one more."""
    name, _, value = pattern.partition(" ")
    if pattern == ALL_TO_ONE:
        return np.resize(rng.permutation(np.arange(1, HOSTS)), count), np.zeros(count, int)
    senders = np.tile(np.arange(HOSTS), count)
    if name == "permutation":
        return senders, derangement(HOSTS, rng)[senders]
    if name == "stride":
        return senders, (senders + int(value)) % HOSTS
    rack, flows = senders // RACK * RACK, len(senders)
    inside = rack + (senders + rng.integers(1, RACK, flows)) % RACK
    outside = (rack + rng.integers(RACK, HOSTS, flows)) % HOSTS
    return senders, np.where(rng.random(flows) < float(value), inside, outside)


def flows_of(seed: int, count: int, mean_ms: int, pattern: str) -> list[dict[str, Any]]:
    """Return the [[workload.flow]] tables."""
    rng = np.random.default_rng((seed, count, mean_ms))
    tables = []
    for number in range(ROUNDS):
        for sender, receiver in zip(*pairs_of(pattern, count, rng), strict=True):
            size = rng.integers(LEAST_BYTES, MOST_BYTES, endpoint=True)
            start = {"start": f"{number * ROUND_US}us", "bytes": f"{size}B", "size_known": True}
            if mean_ms:
                deadline_us = max(LEAST_DEADLINE_US, round(rng.exponential(mean_ms * 1000)))
                start |= {"deadline": f"{deadline_us}us", "quench": "kill"}
            tables.append({"from": f"h{sender + 1}", "to": f"h{receiver + 1}", **start})
    return tables


def plan(given: Given) -> Mapping[str, Planned]:
    document = read_document(SCENARIO)
    own = document.pop("sweep")["scheme"]
    counts = {(ALL_TO_ONE, kind): COUNTS for kind in KINDS} | {
        (pattern, kind): some for pattern in OTHERS for kind, some in PATTERN_COUNTS.items()
    }
    planned = {}
    for (pattern, kind), every in counts.items():
        for count in every[:: 2 if given.quick else 1]:
            points = [
                named(
                    document,
                    scheme,
                    seed,
                    scheme={"name": scheme, **own[scheme]},
                    workload={"flow": flows_of(seed, count, KINDS[kind], pattern), "vary": False},
                )
                for scheme in SCHEMES
                for seed in given.seeds
            ]
            group = f"{pattern}, {kind}, {count} flows"
            planned[group] = Planned(given.out / group.replace(",", "").replace(" ", "-"), points)
    return planned


def columns(bundle: Path) -> dict[str, float]:
    """The percentage of deadlines met, and of those that one could meet; or the mean FCT over the optimum."""
    flows = read_flow_columns(bundle)
    wire_us = flows.bytes * WIRE_PER_PAYLOAD * 8e6 / RATE_BPS
    way_us = np.min(flows.ideal_us - wire_us)
    pairs = product(np.unique(flows.started_s), np.unique(flows.dst))
    rounds = [(flows.started_s == start_s) & (flows.dst == to) for start_s, to in pairs]
    if np.isnan(flows.deadline_us).all():
        best_us = [np.cumsum(np.sort(wire_us[each])) + way_us for each in rounds]
        return {FCT: float(np.mean(flows.need_finished().fct_us) / np.mean(np.concatenate(best_us)))}
    most = sum(most_in_time(wire_us[each], flows.deadline_us[each] - way_us) for each in rounds)
    return {MET: 100 * float(np.mean(flows.fct_us <= flows.deadline_us)), BEST: 100 * most / len(flows)}


def most_in_time(times: Column, due: Column) -> int:
    """Return how many jobs one machine can end in time."""
    chosen: list[float] = []
    for i in np.argsort(due):
        chosen.append(float(times[i]))
        if sum(chosen) > due[i]:
            chosen.remove(max(chosen))
    return len(chosen)


def by_count(
    results: Results, kind: str, column: str, scheme: str, pattern: str = ALL_TO_ONE
) -> dict[int, list[float]]:
    """Return flows of a round → the values of the seeds."""
    groups = {count: results.groups.get(f"{pattern}, {kind}, {count} flows") for count in COUNTS}
    return {count: runs.values(column, scheme) for count, runs in groups.items() if runs}


def most_flows(met: Mapping[int, list[float]]) -> list[float]:
    """Return at how many flows of a round 99 % of the deadlines are met, seed by seed."""
    return [_where_99(dict(zip(met, values, strict=True))) for values in zip(*met.values(), strict=True)]


def _where_99(met: Mapping[int, float]) -> float:
    """Return the number of flows at 99 %, on a line between the measured numbers."""
    points = [(0, 100.0), *met.items()]
    for (low, above), (high, below) in pairwise(points):
        if below < 99:
            return low + (high - low) * (above - 99) / (above - below)
    return points[-1][0]


def claims(results: Results) -> list[Claim]:
    verdict = []
    for kind, mean_ms in KINDS.items():
        found = {scheme: by_count(results, kind, MET if mean_ms else FCT, scheme) for scheme in SCHEMES}
        means = {scheme: [fmean(values) for values in of.values()] for scheme, of in found.items()}
        for scheme in SCHEMES:
            verdict.append(noted(f"{kind}: {scheme}", ", ".join(f"{value:.3g}" for value in means[scheme])))
        if mean_ms:
            ours, theirs = (most_flows(found[scheme]) for scheme in ("pdq", "d3"))
            what = f"{kind}: flows at which 99 % are met; under D³"
            shown = f"{with_interval(ours)}; {with_interval(theirs)}"
            verdict.append(Claim(what, "3 times at most", shown, fmean(ours) > fmean(theirs)))
            worst = min(
                a - b for other in SCHEMES[1:] for a, b in zip(means["pdq"], means[other], strict=True)
            )
            what = f"{kind}: points that PDQ is ahead of the best of the others, at least"
            verdict.append(Claim(what, "never behind", f"{worst:+.1f}", worst >= -NOISE))
        else:
            worst = max(means["pdq"])
            verdict.append(
                Claim("PDQ's mean FCT over the optimum, at most", "near 1", f"{worst:.2f}", worst <= NEAR)
            )
            for scheme in SCHEMES[1:]:
                ratio = means["pdq"][-1] / means[scheme][-1]
                what = f"most flows: PDQ's mean FCT over that of {scheme}"
                verdict.append(Claim(what, "about 0.7", f"{ratio:.2f}", ratio <= SAVED))
    return verdict + [claim for pattern in OTHERS for claim in claims_of(results, pattern)]


def claims_of(results: Results, pattern: str) -> Iterator[Claim]:
    """Yield whether PDQ is ahead of the others under a pattern."""
    met, fct = of_pattern(results, pattern)
    for what, paper, values, best in (
        ("flows for each receiver at which 99 % are met", "most", met, max),
        ("mean FCT over the optimum", "lowest", fct, min),
    ):
        shown = ", ".join(f"{scheme} {with_interval(of_seeds)}" for scheme, of_seeds in values.items())
        holds = best(SCHEMES, key=lambda scheme: fmean(values[scheme])) == "pdq"
        yield Claim(f"{pattern}: {what}", f"{paper} under PDQ", shown, holds)


def of_pattern(results: Results, pattern: str) -> tuple[BySeed, BySeed]:
    """Return by scheme: at how many flows 99 % of the deadlines are met; the mean FCT over the optimum."""
    met, fct = {}, {}
    for scheme in SCHEMES:
        met[scheme] = most_flows(by_count(results, TIMED, MET, scheme, pattern))
        fct[scheme] = by_count(results, PLAIN, FCT, scheme, pattern)[FCT_COUNT]
    return met, fct


def draw(results: Results) -> Figure:
    figure, [panels, below] = grid(2, len(KINDS), width=3.6)
    below.pop().set_axis_off()
    met, fct = zip(*(of_pattern(results, pattern) for pattern in PATTERNS), strict=True)
    draw_patterns(below[0], "flows at which 99 % are met, over those of PDQ", met)
    draw_patterns(below[1], f"mean FCT over that of PDQ, {FCT_COUNT} flows each", fct)
    for panel, (kind, mean_ms) in zip(panels, KINDS.items(), strict=True):
        column = MET if mean_ms else FCT
        for marker, scheme in zip("os^v", SCHEMES, strict=True):
            found = by_count(results, kind, column, scheme)
            curve(panel, list(found), list(found.values()), line_of(scheme), marker=marker)
        if mean_ms:
            best = by_count(results, kind, BEST, "pdq")
            panel.plot(
                list(best), [fmean(values) for values in best.values()], "--", color="0.4", label="optimum"
            )
        panel.set(xlabel="flows of a round", ylabel=column)
        panel.set_title(kind, fontsize="medium")
    legend_below(figure, panels[0])
    return figure


def draw_patterns(panel: Axes, title: str, values: Sequence[BySeed]) -> None:
    """Draw a bar for each scheme at each pattern: its mean over PDQ's, with its 95 % interval if there are seeds."""
    places = np.arange(len(PATTERNS))
    for i, scheme in enumerate(SCHEMES):
        changes = [difference(of[scheme], of["pdq"]) for of in values]
        heights = [1 + change.mean for change in changes]
        half = [change.high - change.mean for change in changes]
        error = half if np.isfinite(half).all() else None
        colour = line_of(scheme).colour
        panel.bar(places + 0.2 * (i - 1.5), heights, 0.2, yerr=error, capsize=2, color=colour)
    panel.set_ylim(0, None)
    panel.set_xticks(places, PATTERNS, rotation=30, ha="right", fontsize="small")
    panel.set_title(title, fontsize="medium")


EXPERIMENT = Experiment(
    claim="PDQ meets more deadlines than D³ and has a lower mean FCT, near the optimum under aggregation.",
    figure="Hong et al., SIGCOMM 2012, Fig. 3 and 4",
    minutes=10,
    runner=ShortRuns(plan, columns=columns),
    seeds=(1, 2, 3),
    quick={"seeds": (1,)},
    claims=claims,
    draw=draw,
)
