# SPDX-License-Identifier: Apache-2.0
"""Scheme sluice while the workload changes within a run: web search, data mining, cache followers, and web search.

Each port of sluice computes its thresholds while packets flow. It is compared with sluice under thresholds that are
fixed to the optimum of one workload, and with PIAS under the thresholds of one workload. In each phase, one of these
has the right thresholds and the others have wrong ones. All runs have the same flows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from experiments.kit.draw import Line, grid, legend_below, line_of
from experiments.kit.experiment import Claim, Experiment, Given, markdown_table, option
from experiments.kit.runners import Planned, Sweep, axes, one_group
from experiments.kit.runs import Results, Run, all_finished, median_at_most, noted
from experiments.papers.sluice.traffic import pias_thresholds
from sluice.commands.arguments import seconds
from sluice.policy.schema.desired import Policy
from sluice.policy.thresholds.static import optimal_thresholds
from sluice.policy.workload.flows import Workload
from sluice.policy.workload.random_flows import arrival_rate_per_s
from sluice.policy.workload.scenario import scenario_from_document
from sluice.runs.files import load_cdf, read_document
from sluice.topologies import build_topology

SCENARIO = Path(__file__).with_name("shift.toml")
PHASES = ("web-search", "data-mining", "cache-follower", "web-search")
WORKLOADS = tuple(dict.fromkeys(PHASES))
LOAD = 0.8
SETTLES_AFTER = 3
"""Windows after a shift in which the thresholds may still be wrong."""
WITHIN, OVER_WRONG = 1.05, 0.75
RIGHT = {scheme: {i: f"{scheme}-{name}" for i, name in enumerate(PHASES)} for scheme in ("sluice", "pias")}
"""Scheme → the variant with the right thresholds of each phase."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Phased:
    """The flows of a run in the order of the schedule, with the phase of each."""

    phase: npt.NDArray[np.int64]
    since_s: Floats
    """Seconds from the begin of the phase to the start of the flow."""
    fct_s: Floats
    slowdown: Floats


def flows_of_phases(phase_s: float) -> list[int]:
    """The number of flows that start in each phase on average."""
    document = read_document(SCENARIO)
    scenario = scenario_from_document(document, load_cdf)
    assert isinstance(scenario.workload, Workload)
    topology = build_topology(scenario)
    rates = [arrival_rate_per_s(scenario.workload, topology, load_cdf(name)) for name in PHASES]
    return [round(rate * phase_s) for rate in rates]


def document_of(phase_s: float) -> dict[str, Any]:
    """The scenario with a shift at the begin of each phase but the first."""
    document, counts = read_document(SCENARIO), flows_of_phases(phase_s)
    total, starts = sum(counts), list(accumulate(counts))[:-1]
    shifts = [
        {"at": (start - 0.5) / total, "sizes": name}  # so that the fraction of the flows rounds up to `start`
        for start, name in zip(starts, PHASES[1:], strict=True)
    ]
    document["workload"] |= {"sizes": PHASES[0], "flows": total, "shift": shifts}
    return document


def variants() -> dict[str, dict[str, Any]]:
    """Sluice that adapts, sluice under fixed thresholds, and PIAS."""
    schemes: dict[str, dict[str, Any]] = {"sluice": {}}
    scheme = read_document(SCENARIO)["scheme"]
    policy = Policy.from_document({"scheme": scheme["name"], "mark_at": scheme["mark_at"]})
    freeze = [{"ports": ["*"], "freeze": True}]
    for name in WORKLOADS:
        best = optimal_thresholds(
            load_cdf(name), LOAD, policy.queues, least_bytes=policy.least_threshold or 0
        )
        schemes[f"sluice-{name}"] = {"name": "sluice", "thresholds": list(best), "overrides": freeze}
    pias = read_document(Path(__file__).with_name("fabric.toml"))["sweep"]["scheme"]["pias"]
    own = {key: pias[key] for key in ("mark_at", "buffer", "transport", "simulator")}
    for name in WORKLOADS:
        schemes[f"pias-{name}"] = {"name": "pias", **own, "thresholds": list(pias_thresholds(name, LOAD))}
    return schemes


