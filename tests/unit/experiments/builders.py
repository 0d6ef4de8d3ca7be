# SPDX-License-Identifier: Apache-2.0
"""Finished runs without bundles, for tests of what is made of them."""

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
    """A valid run with all flows finished, unless `row` says something else."""
    return Run(variant, load, seed, NOWHERE, {"valid": True, "unfinished": 0, **row})


def runs_of(values: Mapping[tuple[str, float, int], float]) -> Runs:
    """Runs with one column "x", from {(variant, load, seed): value}."""
    return Runs([run_of(*where, x=value) for where, value in values.items()])


def sweep_of(
    schemes: Iterable[str], loads: Sequence[float], columns: Iterable[str], value: Callable[[str], Any]
) -> Runs:
    """Three seeds of each scheme and load; a scheme has the same value in all these columns."""
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
    """What a command line asks of an experiment."""
    return read_command(experiment, words)


def claim(claims: Iterable[Claim], start: str) -> Claim:
    """The only claim whose text starts so."""
    (found,) = [c for c in claims if c.what.startswith(start)]
    return found


def flow(label: str, **values: Any) -> ListedFlow:
    """A flow of 1 MB that starts at 1 s and takes 0.5 s."""
    usual: dict[str, Any] = {"bytes": 1_000_000, "start_s": 1.0, "fct_s": 0.5}
    return ListedFlow(**{"label": label, **usual, "deadline_s": None, "met": None, "reason": "", **values})


def sampled(*samples: tuple[float, int]) -> ListedFlows:
    """One flow that began at 1 s; samples are (seconds, acknowledged bytes)."""
    taken = [{"at_s": at_s, "acked_bytes": acked, "precedence": None} for at_s, acked in samples]
    return ListedFlows([flow("x")], [taken], 0, 0)
