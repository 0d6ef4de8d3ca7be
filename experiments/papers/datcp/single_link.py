# SPDX-License-Identifier: Apache-2.0
"""DATCP's flows on one link: weighted shares and importance, deadlines and quenching, and a fixed priority."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median
from typing import Any

import numpy as np

from experiments.kit.experiment import Claim, Given, spread
from experiments.kit.flows import ListedFlows, jain_index
from experiments.kit.runs import Results, Run
from experiments.papers.datcp import common

PAPER_BYTES = 100_000_000
FIG08_ABOUT = """\
Deadline-awareness: three flows of 100 MB and three endless ones; no deadline, 4 s, 3 s.

The testbed has 10 MB. There a fourth case has the paper's own size and ten times its 3 s. It lasts
as many round trips as at the paper's rate. In the other cases the urgency has a tenth of them to
settle."""

FAIR = 0.95
"""The least Jain's index that counts as "almost identical" shares."""
SETTLED_S = 1.0
"""Shares are compared from this time until the first flow with a size is done."""


@dataclass(frozen=True)
class Deadline:
    size_bytes: int
    deadline_s: float | None
    until_s: float
    resolution_s: float = 0.1
    """The tolerance. DATCP aims at the deadline, and the paper's figure, in steps of 0.1 s, shows
    no smaller delay."""

    @property
    def name(self) -> str:
        return "no deadline" if self.deadline_s is None else common.in_time(self.size_bytes, self.deadline_s)

    @property
    def flows(self) -> list[dict[str, Any]]:
        timed = [common.sized(self.size_bytes, "sized", self.deadline_s) for _ in range(3)]
        return timed + [common.endless(self.until_s) for _ in range(3)]


def deadlines(setup: common.Setup) -> list[Deadline]:
    """Return the paper's three deadlines, and a fourth if the rate is scaled down."""
    size_bytes, scale = setup.size_bytes(PAPER_BYTES), common.PAPER_MBPS / setup.link_mbps
    as_there = [Deadline(size_bytes, deadline_s, 7.0) for deadline_s in (None, 4.0, 3.0)]
    stretched = Deadline(PAPER_BYTES, 3.0 * scale, 3.3 * scale, resolution_s=0.1 * scale)
    return as_there if scale == 1 else [*as_there, stretched]


def fig08_cases(given: Given, seed: int) -> dict[str, common.Case]:
    return {deadline.name: common.Case(deadline.flows) for deadline in deadlines(common.setup_of(given))}


def _by_deadline(results: Results) -> list[tuple[Deadline, list[Run]]]:
    return [(case, results.runs.at(case.name)) for case in deadlines(common.setup_of(results.given))]


def fig08_claims(results: Results) -> list[Claim]:
    by_deadline = _by_deadline(results)
    meets = [_meets(case, runs) for case, runs in by_deadline if case.deadline_s is not None]
    return [*meets, *(_fair(case, runs) for case, runs in by_deadline)]


def _meets(case: Deadline, runs: Sequence[Run]) -> Claim:
    flows = [run.listed.flows[i] for run in runs for i in run.listed.labelled("sized")]
    times = [flow.fct_s for flow in flows if flow.fct_s is not None]
    met = sum(bool(flow.met) for flow in flows)
    measured = f"{spread(times)} s; {met} of {len(flows)} to the millisecond" if times else "none is done"
    latest_s = (case.deadline_s or 0.0) + case.resolution_s
    on_time = len(times) == len(flows) and max(times) <= latest_s
    what = f"{case.name}: flows meet it (within {case.resolution_s:g} s)"
    return Claim(what, "all", measured, on_time and _valid(runs))


def _fair(case: Deadline, runs: Sequence[Run]) -> Claim:
    """Claim equal shares: of all six flows without deadlines, otherwise of the three of each kind."""
    groups = [[_rates_mbps(case, run, label) for label in ("sized", "background")] for run in runs]
    if case.deadline_s is None:
        groups = [[[share for group in kinds for share in group]] for kinds in groups]
    indices = [jain_index(group) for kinds in groups for group in kinds]
    what = f"{case.name}: flows of one urgency get one share (Jain's index)"
    return Claim(what, "almost identical", spread(indices), min(indices) >= FAIR and _valid(runs))