def plan(given: Given) -> Mapping[str, Planned]:
    return one_group(given, axes(given, document_of(given["phase"]), variants=variants()))


def phased(run: Run, phase_s: float) -> Phased:
    """Read a run's flows."""
    flows = run.flows().by_number
    begins = np.asarray([0, *accumulate(flows_of_phases(phase_s))][:-1])
    phase = np.searchsorted(begins, np.arange(len(flows)), side="right") - 1
    since_s = flows.started_s - flows.started_s[begins][phase]
    return Phased(phase, since_s, flows.fct_us / 1e6, flows.slowdown)


@dataclass(frozen=True)
class Seed:
    """The runs of one seed, by variant."""

    runs: Mapping[str, Phased]

    def ratio(self, ours: str, theirs: Mapping[int, str], after_s: float = 0.0) -> dict[int, float]:
        """By phase: mean FCT of `ours` over that of the variant in `theirs`, flows that start after `after_s`."""
        return {
            phase: self.mean(ours, phase, after_s) / self.mean(other, phase, after_s)
            for phase, other in theirs.items()
        }

    def mean(self, variant: str, phase: int, after_s: float = 0.0, until_s: float = np.inf) -> float:
        """Mean FCT in seconds of the flows that start between two times of a phase."""
        run = self.runs[variant]
        chosen = (run.phase == phase) & (run.since_s >= after_s) & (run.since_s < until_s)
        return float(run.fct_s[chosen].mean()) if chosen.any() else np.nan

    def whole(self, variant: str) -> float:
        """Mean FCT over all flows."""
        return float(self.runs[variant].fct_s.mean())

    def right(self, scheme: str) -> float:
        """Mean FCT over all flows if each phase had its right thresholds."""
        phases = [
            self.runs[variant].fct_s[self.runs[variant].phase == i] for i, variant in RIGHT[scheme].items()
        ]
        return float(np.concatenate(phases).mean())

    def least(self, scheme: str) -> float:
        """Mean FCT over all flows if each phase had the fixed thresholds of least mean FCT in it."""
        fixed = [self.runs[f"{scheme}-{name}"] for name in WORKLOADS]
        sums = [
            min(float(run.fct_s[run.phase == phase].sum()) for run in fixed) for phase in range(len(PHASES))
        ]
        return sum(sums) / len(fixed[0].fct_s)


def seeds_of(results: Results) -> list[Seed]:
    phase_s = results.given["phase"]
    by_seed: dict[int, dict[str, Phased]] = {}
    for run in results.runs.runs:
        by_seed.setdefault(run.seed, {})[run.variant] = phased(run, phase_s)
    return [Seed(by_seed[seed]) for seed in sorted(by_seed)]


def window_s() -> float:
    return Policy.from_document({"scheme": "sluice"}).window_ms / 1e3


def claims(results: Results) -> list[Claim]:
    seeds = seeds_of(results)
    after_s = SETTLES_AFTER * window_s()
    settled = [seed.ratio("sluice", RIGHT["sluice"], after_s) for seed in seeds]
    verdict = []
    for i, name in enumerate(PHASES[1:], start=1):
        what = f"{name} (phase {i + 1}), after {SETTLES_AFTER} windows: mean FCT over the best thresholds'"
        verdict.append(median_at_most(what, [ratios[i] for ratios in settled], WITHIN))
    for name in WORKLOADS:
        ratios = [seed.whole("sluice") / seed.whole(f"pias-{name}") for seed in seeds]
        against_right = median(seed.whole(f"pias-{name}") / seed.right("pias") for seed in seeds)
        best = median(seed.least("sluice") / seed.whole(f"pias-{name}") for seed in seeds)
        why = (
            f"over the run, PIAS has {against_right:.2f} of its mean under the right thresholds of each phase; with "
            f"the best fixed thresholds of each phase, sluice would have {best:.2f}"
        )
        what = f"whole run, over PIAS with the thresholds of {name}"
        verdict.append(median_at_most(what, ratios, OVER_WRONG, why))
    right = [seed.ratio("sluice", RIGHT["pias"]) for seed in seeds]
    shown = ", ".join(f"{median(r[i] for r in right):.2f}" for i in range(len(PHASES)))
    return [
        *verdict,
        noted("each phase, over PIAS with the right thresholds", shown),
        all_finished(results.runs),
    ]


