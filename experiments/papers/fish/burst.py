# SPDX-License-Identifier: Apache-2.0
"""FISH against PIAS on real switches as a burst grows denser, seed by seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.kit.experiment import Claim, Experiment, Given, option
from experiments.kit.runners import SET, Planned, RunAfterRun, as_on_testbed, axes, one_group
from experiments.kit.runs import (
    BOTH_FABRICS,
    Difference,
    Results,
    Runs,
    all_valid,
    lower,
    scheme_table,
    signed,
    within,
)

SCENARIO = Path(__file__).with_name("burst.toml")
GAPS = ("125ms", "12.5ms", "1.25ms")
"""The paper's gaps of 1, 0.1 and 0.01 ms, 125 times as long because the rate is a 125th."""
CLOSE = 0.04
SMALL = {"small mean": "fct_us_small_mean", "small p99": "fct_us_small_p99"}
WHY = (
    "taking turns serves all flows alike, a packet a round; a FIFO serves a flow by its window. "
    "Of the small flows only the shortest gain, unless the queue is full of others' large windows, "
    "for example when all start at once (docs/measurements/fish.md)"
)


def variants(gaps: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return both schemes with the same thresholds and marking, at every gap."""
    return {
        f"{scheme}-{gap}": {"name": scheme, "mark_at": "20pkt", "workload": {"interarrival": gap}}
        for gap in gaps
        for scheme in ("pias", "fish")
    }


def plan(given: Given) -> Mapping[str, Planned]:
    points = axes(given, SCENARIO, variants=variants(given["gaps"]))
    return one_group(given, as_on_testbed(given, points))


def claims(results: Results) -> list[Claim]:
    """Claim that small flows get faster, more so in a denser burst, and that large ones stay within 4 %."""
    verdict = all_valid(results.runs)
    for gap in results.given["gaps"]:
        for title, column in SMALL.items():
            what = f"{title}, gap {gap}: FISH against PIAS"
            verdict.append(lower(what, "lower", change(results.runs, column, gap), WHY))
        what = f"large mean, gap {gap}: FISH against PIAS"
        large = change(results.runs, "fct_us_large_mean", gap)
        verdict.append(within(what, signed("±4%"), large, CLOSE))
    return verdict


def change(runs: Runs, column: str, gap: str) -> Difference:
    return runs.change(column, f"fish-{gap}", f"pias-{gap}")


EXPERIMENT = Experiment(
    claim="On real switches FISH gets small flows done sooner than PIAS, the denser the burst the more.",
    figure="Zhang and Hu, Fig. 6, tables 1 and 2",
    minutes=20,
    runner=RunAfterRun(plan),
    on=BOTH_FABRICS,
    seeds=(1, 2, 3, 4, 5),
    flows=100,
    options=(option("--gaps", "mean time between two starts", nargs="+", default=list(GAPS)), SET),
    quick={"seeds": (1, 2), "gaps": ["1.25ms"], "flows": 50},
    claims=claims,
    table=scheme_table,
)
