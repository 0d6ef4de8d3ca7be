# SPDX-License-Identifier: Apache-2.0
"""The runs that an experiment plans: the points of a sweep, or runs with folders of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.kit.emulated import as_emulated
from experiments.kit.experiment import Given, option
from sluice.policy.fabrics import SIMULATOR
from sluice.runs.files import read_document, scenario_with, setting
from sluice.sweep.points import Point, points

SET = option(
    "--set",
    type=setting,
    action="append",
    default=[],
    metavar="TABLE.KEY=VALUE",
    help="a key of the scenario for all runs, for example --set fabric.buffer=240KB; may be repeated",
)


@dataclass(frozen=True)
class Planned:
    """Runs whose bundles are in one folder."""

    folder: Path
    points: Sequence[Point]


Plan = Callable[[Given], Mapping[str, Planned]]
"""Returns the runs by the name of their group. Most experiments have one group."""


@dataclass(frozen=True)
class NamedPoint(Point):
    """A run with a folder name of its own, instead of one made of scheme, load and seed."""

    folder: str

    @property
    def name(self) -> str:
        return self.folder


def one_group(given: Given, found: Sequence[Point], folder: Path | None = None) -> Mapping[str, Planned]:
    """Return a plan with one group of runs. Their bundles are in `folder`, by default in `--out`."""
    return {"": Planned(folder or given.out, found)}


def axes(
    given: Given,
    scenario: Path | Mapping[str, Any],
    *,
    schemes: Sequence[str] | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Point]:
    """Return every combination of schemes, loads and seeds, as `sluice sweep` makes them.

    `variants`: name → its difference from the scenario, as in a [sweep.scheme] table. With
    variants, these are the schemes. `settings`: values for all points by key ("workload.flows").
    """
    document = read_document(scenario) if isinstance(scenario, Path) else scenario
    if variants is not None:
        document = {**document, "sweep": {"scheme": variants, "schemes": list(variants)}}
    flows = {"workload.flows": given.flows} if given.flows else {}
    return points(
        document,
        schemes=schemes,
        loads=given.loads or None,
        seeds=given.seeds or None,
        settings={**flows, **(settings or {}), **dict(given.options.get("set", ()))},
    )


def named(document: Mapping[str, Any], variant: str, seed: int, **tables: Any) -> NamedPoint:
    """Return a run in the folder `<variant>-seed<seed>`: the scenario with these tables changed."""
    folder = f"{variant}-seed{seed}".replace(" ", "-")
    _, resolved, _ = scenario_with(document, name=folder, seed=seed, **tables)
    return NamedPoint(variant, None, seed, resolved, folder)


def as_on_testbed(given: Given, found: Sequence[Point]) -> list[Point]:
    """Return the points of a testbed's scenario. On the simulator they have links like the
    testbed's emulated ones."""
    if given.on != SIMULATOR:
        return list(found)
    return [replace(point, document=as_emulated(point.document)) for point in found]
