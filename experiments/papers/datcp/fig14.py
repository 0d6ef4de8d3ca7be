# SPDX-License-Identifier: Apache-2.0
"""MapReduce (Zhang et al., Fig. 14): jobs A and B each copy two map outputs of 100 MB to one server.

B's deadline is 2 s, A's 5 s, quenched flows are suspended. Together that is 1.12 of the link's 0.96 Gb/s, so somebody
must be. Whether a flow may be quenched is its program's choice: here job A's may, job B's not; and, beside it, all may.
Against both: TCP (CUBIC, no marks), and the standard ECN flows that DATCP's are when nobody tells of deadlines.

python -m experiments datcp_fig14 [--out DIR] [--seeds 1 2 3]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from experiments.kit.verdict import Claim, conclude, spread
from experiments.papers.datcp.common import (
    DATCP,
    SMALL,
    TCP,
    Run,
    Setup,
    document,
    parser,
    run,
    sized,
    validity,
)
from experiments.papers.datcp.plot import DEADLINE, OTHER, finish, panels, throughput

PAPER_BYTES = 100_000_000
DEADLINES_S = {"job A": 5.0, "job B": 2.0}
COLOURS = {"job A": OTHER, "job B": DEADLINE}
ON_TIME = 1.05
"""B is done "in 2 s" up to this part of its deadline."""
UNHARMED = 1.05
"""A is unharmed when it takes no longer than this part of its time as one of four equal flows: no deadlines told."""

VARIANTS: dict[str, tuple[Mapping[str, Any], tuple[str, ...] | None]] = {
    "datcp": (DATCP, ("job A",)),
    "all-may": (DATCP, ("job A", "job B")),
    "tcp": (TCP, None),
    "untold": (DATCP, None),
}
"""Scheme, and the jobs whose flows may be suspended; None: the kernel is not told of the deadlines."""
TITLES = {
    "datcp": "DATCP, A may be suspended",
    "all-may": "DATCP, all may be suspended",
    "tcp": "TCP",
    "untold": "ECN, no deadlines told",
}


def main(argv: list[str] | None = None, setup: Setup = SMALL) -> int:
    arguments = parser("datcp_fig14", __doc__, setup=setup).parse_args(argv)
    runs = {
        variant: [run(arguments.out, _document(variant, seed, setup), setup) for seed in arguments.seeds]
        for variant in VARIANTS
    }
    _plot(runs, setup, arguments.out / "datcp_fig14.png")
    return conclude(arguments.out, "datcp_fig14", _claims(runs), _numbers(runs))


def _document(variant: str, seed: int, setup: Setup = SMALL) -> dict[str, Any]:
    scheme, may_wait = VARIANTS[variant]
    size_bytes = setup.size_bytes(PAPER_BYTES)
    flows = [_flow(size_bytes, job, may_wait) for job in DEADLINES_S for _ in range(2)]
    return document(f"{variant}-seed{seed}", seed, flows, scheme, setup)


def _flow(size_bytes: int, job: str, may_wait: tuple[str, ...] | None) -> dict[str, Any]:
    if may_wait is None:
        return sized(size_bytes, job)
    return sized(size_bytes, job, DEADLINES_S[job], quench="suspend" if job in may_wait else "never")


def _done_s(outcome: Run, job: str) -> float:
    """A job is done when both its flows are."""
    times = [outcome.flows[i].fct_s for i in outcome.labelled(job)]
    return float("inf") if None in times else max(time for time in times if time is not None)


def _claims(runs: dict[str, list[Run]]) -> list[Claim]:
    done = {(v, job): [_done_s(outcome, job) for outcome in runs[v]] for v in runs for job in DEADLINES_S}
    valid = all(outcome.valid for outcomes in runs.values() for outcome in outcomes)
    b, b_all, b_tcp, b_untold = (done[variant, "job B"] for variant in ("datcp", "all-may", "tcp", "untold"))
    a, a_tcp, a_untold = (done[variant, "job A"] for variant in ("datcp", "tcp", "untold"))
    soon = median(b) <= ON_TIME * DEADLINES_S["job B"]
    return [
        Claim("job B is done, in seconds", "2.0", spread(b), soon and valid),
        Claim(
            "job B when its own flows may be suspended too",
            "2.0",
            spread(b_all),
            median(b_all) <= ON_TIME * DEADLINES_S["job B"] and valid,
            "A has what it needs, B never does: so it is B's urgency that rises without profit, and B that Algorithm 2 "
            "suspends, before its precedence is high enough to be spared",
        ),
        Claim("job B under TCP", "3.2", spread(b_tcp), median(b_tcp) > median(b) and valid),
        Claim(
            "job B when no deadlines are told", "–", spread(b_untold), median(b_untold) > median(b) and valid
        ),
        Claim(
            "job A under DATCP; when no deadlines are told; under TCP",
            "unharmed",
            f"{spread(a)}; {spread(a_untold)}; {spread(a_tcp)}",
            median(a) <= UNHARMED * median(a_untold) and valid,
        ),
        validity(outcome for outcomes in runs.values() for outcome in outcomes),
    ]


def _numbers(runs: dict[str, list[Run]]) -> dict[str, Any]:
    return {
        variant: [
            {
                **{f"{job}, s": _done_s(outcome, job) for job in DEADLINES_S},
                "retransmissions": outcome.retransmissions,
                "timeouts": outcome.timeouts,
                "quenches": [samples[-1]["quenches"] if samples else None for samples in outcome.samples],
                "valid": outcome.valid,
            }
            for outcome in outcomes
        ]
        for variant, outcomes in runs.items()
    }


def _plot(runs: dict[str, list[Run]], setup: Setup, path: Path) -> None:
    figure, axes = panels(len(VARIANTS))
    for panel, variant in zip(axes, VARIANTS, strict=True):
        throughput(panel, runs[variant][0], COLOURS, TITLES[variant], 1.0, setup)
    finish(figure, axes, path)


if __name__ == "__main__":
    sys.exit(main())
