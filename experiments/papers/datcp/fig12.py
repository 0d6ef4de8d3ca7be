# SPDX-License-Identifier: Apache-2.0
"""Priority is no deadline (Zhang et al., Fig. 12): three flows of fixed precedence 3 beside three and six endless ones.

python -m experiments datcp_fig12 [--out DIR] [--seeds 1 2 3]
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

from experiments.kit.verdict import Claim, conclude, spread
from experiments.papers.datcp.common import (
    DATCP,
    SMALL,
    Run,
    Setup,
    document,
    endless,
    parser,
    run,
    sized,
    validity,
)
from experiments.papers.datcp.plot import BACKGROUND, OTHER, finish, panels, throughput

PAPER_BYTES = 100_000_000
PRIORITY = 3
UNTIL_S = 7.0
BACKGROUNDS = (3, 6)
VARIES = 1.1
"""Completion times vary when their ratio is at least this."""


def main(argv: list[str] | None = None, setup: Setup = SMALL) -> int:
    arguments = parser("datcp_fig12", __doc__, setup=setup).parse_args(argv)
    runs = {
        count: [run(arguments.out, _document(count, seed, setup), setup) for seed in arguments.seeds]
        for count in BACKGROUNDS
    }
    figure, axes = panels(len(BACKGROUNDS))
    colours = {"priority 3": OTHER, "background": BACKGROUND}
    for panel, count in zip(axes, BACKGROUNDS, strict=True):
        throughput(panel, runs[count][0], colours, f"{count} background flows", setup=setup)
    finish(figure, axes, arguments.out / "datcp_fig12.png")
    claims = [_varies(runs), validity(outcome for outcomes in runs.values() for outcome in outcomes)]
    return conclude(arguments.out, "datcp_fig12", claims, _numbers(runs, setup))


def _document(count: int, seed: int, setup: Setup = SMALL) -> dict[str, Any]:
    size_bytes = setup.size_bytes(PAPER_BYTES)
    flows = [sized(size_bytes, "priority 3", importance=PRIORITY, importance_share=1.0) for _ in range(3)]
    flows += [endless(UNTIL_S) for _ in range(count)]
    return document(f"background-{count}-seed{seed}", seed, flows, DATCP, setup)


def _times_s(outcomes: list[Run]) -> list[float]:
    flows = [outcome.flows[i] for outcome in outcomes for i in outcome.labelled("priority 3")]
    return [flow.fct_s for flow in flows if flow.fct_s is not None]


def _predicted_s(count: int, setup: Setup) -> float:
    """If shares were exactly as the priorities."""
    share = PRIORITY / (3 * PRIORITY + count)
    return setup.size_bytes(PAPER_BYTES) * 8e-6 / (share * setup.goodput_mbps)


def _varies(runs: dict[int, list[Run]]) -> Claim:
    few, many = (_times_s(runs[count]) for count in BACKGROUNDS)
    valid = all(outcome.valid for outcomes in runs.values() for outcome in outcomes)
    measured = f"{spread(few)} s, {spread(many)} s"
    holds = median(many) >= VARIES * median(few) and valid
    return Claim("completion time beside 3, 6 background flows", "varies", measured, holds)


def _numbers(runs: dict[int, list[Run]], setup: Setup) -> dict[int, Any]:
    return {
        count: {
            "predicted_s": _predicted_s(count, setup),
            "runs": [
                {
                    "fct_s": _times_s([outcome]),
                    "retransmissions": outcome.retransmissions,
                    "timeouts": outcome.timeouts,
                    "valid": outcome.valid,
                }
                for outcome in outcomes
            ],
        }
        for count, outcomes in runs.items()
    }


if __name__ == "__main__":
    sys.exit(main())
