# SPDX-License-Identifier: Apache-2.0
"""Generated traffic (Zhang et al., Fig. 13): beside three endless flows, three with deadlines every ten seconds.

Sizes are uniform over 1 to 10 MB. The paper does not say its deadlines: here a flow's is its size over the fair rate
of the six flows (a sixth of the link), times a factor uniform over 0.9 … 1.3 (lax), 0.7 … 1.1 (moderate), 0.5 … 0.9
(tight).
Rounds of the three kinds take turns within a run.

python -m experiments.datcp_fig13.run [--out DIR] [--seeds 1 2 3] [--rounds 6]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from experiments.datcp.common import (
    DATCP,
    GOODPUT_MBPS,
    TCP,
    Run,
    document,
    endless,
    parser,
    run,
    sized,
    validity,
)
from experiments.datcp.plot import save
from experiments.verdict import Claim, conclude
from policy.schemes import SCHEMES

FACTORS = {"lax": (0.9, 1.3), "moderate": (0.7, 1.1), "tight": (0.5, 0.9)}
SIZES_BYTES = (1_000_000, 10_000_000)
ROUND_S = 10.0
FIRST_S = 1.0
FAIR_MBPS = GOODPUT_MBPS / 6

VARIANTS: dict[str, Mapping[str, Any]] = {"datcp": DATCP, "tcp": TCP}


def main(argv: list[str] | None = None) -> int:
    made = parser("datcp_fig13", __doc__)
    made.add_argument(
        "--rounds", type=int, default=6, help="per run, ten seconds each (default: %(default)s)"
    )
    arguments = made.parse_args(argv)
    runs = {
        variant: [run(arguments.out, _document(variant, seed, arguments.rounds)) for seed in arguments.seeds]
        for variant in VARIANTS
    }
    shares = {variant: {kind: _share(runs[variant], kind) for kind in FACTORS} for variant in VARIANTS}
    _plot(shares, arguments.out / "datcp_fig13.png")
    valid = all(outcome.valid for outcomes in runs.values() for outcome in outcomes)
    claims = [
        *_claims(shares, valid),
        validity(outcome for outcomes in runs.values() for outcome in outcomes),
    ]
    return conclude(arguments.out, "datcp_fig13", claims, _numbers(runs, shares))


@dataclass(frozen=True)
class Planned:
    """A flow with a deadline."""

    kind: str
    bytes: int
    start_s: float
    deadline_s: float


def plan(seed: int, rounds: int) -> list[Planned]:
    """The same flows for every variant."""
    rng = np.random.default_rng([seed, rounds])
    kinds = [list(FACTORS)[number % len(FACTORS)] for number in range(rounds)]
    return [
        _draw(rng, kind, FIRST_S + ROUND_S * number) for number, kind in enumerate(kinds) for _ in range(3)
    ]


def _draw(rng: np.random.Generator, kind: str, start_s: float) -> Planned:
    size_bytes = int(rng.uniform(*SIZES_BYTES))
    fair_s = size_bytes * 8e-6 / FAIR_MBPS
    return Planned(kind, size_bytes, start_s, round(fair_s * rng.uniform(*FACTORS[kind]), 6))


def _document(variant: str, seed: int, rounds: int) -> dict[str, Any]:
    flows = [endless(FIRST_S + ROUND_S * rounds) for _ in range(3)]
    for number, flow in enumerate(plan(seed, rounds)):
        source = {"from": f"h{5 + number % 3}"}
        flows.append(sized(flow.bytes, flow.kind, flow.deadline_s, start_s=flow.start_s, **source))
    return document(f"{variant}-seed{seed}", seed, flows, VARIANTS[variant])


def _met(outcome: Run, kind: str) -> list[bool]:
    """Of each flow of a kind, whether it was done by its deadline."""
    return [bool(outcome.flows[i].met) for i in outcome.labelled(kind)]


def _share(runs: list[Run], kind: str) -> float:
    met = [flow for outcome in runs for flow in _met(outcome, kind)]
    return sum(met) / len(met)


def _claims(shares: dict[str, dict[str, float]], valid: bool) -> list[Claim]:
    return [
        Claim(
            f"{kind} deadlines: share of flows that meet them; under TCP",
            "above TCP",
            "; ".join(f"{shares[variant][kind]:.0%}" for variant in VARIANTS),
            shares["datcp"][kind] > shares["tcp"][kind] and valid,
        )
        for kind in FACTORS
    ]


def _numbers(runs: dict[str, list[Run]], shares: dict[str, dict[str, float]]) -> dict[str, Any]:
    return {
        variant: {
            "share": shares[variant],
            "flows": {kind: sum(len(_met(outcome, kind)) for outcome in outcomes) for kind in FACTORS},
            "runs": [
                {
                    "retransmissions": outcome.retransmissions,
                    "timeouts": outcome.timeouts,
                    "valid": outcome.valid,
                }
                for outcome in outcomes
            ],
        }
        for variant, outcomes in runs.items()
    }


def _plot(shares: dict[str, dict[str, float]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    width = 0.8 / len(VARIANTS)
    for number, variant in enumerate(VARIANTS):
        places = [place + (number - 0.5) * width for place in range(len(FACTORS))]
        heights = [100 * shares[variant][kind] for kind in FACTORS]
        bars = axes.bar(
            places, heights, width * 0.95, color=SCHEMES[variant].colour, label=SCHEMES[variant].title
        )
        axes.bar_label(bars, fmt="%.0f", fontsize="small")
    axes.set_xticks(range(len(FACTORS)), list(FACTORS))
    axes.set(ylabel="flows that meet their deadline (%)", ylim=(0, 108))
    axes.legend(frameon=False, fontsize="small", loc="upper right")
    save(figure, path)


if __name__ == "__main__":
    sys.exit(main())
