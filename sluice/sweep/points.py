# SPDX-License-Identifier: Apache-2.0
"""The points of a sweep: a scenario with every combination of scheme, load and seed. All are
checked before any runs.

The [sweep] table of a scenario file can set them. Every key of it is optional:

    [sweep]
    schemes = ["dctcp", "pias", "pias-10KB"]      # what the command line does not say
    loads = [0.5, 0.8]
    seeds = [1, 2, 3]
    [sweep.scheme.pias]                           # keys of [scheme] for this scheme …
    queues = 8
    [sweep.scheme.pias.0.8]                       # … and for one load of it
    thresholds = ["1327KB", "1940KB", …]
    [sweep.scheme.pias.transport]                 # keys of another table for this scheme
    rto_min = "2ms"
    [sweep.scheme.pias-10KB]                      # a variant: a name of its own, and the scheme that it is
    name = "pias"
    thresholds = ["10KB"]
"""

import copy
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.fabrics import SIMULATOR
from sluice.policy.schema.entries import entry, read
from sluice.policy.schema.kinds import ListOf
from sluice.policy.workload.scenario import LOAD, SCHEME, SEED
from sluice.runs.bundle import is_complete
from sluice.runs.files import Resolved, changed, check_on, resolve
from sluice.runs.progress import predicted_work

Document = dict[str, Any]

CONFIG = "sweep.json"
"""Points and jobs, in the folder of a sweep."""
LOG, POINT_LOG = "snakemake.log", "log.txt"
"""Of Snakemake on a cluster, and of each point."""
STATUS = ".status"
"""Folder with the progress.json of each point, in the folder of a sweep. A point's own folder has its bundle alone."""

TABLES = ("fabric", "transport", "workload", "deadlines", "simulator")
"""Tables that a scheme's table in [sweep] may change, besides [scheme] itself."""


@dataclass(frozen=True)
class SweepKeys:
    """The [sweep] table of a scenario, without [sweep.scheme]."""

    schemes: tuple[str, ...] | None = entry(
        ListOf(SCHEME, shortest=1), "Schemes, or variants of [sweep.scheme].", default=None
    )
    loads: tuple[float, ...] | None = entry(
        ListOf(LOAD, shortest=1), "Loads of the host links.", default=None
    )
    seeds: tuple[int, ...] | None = entry(ListOf(SEED, shortest=1), "Seeds; one run for each.", default=None)


AXES = {"seed": "--seeds", "scheme.name": "--schemes", "workload.load": "--loads"}

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_WHOLE = re.compile(r"\d+")
_NUMBER = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    scheme: str
    """The name of a scheme, or of a variant in [sweep.scheme]."""
    load: float | None
    """None: the scenario lists its flows and has no load."""
    seed: int
    document: Document
    """The resolved scenario."""
    work: float | None = field(default=None, compare=False, kw_only=True)
    """Its work, as `predicted_work` returns it."""

    @property
    def name(self) -> str:
        """The bundle's folder inside the sweep's folder. Names sort in the order of their numbers."""
        load = [] if self.load is None else [f"load-{self.load:g}"]
        return "/".join([self.scheme, *load, f"seed-{self.seed:02d}"])


def check_point(document: Document, on: str) -> Resolved:
    """Return the scenario of a point. FieldError: it is not valid, or the fabric `on` cannot run it."""
    resolved = resolve(document)
    check_on(resolved.scenario, on)
    return resolved