def _valid(runs: Sequence[Run]) -> bool:
    return all(run.valid for run in runs)


def _rates_mbps(case: Deadline, run: Run, label: str) -> list[float]:
    """Return the mean throughput of a label's flows while all six are active, in Mb/s."""
    listed = run.listed
    first_end = min(listed.flows[i].end_s or case.until_s for i in listed.labelled("sized"))
    return [listed.mean_rate_mbps(i, SETTLED_S, first_end) for i in listed.labelled(label)]


FIG08 = common.experiment(
    8,
    "DATCP flows meet their deadlines, and flows of one urgency get one share.",
    minutes=6,
    about=FIG08_ABOUT,
    cases=fig08_cases,
    claims=fig08_claims,
    draw=common.throughputs(),
)


FIG11_PAPER_BYTES = 200_000_000
DEADLINE_S = 6.0
FLOWS = 4
VARIANTS = {"never": "without quenching", "kill": "with quenching"}
EXPECTED = {"never": 0, "kill": FLOWS - 1}
"""Variant → the expected number of flows that meet the deadline."""
EXPLANATIONS = {
    "never": "urgencies rise together without end, and shares differ by chance: a flow may get so far ahead that it "
    "needs no more than it gets",
    "kill": "flows that start together may be quenched together, before they notice the share that the first one freed",
}
"""Why a run may differ from the expectation."""


def fig11_cases(given: Given, seed: int) -> dict[str, common.Case]:
    size_bytes = common.setup_of(given).size_bytes(FIG11_PAPER_BYTES)
    label = common.in_time(size_bytes, DEADLINE_S)
    return {q: common.Case([common.sized(size_bytes, label, DEADLINE_S, quench=q)] * FLOWS) for q in VARIANTS}


def fig11_claims(results: Results) -> list[Claim]:
    verdict = []
    for quench, title in VARIANTS.items():
        counts = [_met(run) for run in results.runs.at(quench)]
        holds = median(counts) == EXPECTED[quench] and results.runs.valid(quench)
        measured = f"{median(counts):g} ({', '.join(map(str, counts))})"
        what = f"{title}: flows of {FLOWS} that meet 6 s, median (runs)"
        verdict.append(Claim(what, str(EXPECTED[quench]), measured, holds, EXPLANATIONS[quench]))
    return verdict


def _met(run: Run) -> int:
    return sum(bool(flow.met) for flow in run.listed.flows)


FIG11 = common.experiment(
    11,
    "Of four flows that cannot all meet their deadline, quenching one lets three meet it.",
    minutes=4,
    about="Quenching: four flows of 200 MB with a deadline of 6 s are more than the link can carry.",
    seeds=(1, 2, 3, 4, 5),
    cases=fig11_cases,
    claims=fig11_claims,
    draw=common.throughputs(VARIANTS),
)


PRIORITY, FIG12_LABEL = 3, "priority 3"
UNTIL_S = 7.0
BACKGROUNDS = (3, 6)
VARIES = 1.1
"""Completion times vary if their ratio is at least this."""


def fig12_cases(given: Given, seed: int) -> dict[str, common.Case]:
    size_bytes = common.setup_of(given).size_bytes(PAPER_BYTES)
    timed = [
        common.sized(size_bytes, FIG12_LABEL, importance=PRIORITY, importance_share=1.0) for _ in range(3)
    ]
    return {
        f"background-{n}": common.Case([*timed, *(common.endless(UNTIL_S) for _ in range(n))])
        for n in BACKGROUNDS
    }


def _times_s(run: Run) -> list[float]:
    return [fct_s for fct_s in run.listed.fct_s(FIG12_LABEL) if fct_s is not None]


