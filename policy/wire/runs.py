# SPDX-License-Identifier: Apache-2.0
"""The request that starts a run or a sweep from the page of runs."""

from dataclasses import dataclass

from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Choice, Flag, ListOf, Text, Whole
from sluice.policy.workload.scenario import LOAD, SCHEME, SEED

MOST_SCENARIO_CHARACTERS = 64_000
MOST_VALUES = 50
"""Values on one axis of a sweep."""


@dataclass(frozen=True)
class RunRequest:
    """A run or a sweep that someone wants to start."""

    on: str = entry(Choice((SIMULATOR, TESTBED)), "Where to run it.")
    scenario: str | None = entry(
        Text(longest=64), "Name of a scenario that Sluice includes. Give this or `text`.", default=None
    )
    text: str | None = entry(
        Text(longest=MOST_SCENARIO_CHARACTERS), "The scenario itself, as TOML.", default=None
    )
    flows: int | None = entry(
        Whole(1, 1_000_000_000), "Number of flows, instead of the scenario's.", default=None
    )
    settings: tuple[str, ...] = entry(
        ListOf(Text(longest=500), longest=50),
        'Changed keys of the scenario, each as "workload.load=0.5".',
        default=(),
    )
    sweep: bool = entry(
        Flag(), "Run every combination of schemes, loads and seeds, as `sluice sweep` does.", default=False
    )
    schemes: tuple[str, ...] | None = entry(
        ListOf(SCHEME, shortest=1, longest=MOST_VALUES),
        "Schemes of a sweep, or variants of the scenario's `[sweep.scheme]`. Without it, as in the scenario.",
        default=None,
    )
    loads: tuple[float, ...] | None = entry(
        ListOf(LOAD, shortest=1, longest=MOST_VALUES),
        "Loads of a sweep. Without it, as in the scenario.",
        default=None,
    )
    seeds: tuple[int, ...] | None = entry(
        ListOf(SEED, shortest=1, longest=MOST_VALUES),
        "Seeds of a sweep. Without it, as in the scenario.",
        default=None,
    )
    confirmed: bool = entry(Flag(), "Start it also if it takes hours.", default=False)
