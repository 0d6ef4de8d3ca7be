# SPDX-License-Identifier: Apache-2.0
"""Small flows under FISH and PIAS on a leaf-spine fabric (Zhang and Hu, Fig. 8): three capacities, three gaps.

The paper compares FISH of every capacity with one PIAS. So does the first comparison here; the second gives
PIAS the same capacity, so that what the buffer does is not taken for FISH's doing.

python -m experiments fish_fig8 [--out DIR] [--seeds N]
"""

from __future__ import annotations

import sys

from experiments.kit.verdict import Claim, conclude
from experiments.papers.fish.common import GAPS, Runs
from experiments.papers.fish.fabric import CAPACITIES, arguments, numbers, over_equal, over_pias_240, plot

FIGURES = ("small_mean", "small_p99")
BURST = "0.01ms"
EXPLANATION = (
    "taking turns costs the longer of the small flows more than it gives the shortest, and all flows that are open at "
    "once have packets in a port together: more of them find it full (see fish_fig6)"
)


def main(argv: list[str] | None = None) -> int:
    out, runs = arguments("fish_fig8", __doc__, argv)
    plot(runs, FIGURES, out / "fish_fig8.png")
    return conclude(out, "fish_fig8", _claims(runs), numbers(runs, FIGURES))


def _claims(runs: Runs) -> list[Claim]:
    return [*_without_bursts(runs), *_in_bursts(runs), _capacity_helps(runs), *_at_equal_capacity(runs)]


def _without_bursts(runs: Runs) -> list[Claim]:
    claims = []
    for capacity in CAPACITIES:
        change = over_pias_240(runs, "small_mean", capacity, "1ms")
        what = f"Δt 1ms: FISH-{capacity} against PIAS, small mean"
        claims.append(Claim(what, "better, up to 9.5 %", str(change), change.lower, EXPLANATION))
    return claims


def _in_bursts(runs: Runs) -> list[Claim]:
    papers = {240: "worse", 480: "−1.8 %", 960: "−8.2 %"}
    claims = []
    for capacity, paper in papers.items():
        change = over_pias_240(runs, "small_p99", capacity, BURST)
        holds = not change.lower if capacity == 240 else change.lower
        what = f"Δt {BURST}: FISH-{capacity} against PIAS, small p99"
        claims.append(Claim(what, paper, str(change), holds, EXPLANATION))
    return claims


def _capacity_helps(runs: Runs) -> Claim:
    changes = [over_pias_240(runs, "small_p99", capacity, BURST).mean for capacity in CAPACITIES]
    measured = " > ".join(f"{change:+.0%}" for change in changes).replace("-", "−").replace("%", " %")
    return Claim(
        f"Δt {BURST}: the more capacity, the better is FISH",
        "grows with the capacity",
        measured,
        changes[0] > changes[2],
    )


def _at_equal_capacity(runs: Runs) -> list[Claim]:
    claims = []
    for figure in FIGURES:
        for gap in GAPS:
            change = over_equal(runs, figure, 960, gap)
            what = f"Δt {gap}: FISH-960 against PIAS-960, {figure.replace('_', ' ')}"
            claims.append(Claim(what, "(not in the paper)", str(change), change.lower, EXPLANATION))
    return claims


if __name__ == "__main__":
    sys.exit(main())