def fig12_claims(results: Results) -> list[Claim]:
    few, many = (
        [time_s for run in results.runs.at(f"background-{count}") for time_s in _times_s(run)]
        for count in BACKGROUNDS
    )
    holds = median(many) >= VARIES * median(few) and results.runs.valid()
    measured = f"{spread(few)} s, {spread(many)} s"
    return [Claim("completion time with 3, 6 background flows", "varies", measured, holds)]


FIG12 = common.experiment(
    12,
    "A fixed priority meets no deadline: the completion time varies with the other flows.",
    minutes=2,
    about="A priority is no deadline: three flows of fixed precedence 3, with three and with six endless flows.",
    cases=fig12_cases,
    claims=fig12_claims,
    draw=common.throughputs(
        {f"background-{count}": f"{count} background flows" for count in BACKGROUNDS},
        colours={**common.COLOURS, FIG12_LABEL: common.OTHER},
    ),
)


FIG09_ABOUT = """\
Convergence: three endless flows, then three with deadlines (100 MB in 4 s) one second apart.

A flow's weighted share is its precedence over the sum of all precedences, times the link's payload
rate. The precedence swings around the flow's need within some tenths of a second, so its mean over
a second counts."""

FIG09_LABEL = "deadline 4 s"
FIG09_DEADLINE_S, STARTS_S, FIG09_UNTIL_S = 4.0, (1.0, 2.0, 3.0), 9.0
NEAR, OVER_S = 0.25, 0.3
"""A flow has its rate if it is within this part of it, over this time."""
QUICK_S = 1.0
"""The longest time that counts as "quickly"."""
DEVIATION = 0.25
"""The greatest mean distance from the weighted shares, as a part of a share."""
STEP_S, MEAN_S = 0.1, 1.0
"""Precedences are averaged over MEAN_S, half before and half after the time in question."""


def fig09_cases(given: Given, seed: int) -> dict[str, common.Case]:
    size_bytes = common.setup_of(given).size_bytes(PAPER_BYTES)
    timed = [common.sized(size_bytes, FIG09_LABEL, FIG09_DEADLINE_S, start_s=start_s) for start_s in STARTS_S]
    return {"convergence": common.Case([*(common.endless(FIG09_UNTIL_S) for _ in range(3)), *timed])}


def fig09_claims(results: Results) -> list[Claim]:
    settlings = [
        _settling_s(run.listed, i) for run in results.runs.runs for i in run.listed.labelled(FIG09_LABEL)
    ]
    goodput_mbps = common.setup_of(results.given).goodput_mbps
    deviations = [_deviation(run.listed, goodput_mbps) for run in results.runs.runs]
    valid = results.runs.valid()
    return [
        Claim(
            f"a new flow reaches the rate that it keeps (within {NEAR:.0%}), after seconds",
            "quickly",
            spread(settlings),
            max(settlings) <= QUICK_S and valid,
        ),
        Claim(
            f"mean distance from the weighted shares over {OVER_S:g} s, as part of them",
            "converge to them",
            spread(deviations),
            median(deviations) <= DEVIATION and valid,
        ),
    ]


def _settling_s(run: ListedFlows, index: int) -> float:
    """Return the time from the start of a flow to the end of the first OVER_S with the rate that it keeps."""
    start_s = run.flows[index].start_s
    kept = run.mean_rate_mbps(index, start_s + QUICK_S / 2, start_s + QUICK_S)
    for at_s in np.arange(start_s + OVER_S, start_s + QUICK_S, STEP_S):
        if abs(run.mean_rate_mbps(index, at_s - OVER_S, at_s) - kept) <= NEAR * kept:
            return float(at_s - start_s)
    return FIG09_UNTIL_S


def _deviation(run: ListedFlows, goodput_mbps: float) -> float:
    """Return the mean distance from the weighted share, as a part of it, while six flows run."""
    begin_s, end_s = STARTS_S[-1] + QUICK_S, min(flow.end_s or FIG09_UNTIL_S for flow in run.flows)
    distances = []
    for at_s in np.arange(begin_s, end_s - OVER_S, OVER_S):
        for index, share in _shares(run, at_s + OVER_S / 2, goodput_mbps).items():
            distances.append(abs(run.mean_rate_mbps(index, at_s, at_s + OVER_S) - share) / share)
    return float(np.mean(distances))


