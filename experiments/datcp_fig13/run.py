# SPDX-License-Identifier: Apache-2.0
"""Generated traffic (Zhang et al., Fig. 13): beside three endless flows, three with deadlines every ten seconds.

Sizes are uniform over 1 to 10 MB. The paper does not say its deadlines: here a flow's is its size over the fair rate
of the six flows (a sixth of the link), times a factor uniform over 0.9 … 1.3 (lax), 0.7 … 1.1 (moderate), 0.5 … 0.9
(tight).
Rounds of the three kinds take turns within a run.

python -m experiments.datcp_fig13.run [--out DIR] [--seeds 1 2 3] [--rounds 9]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from experiments.datcp.common import DATCP, GOODPUT_MBPS, TCP, Run, document, endless, parser, run, sized
from experiments.datcp.plot import save
from experiments.verdict import Claim, conclude
from policy.schemes import SCHEMES

FACTORS = {"lax": (0.9, 1.3), "moderate": (0.7, 1.1), "tight": (0.5, 0.9)}
SIZES_BYTES = (1_000_000, 10_000_000)
ROUND_S = 10.0
FIRST_S = 1.0
FAIR_MBPS = GOODPUT_MBPS / 6

VARIANTS: dict[str, tuple[Mapping[str, Any], bool]] = {
    "datcp": (DATCP, True),
    "tcp": (TCP, False),
    "untold": (DATCP, False),
}
"""Scheme, and whether the kernel is told of the deadlines."""
TITLES = {"datcp": "DATCP", "tcp": "TCP", "untold": "ECN, no deadlines told"}
COLOURS = {"datcp": SCHEMES["datcp"].colour, "tcp": SCHEMES["tcp"].colour, "untold": "#ccbb44"}


def main(argv: list[str] | None = None) -> int:
    made = parser("datcp_fig13", __doc__)
    made.add_argument(
        "--rounds", type=int, default=9, help="per run, ten seconds each (default: %(default)s)"
    )
    arguments = made.parse_args(argv)
    runs = {
        variant: [run(arguments.out, _document(variant, seed, arguments.rounds)) for seed in arguments.seeds]
        for variant in VARIANTS
    }
    shares = {variant: {kind: _share(runs[variant], kind) for kind in FACTORS} for variant in VARIANTS}
    _plot(shares, arguments.out / "datcp_fig13.png")
    valid = all(outcome.valid for outcomes in runs.values() for outcome in outcomes)
    return conclude(arguments.out, "datcp_fig13", _claims(shares, valid), _numbers(runs, shares))


@dataclass(frozen=True)
class Planned:
    """A flow with a deadline, whether the kernel is told of it or not."""

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
    scheme, told = VARIANTS[variant]
    flows = [endless(FIRST_S + ROUND_S * rounds) for _ in range(3)]
    for number, flow in enumerate(plan(seed, rounds)):
        deadline_s = flow.deadline_s if told else None
        source = f"h{5 + number % 3}"
        flows.append(sized(flow.bytes, flow.kind, deadline_s, start_s=flow.start_s, **{"from": source}))
    return document(f"{variant}-seed{seed}", seed, flows, scheme)


def _met(outcome: Run, kind: str) -> list[bool]:
    """Of each flow of a kind, whether it was done by its deadline."""
    sent = outcome.flows[3:]
    planned = plan(outcome.seed, len(sent) // 3)
    return [
        flow.fct_s is not None and flow.fct_s <= wanted.deadline_s
        for flow, wanted in zip(sent, planned, strict=True)
        if wanted.kind == kind
    ]


def _share(runs: list[Run], kind: str) -> float:
    met = [flow for outcome in runs for flow in _met(outcome, kind)]
    return sum(met) / len(met)


def _claims(shares: dict[str, dict[str, float]], valid: bool) -> list[Claim]:
    return [
        Claim(
            f"{kind} deadlines: share of flows that meet them; under TCP; when untold",
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
        places = [place + (number - 1) * width for place in range(len(FACTORS))]
        heights = [100 * shares[variant][kind] for kind in FACTORS]
        bars = axes.bar(places, heights, width * 0.95, color=COLOURS[variant], label=TITLES[variant])
        axes.bar_label(bars, fmt="%.0f", fontsize="small")
    axes.set_xticks(range(len(FACTORS)), list(FACTORS))
    axes.set(ylabel="flows that meet their deadline (%)", ylim=(0, 108))
    axes.legend(frameon=False, fontsize="small", loc="upper right")
    save(figure, path)


if __name__ == "__main__":
    sys.exit(main())
