# SPDX-License-Identifier: Apache-2.0
"""All experiments as one table: for experiments/README.md, and for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

from experiments.kit.experiment import Experiment
from sluice.policy.errors import SluiceError

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- begin: python -m experiments --table -->", "<!-- end -->"

Catalogue = Mapping[str, Sequence[Experiment[Any]]]
"""Folder below experiments/ → its experiments."""


def catalogue(modules: Mapping[str, str], experiments: Sequence[Experiment[Any]]) -> Catalogue:
    """Group the experiments by folder. `modules`: name of an experiment → its module below `experiments`."""
    folders = {e.name: "/".join(modules[e.name].split(".")[:2]) for e in experiments}
    return {folder: list(some) for folder, some in groupby(experiments, key=lambda e: folders[e.name])}


def table(found: Catalogue) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| experiment | claim | paper's figure | command | minutes | root |"
    yield "|---|---|---|---|---|---|"
    for folder, experiments in found.items():
        for one in experiments:
            root = "yes" if one.needs_root else "no"
            yield (
                f"| [`{one.name}`]({folder}/README.md) | {one.claim} | {one.figure or '–'} "
                f"| `{_command(one)}` | {one.minutes:g} | {root} |"
            )


def _command(experiment: Experiment[Any]) -> str:
    """Return the command with the arguments that the experiment needs."""
    needed = [option.flag.upper() for option in experiment.options if not option.flag.startswith("-")]
    arguments = f' ARGS="{" ".join(needed)}"' if needed else ""
    return f"make experiment NAME={experiment.name}{arguments}"


def with_table(readme: str, found: Catalogue) -> str:
    """Return a README's text with a new table. SluiceError: the text has no place for the table."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SluiceError(
            f"{README}: the lines {BEGIN} and {END} are missing; add them where the table belongs"
        )
    return "\n".join([before + begin, "", *table(found), "", end + after])


def listing(found: Catalogue) -> Iterator[str]:
    """Yield the experiments of each folder with their claims, for a terminal."""
    for folder, experiments in found.items():
        yield f"\n{folder}"
        for one in experiments:
            cost = f"{one.minutes:g} min{', root' if one.needs_root else ''}"
            text = f"{one.claim} [{cost}]"
            yield fill(text, 100, initial_indent=f"  {one.name:22}", subsequent_indent=" " * 24)
