# SPDX-License-Identifier: Apache-2.0
"""Average FCT of the short flows, static against dynamic thresholds (Gutiérrez et al., Fig. 6), at full
rate on the simulator.

python -m experiments dyna_fig6 [--out DIR] [--seeds 1 2 3 4 5] [--flows N]
"""

from __future__ import annotations

import sys

from experiments.kit.verdict import Claim, conclude
from experiments.papers.adaptive_thresholds.common import Runs, arguments
from experiments.papers.adaptive_thresholds.short_flows import (
    MISMATCHED,
    Changes,
    change_claim,
    numbers,
    plot,
    same_claim,
)

PAPER = {"1KB": "−4.9 … −33.5 %", "1000KB": "−3.7 … −86 %"}


def main(argv: list[str] | None = None) -> int:
    out, runs = arguments("dyna_fig6", __doc__, argv)
    plot(runs, "short_mean", "mean FCT of 10 KB flows (µs)", out / "dyna_fig6.png", settled=False)
    return conclude(out, "dyna_fig6", _claims(runs), numbers(runs, ("short_mean",)))


def _claims(runs: Runs) -> list[Claim]:
    lower = [
        change_claim(runs, "short_mean", start, f"start {start}: mean of short flows", PAPER[start])
        for start in MISMATCHED
    ]
    grows = [_grows(runs, start) for start in MISMATCHED]
    return [*lower, *grows, same_claim(runs, "short_mean")]


def _grows(runs: Runs, start: str) -> Claim:
    changes = Changes.of(runs, "short_mean", start)
    return Claim(
        f"start {start}: more so at high loads", "especially above 70 %", str(changes), changes.grows
    )


if __name__ == "__main__":
    sys.exit(main())
