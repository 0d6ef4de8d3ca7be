# SPDX-License-Identifier: Apache-2.0
"""A case on both simulators."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.checks.ns3.cases import Case
from experiments.checks.ns3.compare import Floats
from experiments.checks.ns3.ns3 import Outcome, run_on_ns3
from experiments.checks.ns3.ours import run_on_ours
from sluice.policy.workload.flows import FlowBatch
from sluice.terminal import console

REPEATS = 10
JITTER_S = 100e-9


@dataclass(frozen=True)
class Pair:
    """A case with one seed on both simulators."""

    flows: FlowBatch
    ours: Outcome
    ns3: Outcome
    shipped: Outcome | None
    """ns-3 with its mistakes, if that was run."""


def run_pairs(case: Case, out: Path, *, shipped: bool) -> list[Pair]:
    """Run the case for each seed. Unchanged results of an earlier call of ns-3 are read again."""
    console.print(f"{case.name}, seeds {', '.join(map(str, case.seeds))}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda seed: _run_pair(case, seed, out, shipped=shipped), case.seeds))


def _run_pair(case: Case, seed: int, out: Path, *, shipped: bool) -> Pair:
    scenario, topology, flows = case.made(seed)
    network = (scenario, topology, flows, case.until_s)
    folder = out / f"{case.name}-seed{seed}"
    return Pair(
        flows,
        run_on_ours(*network, case.watch),
        run_on_ns3(*network, folder, case.watch),
        run_on_ns3(*network, folder / "shipped", case.watch, mended=False) if shipped else None,
    )


def sides(pairs: list[Pair]) -> tuple[list[Outcome], list[Outcome]]:
    """Return (our outcomes, ns-3's outcomes)."""
    return [pair.ours for pair in pairs], [pair.ns3 for pair in pairs]


def repeats(case: Case) -> list[list[Outcome]]:
    """Return our runs that show chance: every seed, REPEATS times, each start up to JITTER_S later."""
    return [[_moved(case, seed, repeat) for seed in case.seeds] for repeat in range(REPEATS)]


def _moved(case: Case, seed: int, repeat: int) -> Outcome:
    scenario, topology, flows = case.made(seed)
    shift = np.random.default_rng((seed, repeat)).uniform(0, JITTER_S, len(flows))
    start_s = np.maximum.accumulate(flows.start_s + shift)
    return run_on_ours(scenario, topology, replace(flows, start_s=start_s), case.until_s, None)


def times_us(outcomes: Sequence[Outcome]) -> Floats:
    """Return the completion times of several runs, one after the other."""
    return np.concatenate([outcome.fct_us for outcome in outcomes])
