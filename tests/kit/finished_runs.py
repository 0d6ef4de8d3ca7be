# SPDX-License-Identifier: Apache-2.0
"""Finished runs without bundles, for tests of the code that reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.kit.experiment import Experiment, Given
from experiments.kit.listed import ListedFlow, ListedFlows
from experiments.kit.main import read_command
from experiments.kit.runs import Run, Runs
from experiments.kit.verdict import Claim

NOWHERE = Path("nowhere")


def run_of(variant: str, load: float | None = None, seed: int = 1, **row: Any) -> Run:
    """Return a valid run with all flows finished, unless `row` sets something else."""
    return Run(variant, load, seed, NOWHERE, {"valid": True, "unfinished": 0, **row})


def runs_of(values: Mapping[tuple[str, float, int], float]) -> Runs:
    """Return runs with one column "x", from {(variant, load, seed): value}."""
    return Runs([run_of(*where, x=value) for where, value in values.items()])


def sweep_of(
    schemes: Iterable[str], loads: Sequence[float], columns: Iterable[str], value: Callable[[str], Any]
) -> Runs:
    """Return three seeds of each scheme and load. A scheme has the same value in all these columns."""
    names = list(columns)
    return Runs(
        [
            run_of(scheme, load, seed, **{name: value(scheme) for name in names})
            for scheme in schemes
            for load in loads
            for seed in (1, 2, 3)
        ]
    )


def given(experiment: Experiment[Any], *words: str) -> Given:
    """Return the values of a command line."""
    return read_command(experiment, words)


def claim(claims: Iterable[Claim], start: str) -> Claim:
    """Return the only claim whose text starts with this."""
    (found,) = [c for c in claims if c.what.startswith(start)]
    return found


def flow(label: str, **values: Any) -> ListedFlow:
    """Return a flow of 1 MB that starts at 1 s and takes 0.5 s."""
    usual: dict[str, Any] = {"bytes": 1_000_000, "start_s": 1.0, "fct_s": 0.5}
    return ListedFlow(**{"label": label, **usual, "deadline_s": None, "met": None, "reason": "", **values})


def sampled(*samples: tuple[float, int]) -> ListedFlows:
    """Return one flow that began at 1 s. Samples are (seconds, acknowledged bytes)."""
    taken = [{"at_s": at_s, "acked_bytes": acked, "precedence": None} for at_s, acked in samples]
    return ListedFlows([flow("x")], [taken], 0, 0)
