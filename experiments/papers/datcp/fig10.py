# SPDX-License-Identifier: Apache-2.0
"""Importance and urgency (Zhang et al., Fig. 10): one of three endless flows has importance 1, 2, 3.

Half of every flow's precedence is its importance.

python -m experiments datcp_fig10 [--out DIR] [--seeds 1 2 3]
"""

from __future__ import annotations

import sys
from itertools import pairwise
from statistics import mean, median
from typing import Any

from experiments.kit.verdict import Claim, conclude, spread
from experiments.papers.datcp.common import (
    DATCP,
    SMALL,
    Run,
    Setup,
    document,
    endless,
    in_time,
    mean_rate_mbps,
    parser,
    run,
    sized,
    validity,
)
from experiments.papers.datcp.plot import BACKGROUND, DEADLINE, OTHER, finish, panels, throughput

PAPER_BYTES = 100_000_000
DEADLINE_S = 4.0
UNTIL_S = 7.0
IMPORTANCES = (1, 2, 3)
IMPORTANCE_SHARE = 0.5
SETTLED_S = 1.0


def main(argv: list[str] | None = None, setup: Setup = SMALL) -> int:
    arguments = parser("datcp_fig10", __doc__, setup=setup).parse_args(argv)
    runs = {
        importance: [
            run(arguments.out, _document(importance, seed, setup), setup) for seed in arguments.seeds
        ]
        for importance in IMPORTANCES
    }
    colours = {_timed(setup): DEADLINE, "background": BACKGROUND, "important": OTHER}
    figure, axes = panels(len(IMPORTANCES))
    for panel, importance in zip(axes, IMPORTANCES, strict=True):
        throughput(panel, runs[importance][0], colours, f"importance {importance}", setup=setup)
    finish(figure, axes, arguments.out / "datcp_fig10.png")
    return conclude(arguments.out, "datcp_fig10", _claims(runs), _numbers(runs, setup))


def _timed(setup: Setup) -> str:
    """Label of the flows with a deadline."""
    return in_time(setup.size_bytes(PAPER_BYTES), DEADLINE_S)


def _document(importance: int, seed: int, setup: Setup = SMALL) -> dict[str, Any]:
    plain: dict[str, Any] = {"importance": 1, "importance_share": IMPORTANCE_SHARE}
    size_bytes = setup.size_bytes(PAPER_BYTES)
    flows = [sized(size_bytes, _timed(setup), DEADLINE_S, **plain) for _ in range(3)]
    flows += [endless(UNTIL_S, **plain) for _ in range(2)]
    flows += [endless(UNTIL_S, "important", **plain | {"importance": importance})]
    return document(f"importance-{importance}-seed{seed}", seed, flows, DATCP, setup)


def _gain(outcome: Run) -> float:
    """Throughput of the important flow over the other endless ones', from the end of the start-up on."""

    def rate(label: str) -> float:
        return mean(mean_rate_mbps(outcome, i, SETTLED_S, UNTIL_S) for i in outcome.labelled(label))

    return rate("important") / rate("background")


def _predicted(importance: int) -> float:
    """The precedence of the important flow over the others', which is 1."""
    return IMPORTANCE_SHARE * importance + (1 - IMPORTANCE_SHARE)


def _claims(runs: dict[int, list[Run]]) -> list[Claim]:
    gains = {importance: [_gain(outcome) for outcome in outcomes] for importance, outcomes in runs.items()}
    valid = all(outcome.valid for outcomes in runs.values() for outcome in outcomes)
    rising = all(median(gains[b]) > median(gains[a]) for a, b in pairwise(IMPORTANCES))
    shares = ", ".join(f"{median(gains[importance]):.2f}" for importance in IMPORTANCES)
    more = Claim(
        "importance 1, 2, 3: share over the other endless flows' rises",
        "more share",
        shares,
        rising and valid,
    )
    claims = [_as_predicted(importance, gains[importance], valid) for importance in IMPORTANCES]
    return [more, *claims, validity(outcome for outcomes in runs.values() for outcome in outcomes)]


def _as_predicted(importance: int, gains: list[float], valid: bool) -> Claim:
    expected = _predicted(importance)
    holds = abs(median(gains) - expected) <= 0.25 * expected and valid
    what = f"importance {importance}: share over the others' is the precedence (within 25 %)"
    return Claim(what, f"{expected:g}, by equation (2)", spread(gains), holds)


def _numbers(runs: dict[int, list[Run]], setup: Setup) -> dict[int, Any]:
    return {
        importance: [
            {
                "gain": _gain(outcome),
                "fct_s": [outcome.flows[i].fct_s for i in outcome.labelled(_timed(setup))],
                "retransmissions": outcome.retransmissions,
                "timeouts": outcome.timeouts,
                "valid": outcome.valid,
            }
            for outcome in outcomes
        ]
        for importance, outcomes in runs.items()
    }


if __name__ == "__main__":
    sys.exit(main())