def _shares(run: ListedFlows, at_s: float, goodput_mbps: float) -> dict[int, float]:
    """Return the weighted share of every active flow at a time, in Mb/s."""
    precedences = {}
    for index, flow in enumerate(run.flows):
        if flow.start_s <= at_s < (flow.end_s or np.inf):
            times, values = run.column(index, "precedence")
            near = np.abs(times - at_s) <= max(MEAN_S / 2, np.abs(times - at_s).min())
            precedences[index] = max(float(values[near].mean()), 1e-3)
    total = sum(precedences.values())
    return {index: goodput_mbps * value / total for index, value in precedences.items()}


FIG09 = common.experiment(
    9,
    "New DATCP flows converge to their weighted shares within a second.",
    minutes=1,
    about=FIG09_ABOUT,
    cases=fig09_cases,
    claims=fig09_claims,
    draw=common.throughputs({"convergence": ""}),
)


FIG10_ABOUT = """\
Importance and urgency: one of three endless flows has importance 1, 2, 3.

Half of every flow's precedence is its importance."""

FIG10_DEADLINE_S, FIG10_UNTIL_S = 4.0, 7.0
IMPORTANCES = (1, 2, 3)
IMPORTANCE_SHARE = 0.5


def fig10_cases(given: Given, seed: int) -> dict[str, common.Case]:
    plain: dict[str, Any] = {"importance": 1, "importance_share": IMPORTANCE_SHARE}
    size_bytes = common.setup_of(given).size_bytes(PAPER_BYTES)
    label = common.in_time(size_bytes, FIG10_DEADLINE_S)
    others = [common.sized(size_bytes, label, FIG10_DEADLINE_S, **plain) for _ in range(3)]
    others += [common.endless(FIG10_UNTIL_S, **plain) for _ in range(2)]
    return {
        f"importance-{importance}": common.Case(
            [*others, common.endless(FIG10_UNTIL_S, "important", **plain | {"importance": importance})]
        )
        for importance in IMPORTANCES
    }


def gain(run: ListedFlows) -> float:
    """Return the important flow's throughput over the other endless flows', after the start-up."""
    important, others = (
        mean(run.mean_rate_mbps(i, SETTLED_S, FIG10_UNTIL_S) for i in run.labelled(label))
        for label in ("important", "background")
    )
    return important / others


def fig10_claims(results: Results) -> list[Claim]:
    gains = {
        importance: [gain(run.listed) for run in results.runs.at(f"importance-{importance}")]
        for importance in IMPORTANCES
    }
    valid = results.runs.valid()
    rising = all(median(gains[b]) > median(gains[a]) for a, b in pairwise(IMPORTANCES))
    shares = ", ".join(f"{median(values):.2f}" for values in gains.values())
    what = "importance 1, 2, 3: share over the other endless flows' rises"
    verdict = [Claim(what, "more share", shares, rising and valid)]
    for importance, values in gains.items():
        expected = IMPORTANCE_SHARE * importance + (1 - IMPORTANCE_SHARE)  # the others' precedence is 1
        holds = abs(median(values) - expected) <= 0.25 * expected and valid
        what = f"importance {importance}: share over the others' is the precedence (within 25 %)"
        verdict.append(Claim(what, f"{expected:g}, by equation (2)", spread(values), holds))
    return verdict


FIG10 = common.experiment(
    10,
    "A more important DATCP flow gets a larger share of the link, also if other flows have deadlines.",
    minutes=3,
    about=FIG10_ABOUT,
    cases=fig10_cases,
    claims=fig10_claims,
    draw=common.throughputs(
        {f"importance-{i}": f"importance {i}" for i in IMPORTANCES},
        colours={**common.COLOURS, "important": common.OTHER},
    ),
)
