# SPDX-License-Identifier: Apache-2.0
"""Deadline-awareness (Zhang et al., Fig. 8): three flows of 10 MB beside three endless ones, deadlines none, 4 s, 3 s.

python -m experiments.datcp_fig08.run [--out DIR] [--seeds 1 2 3]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from experiments.datcp.common import (
    DATCP,
    Run,
    document,
    endless,
    jain,
    mean_rate_mbps,
    parser,
    run,
    sized,
)
from experiments.datcp.plot import BACKGROUND, DEADLINE, finish, panels, throughput
from experiments.verdict import Claim, conclude, spread

SIZE_BYTES = 10_000_000
UNTIL_S = 7.0
DEADLINES_S = (None, 4.0, 3.0)
FAIR = 0.95
"""Jain's index from which shares pass for "almost identical"."""
SETTLED_S = 1.0
"""Shares are compared from here on, until the first flow of 10 MB is done."""


def main(argv: list[str] | None = None) -> int:
    arguments = parser("datcp_fig08", __doc__).parse_args(argv)
    runs = {
        deadline_s: [run(arguments.out, _document(deadline_s, seed)) for seed in arguments.seeds]
        for deadline_s in DEADLINES_S
    }
    _plot(runs, arguments.out / "datcp_fig08.png")
    claims = [_meets(4.0, runs), _meets(3.0, runs), *(_fair(deadline_s, runs) for deadline_s in DEADLINES_S)]
    return conclude(arguments.out, "datcp_fig08", claims, _numbers(runs))


def _name(deadline_s: float | None) -> str:
    return "no deadline" if deadline_s is None else f"deadline {deadline_s:g} s"


def _document(deadline_s: float | None, seed: int) -> dict[str, Any]:
    flows = [sized(SIZE_BYTES, "10 MB", deadline_s) for _ in range(3)] + [endless(UNTIL_S) for _ in range(3)]
    return document(f"{_name(deadline_s).replace(' ', '-')}-seed{seed}", seed, flows, DATCP)


def _shares(outcome: Run, label: str) -> list[float]:
    """Mean throughput of the flows of a label while all six are under way, in Mb/s."""
    first_end = min(flow.end_s or UNTIL_S for flow in outcome.flows if flow.label == "10 MB")
    return [mean_rate_mbps(outcome, i, SETTLED_S, first_end) for i in outcome.labelled(label)]


def _meets(deadline_s: float, runs: dict[float | None, list[Run]]) -> Claim:
    flows = [flow for outcome in runs[deadline_s] for flow in outcome.flows if flow.label == "10 MB"]
    times = sorted(flow.fct_s for flow in flows if flow.fct_s is not None)
    met = sum(bool(flow.met) for flow in flows)
    measured = f"{met} of {len(flows)} meet it; {times[0]:.2f} … {times[-1]:.2f} s"
    holds = met == len(flows) and all(outcome.valid for outcome in runs[deadline_s])
    return Claim(f"flows meet a deadline of {deadline_s:g} s", "all do", measured, holds)


def _fair(deadline_s: float | None, runs: dict[float | None, list[Run]]) -> Claim:
    """Without deadlines all six are of one urgency; else the three of a kind are."""
    labels = ("10 MB", "background")
    groups = [[_shares(outcome, label) for label in labels] for outcome in runs[deadline_s]]
    if deadline_s is None:
        groups = [[[share for group in kinds for share in group]] for kinds in groups]
    indices = [jain(group) for kinds in groups for group in kinds]
    what = f"{_name(deadline_s)}: flows of one urgency get one share (Jain's index)"
    valid = all(outcome.valid for outcome in runs[deadline_s])
    return Claim(what, "almost identical", spread(indices), min(indices) >= FAIR and valid)


def _numbers(runs: dict[float | None, list[Run]]) -> dict[str, Any]:
    return {
        _name(deadline_s): [
            {
                "fct_s": [flow.fct_s for flow in outcome.flows if flow.label == "10 MB"],
                "share_mbps": _shares(outcome, "10 MB"),
                "background_share_mbps": _shares(outcome, "background"),
                "retransmissions": outcome.retransmissions,
                "timeouts": outcome.timeouts,
                "valid": outcome.valid,
            }
            for outcome in outcomes
        ]
        for deadline_s, outcomes in runs.items()
    }


def _plot(runs: dict[float | None, list[Run]], path: Path) -> None:
    figure, axes = panels(len(DEADLINES_S))
    colours = {"10 MB": DEADLINE, "background": BACKGROUND}
    for panel, deadline_s in zip(axes, DEADLINES_S, strict=True):
        throughput(panel, runs[deadline_s][0], colours, _name(deadline_s))
    finish(figure, axes, path)


if __name__ == "__main__":
    sys.exit(main())
