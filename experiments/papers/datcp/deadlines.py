# SPDX-License-Identifier: Apache-2.0
"""DATCP's flows with deadlines on one link: their shares, quenching, and a fixed priority, which is no deadline."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from experiments.kit.experiment import Claim, Given, spread
from experiments.kit.flows import jain_index
from experiments.kit.runs import Results, Run
from experiments.papers.datcp import common

FIG08_ABOUT = """\
Deadline-awareness: three flows of 100 MB and three endless ones; no deadline, 4 s, 3 s.

The testbed has 10 MB. There a fourth case has the paper's own size and ten times its 3 s. It lasts
as many round trips as at the paper's rate. In the other cases the urgency has a tenth of them to
settle."""

FIG08_PAPER_BYTES = 100_000_000
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
    size_bytes, scale = setup.size_bytes(FIG08_PAPER_BYTES), common.PAPER_MBPS / setup.link_mbps
    as_there = [Deadline(size_bytes, deadline_s, 7.0) for deadline_s in (None, 4.0, 3.0)]
    stretched = Deadline(FIG08_PAPER_BYTES, 3.0 * scale, 3.3 * scale, resolution_s=0.1 * scale)
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
    groups = [[_shares(case, run, label) for label in ("sized", "background")] for run in runs]
    if case.deadline_s is None:
        groups = [[[share for group in kinds for share in group]] for kinds in groups]
    indices = [jain_index(group) for kinds in groups for group in kinds]
    what = f"{case.name}: flows of one urgency get one share (Jain's index)"
    return Claim(what, "almost identical", spread(indices), min(indices) >= FAIR and _valid(runs))


def _valid(runs: Sequence[Run]) -> bool:
    return all(run.valid for run in runs)


def _shares(case: Deadline, run: Run, label: str) -> list[float]:
    """Return the mean throughput of a label's flows while all six are active, in Mb/s."""
    listed = run.listed
    first_end = min(listed.flows[i].end_s or case.until_s for i in listed.labelled("sized"))
    return [listed.mean_rate_mbps(i, SETTLED_S, first_end) for i in listed.labelled(label)]


def fig08_numbers(results: Results) -> dict[str, Any]:
    return {case.name: common.per_run(runs, partial(_figures, case)) for case, runs in _by_deadline(results)}


def _figures(case: Deadline, run: Run) -> dict[str, Any]:
    return {
        "fct_s": run.listed.fct_s("sized"),
        "share_mbps": _shares(case, run, "sized"),
        "background_share_mbps": _shares(case, run, "background"),
    }


FIG08 = common.experiment(
    8,
    "DATCP flows meet their deadlines, and flows of one urgency get one share.",
    minutes=6,
    about=FIG08_ABOUT,
    cases=fig08_cases,
    claims=fig08_claims,
    numbers=fig08_numbers,
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


def fig11_numbers(results: Results) -> dict[str, Any]:
    return {
        quench: common.per_run(
            results.runs.at(quench),
            lambda run: {"met": _met(run), "flows": [str(flow) for flow in run.listed.flows]},
        )
        for quench in VARIANTS
    }


FIG11 = common.experiment(
    11,
    "Of four flows that cannot all meet their deadline, quenching one lets three meet it.",
    minutes=4,
    about="Quenching: four flows of 200 MB with a deadline of 6 s are more than the link can carry.",
    seeds=(1, 2, 3, 4, 5),
    cases=fig11_cases,
    claims=fig11_claims,
    numbers=fig11_numbers,
    draw=common.throughputs(VARIANTS),
)


FIG12_PAPER_BYTES = 100_000_000
PRIORITY, LABEL = 3, "priority 3"
UNTIL_S = 7.0
BACKGROUNDS = (3, 6)
VARIES = 1.1
"""Completion times vary if their ratio is at least this."""


def fig12_cases(given: Given, seed: int) -> dict[str, common.Case]:
    size_bytes = common.setup_of(given).size_bytes(FIG12_PAPER_BYTES)
    timed = [common.sized(size_bytes, LABEL, importance=PRIORITY, importance_share=1.0) for _ in range(3)]
    return {
        f"background-{n}": common.Case([*timed, *(common.endless(UNTIL_S) for _ in range(n))])
        for n in BACKGROUNDS
    }


def _times_s(run: Run) -> list[float]:
    return [fct_s for fct_s in run.listed.fct_s(LABEL) if fct_s is not None]


def fig12_claims(results: Results) -> list[Claim]:
    few, many = (
        [time_s for run in results.runs.at(f"background-{count}") for time_s in _times_s(run)]
        for count in BACKGROUNDS
    )
    holds = median(many) >= VARIES * median(few) and results.runs.valid()
    measured = f"{spread(few)} s, {spread(many)} s"
    return [Claim("completion time with 3, 6 background flows", "varies", measured, holds)]


def fig12_numbers(results: Results) -> dict[int, Any]:
    """Return the completion times, and the one with shares that are exactly proportional to the priorities."""
    setup, numbers = common.setup_of(results.given), {}
    for count in BACKGROUNDS:
        share = PRIORITY / (3 * PRIORITY + count)
        predicted_s = setup.size_bytes(FIG12_PAPER_BYTES) * 8e-6 / (share * setup.goodput_mbps)
        runs = common.per_run(results.runs.at(f"background-{count}"), lambda run: {"fct_s": _times_s(run)})
        numbers[count] = {"predicted_s": predicted_s, "runs": runs}
    return numbers


FIG12 = common.experiment(
    12,
    "A fixed priority meets no deadline: the completion time varies with the other flows.",
    minutes=2,
    about="A priority is no deadline: three flows of fixed precedence 3, with three and with six endless flows.",
    cases=fig12_cases,
    claims=fig12_claims,
    numbers=fig12_numbers,
    draw=common.throughputs(
        {f"background-{count}": f"{count} background flows" for count in BACKGROUNDS},
        colours={**common.COLOURS, LABEL: common.OTHER},
    ),
)