def points(
    document: Mapping[str, Any],
    *,
    schemes: Sequence[str] | None = None,
    loads: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    most: int | None = None,
    on: str | None = None,
    check: Callable[[Document], Resolved] = resolve,
) -> list[Point]:
    """Return every combination. A missing axis comes from the document's [sweep] table, otherwise
    from the scenario. Short runs on the simulator (`on`) have five seeds then, from the scenario's own on.

    `settings` are values for all points by key ("fabric.buffer"); they have the highest
    precedence. SluiceError names the point and the key of the first combination that `check`
    refuses, or says that there are more than `most` of them.
    """
    sweep = document.get("sweep", {})
    if not isinstance(sweep, Mapping):
        raise FieldError("sweep", "must be a table")
    plans = sweep.get("scheme", {})  # by the names of schemes, which are free
    planned = read(SweepKeys, {key: value for key, value in sweep.items() if key != "scheme"}, "sweep")
    axes = (
        _axis(schemes, planned.schemes, _get(document, "scheme.name")),
        _axis(loads, planned.loads, _get(document, "workload.load")),
        _axis(seeds, planned.seeds, document.get("seed", 1)),
    )
    for key in AXES.keys() & (settings or {}).keys():
        raise SluiceError(f"{key} is an axis of the sweep; set it with {AXES[key]}")
    count = math.prod(map(len, axes))
    if most is not None and count > most:
        raise FieldError("sweep", f"{count} points are too many; at most {most}")
    base = {key: value for key, value in document.items() if key != "sweep"}
    combinations = []
    for scheme, load, seed in product(*axes):
        if not _LABEL.fullmatch(str(scheme)):
            raise FieldError(
                "scheme",
                f"{scheme!r} cannot name a folder; allowed are letters, digits, '.', '_', '+' and '-'",
            )
        plan = plans.get(scheme, {}) if isinstance(plans, Mapping) else None
        if not isinstance(plan, Mapping):
            raise FieldError(f"sweep.scheme.{scheme}", "must be a table")
        plan = {"name": scheme, **plan}  # the `name` of a variant is its scheme
        resolved = _resolve(base, plan, load, seed, settings or {})
        combinations.append(Point(scheme, load, seed, resolved))
    works = _checked_works(combinations, check, on or SIMULATOR)
    measured = [replace(point, work=works[point.scheme, point.load]) for point in combinations]
    repeats = seeds is None and planned.seeds is None and on == SIMULATOR and _are_short(measured)
    if repeats and (most is None or count * DEFAULT_SEEDS <= most):
        seeded = [(point, point.seed + more) for point in measured for more in range(DEFAULT_SEEDS)]
        return [replace(p, seed=seed, document={**p.document, "seed": seed}) for p, seed in seeded]
    return measured


DEFAULT_SEEDS = 5
SHORT_BYTES, START_BYTES = 70e9, 1.5e9
"""Bytes that cross ports in about a minute of one core, and in the time that the process of a point takes to start. All
machines choose the same seeds by them."""


def _are_short(points: Sequence[Point]) -> bool:
    """Whether all points with the default number of seeds are short, and the seeds differ."""
    if not all(point.document.get("workload", {}).get("vary", True) for point in points):
        return False
    return DEFAULT_SEEDS * sum(START_BYTES + (point.work or SHORT_BYTES) for point in points) <= SHORT_BYTES


def _axis(given: Sequence[Any] | None, planned: Sequence[Any] | None, own: object) -> list[Any]:
    values = given if given is not None else planned
    return list(dict.fromkeys([own] if values is None else values))


def _resolve(
    base: Mapping[str, Any], plan: Document, load: float | None, seed: int, settings: Mapping[str, Any]
) -> Document:
    """Return the scenario of one point: the file's, changed by the scheme's plan, the load's plan
    and the settings."""
    resolved: Document = copy.deepcopy(dict(base))
    resolved["seed"] = seed
    if load is not None:
        resolved["workload"] = {**resolved.get("workload", {}), "load": load}
    if _get(base, "scheme.name") != plan["name"]:
        resolved["scheme"] = {}  # settings of one scheme do not apply to another
    by_load, always = _split(plan)
    for changes in (always, by_load.get(load, {})):
        for key, value in changes.items():
            table, values = (key, value) if key in TABLES else ("scheme", {key: value})
            if not isinstance(values, Mapping):
                name = resolved["scheme"].get("name", "")
                raise FieldError(f"sweep.scheme.{name}.{key}", "must be a table")
            resolved[table] = {**resolved.get(table, {}), **values}
    return changed(resolved, settings)


def _split(plan: Document) -> tuple[dict[float | None, Document], Document]:
    """Return the plans for single loads, and the rest. TOML reads [sweep.scheme.pias.0.8] as 8 in
    0; "0.8" works, too."""
    by_load: dict[float | None, Document] = {}
    always: Document = {}
    for key, value in plan.items():
        if not _NUMBER.fullmatch(key):
            always[key] = value
        elif _WHOLE.fullmatch(key) and value and all(_WHOLE.fullmatch(inner) for inner in value):
            by_load |= {float(f"{key}.{inner}"): changes for inner, changes in value.items()}
        else:
            by_load[float(key)] = value
    return by_load, always


def _get(document: Mapping[str, Any], key: str) -> Any:
    value: Any = document
    for step in key.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _checked_works(
    points: Iterable[Point], check: Callable[[Document], Resolved], on: str
) -> dict[tuple[str, float | None], float | None]:
    """Check the points, and return their work by scheme and load. Those that differ only by their seed are checked
    once."""
    works: dict[tuple[str, float | None], float | None] = {}
    for point in points:
        if (point.scheme, point.load) not in works:
            try:
                works[point.scheme, point.load] = predicted_work(check(point.document), on)
            except FieldError as error:
                raise SluiceError(f"{point.name}: {error}") from None
    return works


def is_finished(out: Path, point: Point) -> bool:
    """Whether the folder holds a complete bundle of exactly this scenario."""
    return is_complete(out / point.name, point.document)
