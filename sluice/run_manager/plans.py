# SPDX-License-Identifier: Apache-2.0
"""What the browser wants to start: checked by the functions that check the command line, and kept away from files.

A request names a scenario of sluice/data/scenarios or brings the text of one. It cannot name files of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from sluice.policy.errors import FieldError, SluiceError, guess, shortened
from sluice.policy.fabrics import SIMULATOR
from sluice.policy.schema.entries import read
from sluice.policy.wire.runs import RunRequest
from sluice.policy.workload.scenario import Scenario, no_traces
from sluice.policy.workload.sizes import SizeCdf
from sluice.runs.fabrics import check_on
from sluice.runs.files import (
    SCENARIOS,
    Resolved,
    changed,
    known_workloads,
    load_cdf,
    read_document,
    resolve,
    setting,
)
from sluice.runs.folder import MOST_COMPARED
from sluice.runs.obstacle import obstacle
from sluice.runs.prediction import predicted_s, predicted_total_s
from sluice.runtime.toml import NotToml, parse_toml
from sluice.sweep.points import AXES, Point, points, predicted_works

SWEEP_KEYS = ("schemes", "loads", "seeds")
MOST_POINTS = MOST_COMPARED
"""Points of one sweep, so that one report can have all of them."""


@dataclass(frozen=True)
class Plan:
    """A checked request."""

    request: RunRequest
    scenario: Scenario
    """Of a sweep, that of its first point."""
    settings: tuple[str, ...]
    """All changes, each as `--set` takes it."""
    predicted_s: float | None
    points: tuple[Point, ...] = ()
    """Of a sweep."""

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes that run, or the variants of a sweep."""
        found = [point.scheme for point in self.points] or [self.scenario.policy.scheme]
        return tuple(dict.fromkeys(found))

    def command(self, source: str, out: str, places: int) -> list[str]:
        """Return the words after `sluice` that carry it out. `places`: points of a sweep at a time."""
        common = ["--on", self.request.on, "--out", out, "--yes"]
        common += [f"--set={setting}" for setting in self.settings]
        if not self.points:
            return ["run", source, *common]
        for key in SWEEP_KEYS:
            values = getattr(self.request, key)
            common += [f"--{key}", *map(str, values)] if values is not None else []
        return ["sweep", source, *common, "--jobs", str(places)]


def plan(document: Any, simulations: int = 1) -> Plan:
    """Return the plan of a request. A sweep on the simulator would run as many points at a time as `simulations`.

    Raises FieldError or SluiceError that names what is wrong.
    """
    request = read(RunRequest, document)
    settings = (*request.settings, *([f"workload.flows={request.flows}"] if request.flows else []))
    given = _given(request)
    changes = dict(setting(text, "settings", "workload.load=0.5") for text in settings)
    if request.sweep:
        places = simulations if request.on == SIMULATOR else 1
        return _plan_sweep(request, given, changes, settings, places)
    for key in SWEEP_KEYS:
        if getattr(request, key) is not None:
            raise FieldError(key, "belongs to a sweep: choose a sweep, or omit it")
    scenario_document = changed({key: value for key, value in given.items() if key != "sweep"}, changes)
    resolved = _checked(scenario_document, request.on)
    return Plan(request, resolved.scenario, settings, predicted_s(resolved, request.on))


def _plan_sweep(
    request: RunRequest,
    given: Mapping[str, Any],
    changes: Mapping[str, Any],
    settings: tuple[str, ...],
    places: int,
) -> Plan:
    for key in AXES.keys() & changes.keys():
        raise FieldError(
            "settings", f"{key} is an axis of the sweep; set {AXES[key].removeprefix('--')} instead"
        )
    found = points(
        given,
        schemes=request.schemes,
        loads=request.loads,
        seeds=request.seeds,
        settings=changes,
        most=MOST_POINTS,
        check=partial(_checked, on=request.on),
    )
    works = list(predicted_works(found, request.on).values())
    predicted = predicted_total_s(works, request.on, min(places, len(found)))
    first = _checked(found[0].document, request.on).scenario
    return Plan(request, first, settings, predicted, tuple(found))


def _checked(document: dict[str, Any], on: str) -> Resolved:
    """Return a scenario that this fabric can run. Raises FieldError."""
    resolved = resolve(document, _included_cdf, no_traces)
    check_on(resolved.scenario, on)
    return resolved


def scenario_names() -> list[str]:
    """Return the names of the scenarios that Sluice includes."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def _given(request: RunRequest) -> Mapping[str, Any]:
    if (request.scenario is None) == (request.text is None):
        raise FieldError("scenario", "give either the name of a scenario or a text")
    if request.text is not None:
        try:
            return parse_toml(request.text)
        except NotToml as error:
            raise FieldError("text", f"not TOML: {error}") from None
    known, name = scenario_names(), str(request.scenario)
    if name not in known:
        raise FieldError(
            "scenario",
            f"there is no scenario {shortened(name)}{guess(name, known)}; the names are {', '.join(known)}",
        )
    return read_document(SCENARIOS / f"{name}.toml")


def _included_cdf(name: str) -> SizeCdf:
    known = known_workloads()
    if name not in known:
        raise FieldError(
            "workload.sizes",
            f"there is no distribution {shortened(name)}{guess(name, known)}; a run from the browser cannot read "
            f"files of the machine, so take one of {', '.join(known)}, or write a mix",
        )
    return load_cdf(name)


def need_testbed() -> str | None:
    """Return why the testbed cannot run here now; None if it can."""
    from sluice.testbeds import running_testbeds

    lasting = _lasting_obstacle()
    if lasting:
        return lasting
    try:
        running = running_testbeds()
    except (OSError, SluiceError):
        running = []
    if running:
        return (
            f"a testbed runs on this machine: {running[0].shown}. Two would take each other's CPU time. End that "
            f"demonstration or run first, or choose the simulator"
        )
    return None


@cache
def _lasting_obstacle() -> str | None:
    """Return what this machine lacks. It is tried once, because that starts a process."""
    return obstacle()
