# SPDX-License-Identifier: Apache-2.0
"""The request that starts a run from the page of runs."""

from __future__ import annotations

from dataclasses import dataclass

from policy.entries import entry
from policy.fabrics import SIMULATOR, TESTBED
from policy.kinds import Choice, Flag, ListOf, Text, Whole

MOST_SCENARIO_CHARACTERS = 64_000


@dataclass(frozen=True)
class RunRequest:
    """A run that someone wants to start."""

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
    confirmed: bool = entry(Flag(), "Start it also if it takes hours.", default=False)