def numbers(results: Results) -> dict[str, Any]:
    """Mean FCT in milliseconds and mean slowdown of each phase, one value for each seed."""
    seeds = seeds_of(results)
    return {
        variant: {
            "all, ms": [1e3 * seed.whole(variant) for seed in seeds],
            "by phase, ms": [[1e3 * seed.mean(variant, i) for i in range(len(PHASES))] for seed in seeds],
            "slowdown by phase": [
                [float(run.slowdown[run.phase == i].mean()) for i in range(len(PHASES))]
                for run in (seed.runs[variant] for seed in seeds)
            ],
        }
        for variant in results.runs.variants
    }


def table(results: Results) -> str:
    """Medians over the seeds."""
    rows = []
    for variant, values in numbers(results).items():
        phases = [median(seed[i] for seed in values["by phase, ms"]) for i in range(len(PHASES))]
        rows.append((variant, *(f"{value:.3g}" for value in (median(values["all, ms"]), *phases))))
    heads = (f"{name} (phase {i + 1}), ms" for i, name in enumerate(PHASES))
    return markdown_table(("variant", "whole run, ms", *heads), rows) + "\n"


def draw(results: Results) -> Figure:
    """Mean FCT by window of time, over that under the best thresholds of the phase."""
    figure, [[panel]] = grid(1, 1, width=7.5, height=3.6)
    phase_s, step_s, seeds = results.given["phase"], window_s(), seeds_of(results)
    styles = dict(zip(WORKLOADS, ("-", "--", ":"), strict=True))
    lines = {"sluice": line_of("sluice")} | {
        f"pias-{name}": Line(f"PIAS, {name}", line_of("pias").colour, style) for name, style in styles.items()
    }
    for variant, line in lines.items():
        for phase in range(len(PHASES)):
            places, values = _over_best(seeds, variant, phase, phase_s, step_s)
            panel.plot(places, values, line.style, color=line.colour, label="" if phase else line.title)
    for phase in range(1, len(PHASES)):
        panel.axvline(phase * phase_s, color="0.6", linewidth=0.8)
    panel.set(xlabel="time (s)", ylabel="FCT over best thresholds")
    panel.set_title(" → ".join(PHASES), fontsize="medium")
    legend_below(figure, panel)
    return figure


def _over_best(
    seeds: list[Seed], variant: str, phase: int, phase_s: float, step_s: float
) -> tuple[list[float], list[float]]:
    """Middles of the windows of a phase, and the median ratio of the seeds in each."""
    starts = np.arange(0, phase_s - step_s / 2, step_s)
    ratios = [
        median(
            seed.mean(variant, phase, start, start + step_s)
            / seed.mean(RIGHT["sluice"][phase], phase, start, start + step_s)
            for seed in seeds
        )
        for start in starts
    ]
    return [float(phase * phase_s + start + step_s / 2) for start in starts], ratios


EXPERIMENT = Experiment(
    claim="Sluice's thresholds follow a change of the workload within three windows.",
    minutes=20,
    runner=Sweep(plan),
    seeds=(1,),
    options=(option("--phase", "length of a phase", type=seconds, default=3.0, metavar="SECONDS"),),
    quick={"phase": 0.5},
    claims=claims,
    numbers=numbers,
    table=table,
    draw=draw,
)
