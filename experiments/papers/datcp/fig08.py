# SPDX-License-Identifier: Apache-2.0
"""Deadline-awareness: three flows of 100 MB and three endless ones; no deadline, 4 s, 3 s.

The testbed has 10 MB. There a fourth case has the paper's own size and ten times its 3 s. It lasts
as many round trips as at the paper's rate. In the other cases the urgency has a tenth of them to
settle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from experiments.kit.experiment import Claim, Given, spread
from experiments.kit.flows import jain_index
from experiments.kit.runs import Results, Run
from experiments.papers.datcp.common import (
    PAPER_MBPS,
    Case,
    Setup,
    endless,
    experiment,
    in_time,
    per_run,
    setup_of,
    sized,
    throughputs,
)

PAPER_BYTES = 100_000_000
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
        return "no deadline" if self.deadline_s is None else in_time(self.size_bytes, self.deadline_s)

    @property
    def flows(self) -> list[dict[str, Any]]:
        timed = [sized(self.size_bytes, "sized", self.deadline_s) for _ in range(3)]
        return timed + [endless(self.until_s) for _ in range(3)]


def deadlines(setup: Setup) -> list[Deadline]:
    """Return the paper's three deadlines, and a fourth if the rate is scaled down."""
    size_bytes, scale = setup.size_bytes(PAPER_BYTES), PAPER_MBPS / setup.link_mbps
    as_there = [Deadline(size_bytes, deadline_s, 7.0) for deadline_s in (None, 4.0, 3.0)]
    stretched = Deadline(PAPER_BYTES, 3.0 * scale, 3.3 * scale, resolution_s=0.1 * scale)
    return as_there if scale == 1 else [*as_there, stretched]


def cases(given: Given, seed: int) -> dict[str, Case]:
    return {one.name: Case(one.flows) for one in deadlines(setup_of(given))}


def _found(results: Results) -> list[tuple[Deadline, list[Run]]]:
    return [(one, results.runs.at(one.name)) for one in deadlines(setup_of(results.given))]


def claims(results: Results) -> list[Claim]:
    found = _found(results)
    meets = [_meets(one, runs) for one, runs in found if one.deadline_s is not None]
    return [*meets, *(_fair(one, runs) for one, runs in found)]


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


def numbers(results: Results) -> dict[str, Any]:
    return {case.name: per_run(runs, partial(_figures, case)) for case, runs in _found(results)}


def _figures(case: Deadline, run: Run) -> dict[str, Any]:
    return {
        "fct_s": run.listed.fct_s("sized"),
        "share_mbps": _shares(case, run, "sized"),
        "background_share_mbps": _shares(case, run, "background"),
    }


EXPERIMENT = experiment(
    8,
    "DATCP flows meet their deadlines, and flows of one urgency get one share.",
    minutes=6,
    about=__doc__,
    cases=cases,
    claims=claims,
    numbers=numbers,
    draw=throughputs(),
)
