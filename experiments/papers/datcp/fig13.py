# SPDX-License-Identifier: Apache-2.0
"""Generated traffic (Zhang et al., Fig. 13): beside three endless flows, three with deadlines every ten seconds.

Sizes are uniform over 10 to 100 MB (a tenth of it on the testbed). The paper does not say its deadlines: here a flow's
is its size over the fair rate of the six flows (a sixth of the link), times a factor uniform over 0.9 … 1.3 (lax),
0.7 … 1.1 (moderate), 0.5 … 0.9 (tight). Rounds of the three kinds take turns within a run. Against TCP; and on the
simulator, which has switches that grant rates, against D³, against the standard ECN flows that DATCP's are when
nobody tells of deadlines, and against TCP with a priority for each class of sizes (all of these are in one class).

python -m experiments datcp_fig13 [--out DIR] [--seeds 1 2 3] [--rounds 6]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from experiments.kit.verdict import Claim, conclude
from experiments.papers.datcp.common import (
    DATCP,
    SMALL,
    TCP,
    Run,
    Setup,
    document,
    endless,
    parser,
    run,
    sized,
    validity,
)
from experiments.papers.datcp.plot import save
from policy.fabrics import TESTBED
from policy.schemes import SCHEMES

FACTORS = {"lax": (0.9, 1.3), "moderate": (0.7, 1.1), "tight": (0.5, 0.9)}
PAPER_BYTES = (10_000_000, 100_000_000)
ROUND_S = 10.0
FIRST_S = 1.0
FLOWS = 6
"""Under way at once: what a fair rate is a part of."""


@dataclass(frozen=True)
class Variant:
    """A scheme; and whether flows are told their deadlines."""

    title: str
    scheme: Mapping[str, Any]
    told: bool = True

    @property
    def colour(self) -> str:
        return SCHEMES[self.scheme["name"]].colour if self.told else "#d9a6c1"


VARIANTS = {"datcp": Variant("DATCP", DATCP), "tcp": Variant("TCP", TCP)}
SIMULATED = {
    "datcp": VARIANTS["datcp"],
    "d3": Variant("D³", {"name": "d3"}),
    "untold": Variant("ECN, no deadlines told", DATCP, told=False),
    "tcp": VARIANTS["tcp"],
    "tcp-priority": Variant("TCP, priority by class", {"name": "tcp-priority"}),
}
ABOUT = 0.1
"""DATCP and D³ meet "similar" shares when they differ by no more."""


def main(argv: list[str] | None = None, setup: Setup = SMALL) -> int:
    made = parser("datcp_fig13", __doc__, setup=setup)
    made.add_argument(
        "--rounds", type=int, default=6, help="per run, ten seconds each (default: %(default)s)"
    )
    arguments = made.parse_args(argv)
    runs = {
        variant: [
            run(arguments.out, _document(variant, seed, arguments.rounds, setup), setup)
            for seed in arguments.seeds
        ]
        for variant in variants(setup)
    }
    plans = {seed: plan(seed, arguments.rounds, setup) for seed in arguments.seeds}
    shares = {
        variant: {kind: _share(outcomes, plans, kind) for kind in FACTORS}
        for variant, outcomes in runs.items()
    }
    _plot(shares, setup, arguments.out / "datcp_fig13.png")
    valid = all(outcome.valid for outcomes in runs.values() for outcome in outcomes)
    claims = [
        *_claims(shares, valid),
        validity(outcome for outcomes in runs.values() for outcome in outcomes),
    ]
    return conclude(arguments.out, "datcp_fig13", claims, _numbers(runs, shares))


def variants(setup: Setup) -> dict[str, Variant]:
    return VARIANTS if setup.on == TESTBED else SIMULATED


@dataclass(frozen=True)
class Planned:
    """A flow with a deadline."""

    kind: str
    bytes: int
    start_s: float
    deadline_s: float


def plan(seed: int, rounds: int, setup: Setup = SMALL) -> list[Planned]:
    """The same flows for every variant."""
    rng = np.random.default_rng([seed, rounds])
    kinds = [list(FACTORS)[number % len(FACTORS)] for number in range(rounds)]
    return [
        _draw(rng, kind, FIRST_S + ROUND_S * number, setup)
        for number, kind in enumerate(kinds)
        for _ in range(3)
    ]


def _draw(rng: np.random.Generator, kind: str, start_s: float, setup: Setup) -> Planned:
    size_bytes = int(rng.uniform(*map(setup.size_bytes, PAPER_BYTES)))
    fair_s = size_bytes * 8e-6 / (setup.goodput_mbps / FLOWS)
    return Planned(kind, size_bytes, start_s, round(fair_s * rng.uniform(*FACTORS[kind]), 6))


def _document(variant: str, seed: int, rounds: int, setup: Setup = SMALL) -> dict[str, Any]:
    made = variants(setup)[variant]
    flows = [endless(FIRST_S + ROUND_S * rounds) for _ in range(3)]
    for number, flow in enumerate(plan(seed, rounds, setup)):
        source = {"from": f"h{5 + number % 3}"}
        told_s = flow.deadline_s if made.told else None
        flows.append(sized(flow.bytes, flow.kind, told_s, start_s=flow.start_s, **source))
    return document(f"{variant}-seed{seed}", seed, flows, made.scheme, setup)


def met(outcome: Run, planned: list[Planned], kind: str) -> list[bool]:
    """Of each flow of a kind, whether it was done by its deadline, which it may not have been told."""
    flows = [flow for flow in planned if flow.kind == kind]
    times_s = [outcome.flows[i].fct_s for i in outcome.labelled(kind)]
    return [
        time_s is not None and time_s <= flow.deadline_s for time_s, flow in zip(times_s, flows, strict=True)
    ]


def _share(runs: list[Run], plans: Mapping[int, list[Planned]], kind: str) -> float:
    each = [flow for outcome in runs for flow in met(outcome, plans[outcome.seed], kind)]
    return sum(each) / len(each)


def _claims(shares: dict[str, dict[str, float]], valid: bool) -> list[Claim]:
    claims = [
        Claim(
            f"{kind} deadlines: share of flows that meet them; under TCP",
            "above TCP",
            f"{shares['datcp'][kind]:.0%}; {shares['tcp'][kind]:.0%}",
            shares["datcp"][kind] > shares["tcp"][kind] and valid,
        )
        for kind in FACTORS
    ]
    if "d3" in shares:
        claims += [_similar(kind, shares["datcp"][kind], shares["d3"][kind], valid) for kind in FACTORS]
    return claims


def _similar(kind: str, datcp: float, d3: float, valid: bool) -> Claim:
    what = f"{kind} deadlines: share of flows that meet them; under D³"
    return Claim(what, "similar", f"{datcp:.0%}; {d3:.0%}", abs(datcp - d3) <= ABOUT and valid)


def _numbers(runs: dict[str, list[Run]], shares: dict[str, dict[str, float]]) -> dict[str, Any]:
    return {
        variant: {
            "share": shares[variant],
            "flows": {kind: sum(len(outcome.labelled(kind)) for outcome in outcomes) for kind in FACTORS},
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


def _plot(shares: dict[str, dict[str, float]], setup: Setup, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6.5 + len(shares) / 2, 3.6), layout="constrained")
    width = 0.8 / len(shares)
    for number, variant in enumerate(shares):
        places = [place + (number - (len(shares) - 1) / 2) * width for place in range(len(FACTORS))]
        heights = [100 * shares[variant][kind] for kind in FACTORS]
        made = variants(setup)[variant]
        bars = axes.bar(places, heights, width * 0.95, color=made.colour, label=made.title)
        axes.bar_label(bars, fmt="%.0f", fontsize="small")
    axes.set_xticks(range(len(FACTORS)), list(FACTORS))
    axes.set(ylabel="flows that meet their deadline (%)", ylim=(0, 108))
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, path)


if __name__ == "__main__":
    sys.exit(main())
