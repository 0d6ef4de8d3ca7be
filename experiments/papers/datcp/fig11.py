# SPDX-License-Identifier: Apache-2.0
"""Quenching (Zhang et al., Fig. 11): four flows of 200 MB, deadline 6 s, are more than the link can carry in time.

python -m experiments datcp_fig11 [--out DIR] [--seeds 1 2 3 4 5]
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

from experiments.kit.verdict import Claim, conclude
from experiments.papers.datcp.common import (
    DATCP,
    SMALL,
    Run,
    Setup,
    describe,
    document,
    in_time,
    parser,
    run,
    sized,
    validity,
)
from experiments.papers.datcp.plot import DEADLINE, finish, panels, throughput

PAPER_BYTES = 200_000_000
DEADLINE_S = 6.0
FLOWS = 4
VARIANTS = {"never": "without quenching", "kill": "with quenching"}
EXPLANATIONS = {
    "never": "urgencies rise together without end, and shares differ by chance: a flow may come so far ahead that it "
    "needs no more than it gets",
    "kill": "flows that begin together may be quenched together, before they have seen what the first one left",
}
"""Why a run may come out otherwise."""


def main(argv: list[str] | None = None, setup: Setup = SMALL) -> int:
    arguments = parser("datcp_fig11", __doc__, seeds=(1, 2, 3, 4, 5), setup=setup).parse_args(argv)
    runs = {
        quench: [run(arguments.out, _document(quench, seed, setup), setup) for seed in arguments.seeds]
        for quench in VARIANTS
    }
    figure, axes = panels(len(VARIANTS))
    for panel, (quench, title) in zip(axes, VARIANTS.items(), strict=True):
        throughput(panel, runs[quench][0], {_timed(setup): DEADLINE}, title, setup=setup)
    finish(figure, axes, arguments.out / "datcp_fig11.png")
    claims = [_claim("never", runs["never"], 0), _claim("kill", runs["kill"], FLOWS - 1)]
    claims.append(validity(outcome for outcomes in runs.values() for outcome in outcomes))
    return conclude(arguments.out, "datcp_fig11", claims, _numbers(runs))


def _timed(setup: Setup) -> str:
    return in_time(setup.size_bytes(PAPER_BYTES), DEADLINE_S)


def _document(quench: str, seed: int, setup: Setup = SMALL) -> dict[str, Any]:
    size_bytes = setup.size_bytes(PAPER_BYTES)
    flows = [sized(size_bytes, _timed(setup), DEADLINE_S, quench=quench) for _ in range(FLOWS)]
    return document(f"{quench}-seed{seed}", seed, flows, DATCP, setup)


def _met(outcome: Run) -> int:
    return sum(bool(flow.met) for flow in outcome.flows)


def _claim(quench: str, runs: list[Run], expected: int) -> Claim:
    counts = [_met(outcome) for outcome in runs]
    holds = median(counts) == expected and all(outcome.valid for outcome in runs)
    measured = f"{median(counts):g} ({', '.join(map(str, counts))})"
    what = f"{VARIANTS[quench]}: flows of {FLOWS} that meet 6 s, median (runs)"
    return Claim(what, str(expected), measured, holds, EXPLANATIONS[quench])


def _numbers(runs: dict[str, list[Run]]) -> dict[str, Any]:
    return {
        quench: [
            {
                "met": _met(outcome),
                "flows": [describe(flow) for flow in outcome.flows],
                "retransmissions": outcome.retransmissions,
                "timeouts": outcome.timeouts,
                "valid": outcome.valid,
            }
            for outcome in outcomes
        ]
        for quench, outcomes in runs.items()
    }


if __name__ == "__main__":
    sys.exit(main())
