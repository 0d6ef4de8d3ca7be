# SPDX-License-Identifier: Apache-2.0
"""Deadline-awareness (Zhang et al., Fig. 8): three flows of 100 MB beside three endless ones, deadlines none, 4 s, 3 s.

On the testbed 10 MB; there a fourth case has the paper's own size, and ten times its 3 s: as many round trips as at the
paper's rate, while the others have a tenth of them for the urgency to settle.

python -m experiments datcp_fig08 [--out DIR] [--seeds 1 2 3]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.kit.verdict import Claim, conclude, spread
from experiments.papers.datcp.common import (
    DATCP,
    PAPER_MBPS,
    SMALL,
    Run,
    Setup,
    document,
    endless,
    in_time,
    jain,
    mean_rate_mbps,
    parser,
    run,
    sized,
    validity,
)
from experiments.papers.datcp.plot import BACKGROUND, DEADLINE, finish, panels, throughput

FAIR = 0.95
"""Jain's index from which shares pass for "almost identical"."""
SETTLED_S = 1.0
"""Shares are compared from here on, until the first flow with a size is done."""


@dataclass(frozen=True)
class Case:
    size_bytes: int
    deadline_s: float | None
    until_s: float
    resolution_s: float = 0.1
    """DATCP aims at the deadline. The paper's figure, in steps of 0.1 s, cannot tell a flow that is later by less."""

    @property
    def name(self) -> str:
        return "no deadline" if self.deadline_s is None else in_time(self.size_bytes, self.deadline_s)


PAPER_BYTES = 100_000_000


def cases(setup: Setup) -> tuple[Case, ...]:
    """The paper's three; where its rate is scaled down, a fourth."""
    size_bytes = setup.size_bytes(PAPER_BYTES)
    as_there = tuple(Case(size_bytes, deadline_s, 7.0) for deadline_s in (None, 4.0, 3.0))
    if setup.link_mbps == PAPER_MBPS:
        return as_there
    scale = PAPER_MBPS / setup.link_mbps
    return (*as_there, Case(PAPER_BYTES, 3.0 * scale, 3.3 * scale, resolution_s=0.1 * scale))


Runs = dict[Case, list[Run]]


def main(argv: list[str] | None = None, setup: Setup = SMALL) -> int:
    arguments = parser("datcp_fig08", __doc__, setup=setup).parse_args(argv)
    runs = {
        case: [run(arguments.out, _document(case, seed, setup), setup) for seed in arguments.seeds]
        for case in cases(setup)
    }
    _plot(runs, setup, arguments.out / "datcp_fig08.png")
    claims = [_meets(case, outcomes) for case, outcomes in runs.items() if case.deadline_s is not None]
    claims += [_fair(case, outcomes) for case, outcomes in runs.items()]
    claims.append(validity(outcome for outcomes in runs.values() for outcome in outcomes))
    return conclude(arguments.out, "datcp_fig08", claims, _numbers(runs))


def _document(case: Case, seed: int, setup: Setup = SMALL) -> dict[str, Any]:
    flows = [sized(case.size_bytes, "sized", case.deadline_s) for _ in range(3)]
    flows += [endless(case.until_s) for _ in range(3)]
    return document(f"{case.name.replace(' ', '-')}-seed{seed}", seed, flows, DATCP, setup)


def _shares(case: Case, outcome: Run, label: str) -> list[float]:
    """Mean throughput of the flows of a label while all six are under way, in Mb/s."""
    first_end = min(outcome.flows[i].end_s or case.until_s for i in outcome.labelled("sized"))
    return [mean_rate_mbps(outcome, i, SETTLED_S, first_end) for i in outcome.labelled(label)]


def _meets(case: Case, runs: list[Run]) -> Claim:
    flows = [outcome.flows[i] for outcome in runs for i in outcome.labelled("sized")]
    times = [flow.fct_s for flow in flows if flow.fct_s is not None]
    met = sum(bool(flow.met) for flow in flows)
    measured = f"{spread(times)} s; {met} of {len(flows)} to the millisecond" if times else "none is done"
    latest_s = (case.deadline_s or 0.0) + case.resolution_s
    on_time = len(times) == len(flows) and max(times) <= latest_s
    return Claim(
        f"{case.name}: flows meet it (within {case.resolution_s:g} s)",
        "all",
        measured,
        on_time and _valid(runs),
    )


def _fair(case: Case, runs: list[Run]) -> Claim:
    """Without deadlines all six are of one urgency; else the three of a kind are."""
    groups = [[_shares(case, outcome, label) for label in ("sized", "background")] for outcome in runs]
    if case.deadline_s is None:
        groups = [[[share for group in kinds for share in group]] for kinds in groups]
    indices = [jain(group) for kinds in groups for group in kinds]
    what = f"{case.name}: flows of one urgency get one share (Jain's index)"
    return Claim(what, "almost identical", spread(indices), min(indices) >= FAIR and _valid(runs))


def _valid(runs: list[Run]) -> bool:
    return all(outcome.valid for outcome in runs)


def _numbers(runs: Runs) -> dict[str, Any]:
    return {case.name: [_figures(case, outcome) for outcome in outcomes] for case, outcomes in runs.items()}


def _figures(case: Case, outcome: Run) -> dict[str, Any]:
    return {
        "fct_s": [outcome.flows[i].fct_s for i in outcome.labelled("sized")],
        "share_mbps": _shares(case, outcome, "sized"),
        "background_share_mbps": _shares(case, outcome, "background"),
        "retransmissions": outcome.retransmissions,
        "timeouts": outcome.timeouts,
        "valid": outcome.valid,
    }


def _plot(runs: Runs, setup: Setup, path: Path) -> None:
    figure, axes = panels(3)
    colours = {"sized": DEADLINE, "background": BACKGROUND}
    for panel, case in zip(axes, runs, strict=False):
        throughput(panel, runs[case][0], colours, case.name, setup=setup)
    finish(figure, axes, path)


if __name__ == "__main__":
    sys.exit(main())
