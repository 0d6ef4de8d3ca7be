# SPDX-License-Identifier: Apache-2.0
"""Usual forms of a paper's claims."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from experiments.kit.paired import Changes, Difference
from experiments.kit.runs import Runs
from experiments.kit.verdict import Claim, over_loads

ByLoad = Mapping[float, float]


def at_most(
    what: str, paper: str, ratios: ByLoad, limit: float, *, once: float = inf, explanation: str = ""
) -> Claim:
    """Claim that no ratio exceeds `limit`, and that at least one is at most `once`."""
    holds = max(ratios.values()) <= limit and min(ratios.values()) <= once
    return Claim(what, paper, over_loads(ratios), holds, explanation)


def below_one(what: str, ratios: ByLoad, explanation: str = "") -> Claim:
    """Claim that every ratio is below 1."""
    return Claim(what, "lower", over_loads(ratios), max(ratios.values()) < 1, explanation)


def lower(what: str, paper: str, change: Difference | Changes, explanation: str = "") -> Claim:
    """Claim that the figure is lower than the other's, not by chance; with loads, at every load."""
    return Claim(what, paper, str(change), change.lower, explanation)


def within(what: str, paper: str, change: Difference, limit: float, explanation: str = "") -> Claim:
    """Claim that the mean differs by at most `limit`, a relative difference, either way."""
    return Claim(what, paper, str(change), abs(change.mean) <= limit, explanation)


def noted(what: str, measured: str) -> Claim:
    """Return a figure that is worth knowing, without a value of the paper."""
    return Claim(what, "–", measured, True)


def all_finished(runs: Runs, what: str = "unfinished flows") -> Claim:
    return Claim(what, "0", str(runs.unfinished), runs.unfinished == 0)


def all_valid(runs: Runs) -> list[Claim]:
    """Claim that all runs are valid and all flows finished: an invalid run proves nothing."""
    valid = sum(run.valid for run in runs.runs)
    total = len(runs.runs)
    return [Claim("runs that are valid", "all", f"{valid} of {total}", valid == total), all_finished(runs)]
