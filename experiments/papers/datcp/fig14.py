# SPDX-License-Identifier: Apache-2.0
"""MapReduce: jobs A and B each copy two map outputs of 100 MB to one server.

B's deadline is 2 s, A's 5 s. Together they need 1.12 of the link's 0.96 Gb/s, so some flows must
be suspended. The program decides which flows may be. Here job A's may and job B's not; in a second
variant all may. Both are compared with TCP (CUBIC, no marks), and with the standard ECN flows that
DATCP's are if no deadlines are declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from experiments.kit.experiment import Claim, Given, spread
from experiments.kit.runs import Results, Run
from experiments.papers.datcp.common import (
    DATCP,
    DEADLINE,
    OTHER,
    TCP,
    Case,
    experiment,
    per_run,
    setup_of,
    sized,
    throughputs,
)

PAPER_BYTES = 100_000_000
A, B = "job A", "job B"
DEADLINES_S = {A: 5.0, B: 2.0}
ON_TIME = 1.05
"""B is done "in 2 s" if it takes at most this multiple of its deadline."""
UNHARMED = 1.05
"""A is unharmed if it takes at most this multiple of its time without declared deadlines."""

VARIANTS: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...] | None]] = {
    "datcp": (DATCP, (A,)),
    "all-may": (DATCP, (A, B)),
    "tcp": (TCP, None),
    "untold": (DATCP, None),
}
"""Variant → scheme, and the jobs whose flows may be suspended; None: no deadlines are declared."""
TITLES = {
    "datcp": "DATCP, A may be suspended",
    "all-may": "DATCP, all may be suspended",
    "tcp": "TCP",
    "untold": "ECN, no deadlines declared",
}
B_SUSPENDED = (
    "A gets the rate that it needs, B never does. So B's urgency rises without effect. Algorithm 2 suspends B "
    "before its precedence is high enough to protect it"
)


def cases(given: Given, seed: int) -> dict[str, Case]:
    size_bytes = setup_of(given).size_bytes(PAPER_BYTES)
    return {
        variant: Case([_flow(size_bytes, job, may_wait) for job in DEADLINES_S for _ in range(2)], scheme)
        for variant, (scheme, may_wait) in VARIANTS.items()
    }


def _flow(size_bytes: int, job: str, may_wait: tuple[str, ...] | None) -> dict[str, Any]:
    if may_wait is None:
        return sized(size_bytes, job)
    return sized(size_bytes, job, DEADLINES_S[job], quench="suspend" if job in may_wait else "never")


def done_s(run: Run, job: str) -> float:
    """Return when both flows of a job are done."""
    times = run.listed.fct_s(job)
    return float("inf") if None in times else max(time for time in times if time is not None)


def claims(results: Results) -> list[Claim]:
    done = {(v, job): [done_s(run, job) for run in results.runs.at(v)] for v in VARIANTS for job in (A, B)}
    valid, soon_s = results.runs.valid(), ON_TIME * DEADLINES_S[B]
    b, b_all, b_tcp, b_untold = (done[variant, B] for variant in ("datcp", "all-may", "tcp", "untold"))
    a, a_untold, a_tcp = (done[variant, A] for variant in ("datcp", "untold", "tcp"))
    later = {"tcp": median(b_tcp) > median(b), "untold": median(b_untold) > median(b)}
    return [
        Claim("job B is done, in seconds", "2.0", spread(b), median(b) <= soon_s and valid),
        Claim(
            "job B when its own flows may be suspended too",
            "2.0",
            spread(b_all),
            median(b_all) <= soon_s and valid,
            B_SUSPENDED,
        ),
        Claim("job B under TCP", "3.2", spread(b_tcp), later["tcp"] and valid),
        Claim("job B when no deadlines are declared", "–", spread(b_untold), later["untold"] and valid),
        Claim(
            "job A under DATCP; when no deadlines are declared; under TCP",
            "unharmed",
            f"{spread(a)}; {spread(a_untold)}; {spread(a_tcp)}",
            median(a) <= UNHARMED * median(a_untold) and valid,
        ),
    ]


def numbers(results: Results) -> dict[str, Any]:
    return {variant: per_run(results.runs.at(variant), _figures) for variant in VARIANTS}


def _figures(run: Run) -> dict[str, Any]:
    quenches = [samples[-1]["quenches"] if samples else None for samples in run.listed.samples]
    return {**{f"{job}, s": done_s(run, job) for job in (A, B)}, "quenches": quenches}


EXPERIMENT = experiment(
    14,
    "Under DATCP job B meets its 2 s while job A, whose flows may be suspended, is unharmed.",
    minutes=3,
    about=__doc__,
    cases=cases,
    claims=claims,
    numbers=numbers,
    draw=throughputs(TITLES, colours={A: OTHER, B: DEADLINE}, top=1.0),
)
