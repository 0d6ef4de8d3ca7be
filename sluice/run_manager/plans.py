# SPDX-License-Identifier: Apache-2.0
"""What the browser wants to start: checked by the functions that check the command line, and kept away from files.

A request names a scenario of experiments/scenarios or brings the text of one. It cannot name files of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from policy.entries import read
from policy.errors import FieldError, SluiceError, guess, shortened
from policy.fabrics import check_fabric
from policy.run_request import RunRequest
from policy.scenario import Scenario, scenario_from_document
from policy.sizes import SizeCdf
from runtime.toml import NotToml, parse_toml
from sluice.runs.files import SCENARIOS, find_path, known_workloads, load_cdf, read_document
from sluice.runs.obstacle import obstacle
from sluice.runs.prediction import predicted_s
from sluice.runs.settings import changed, setting
from topologies import build_topology


@dataclass(frozen=True)
class Plan:
    """A checked request."""

    request: RunRequest
    scenario: Scenario
    settings: tuple[str, ...]
    """All changes, each as `--set` takes it."""
    predicted_s: float | None


def plan(document: Any) -> Plan:
    """Return the plan of a request. Raises FieldError or SluiceError that names what is wrong."""
    request = read(RunRequest, document)
    settings = (*request.settings, *([f"workload.flows={request.flows}"] if request.flows else []))
    given = {key: value for key, value in _given(request).items() if key != "sweep"}
    changes = dict(setting(text, "settings", "workload.load=0.5") for text in settings)
    scenario_document = changed(given, changes)
    scenario = scenario_from_document(scenario_document, _included_cdf, find_path=find_path)
    build_topology(scenario)
    check_fabric(scenario.policy, request.on)
    return Plan(request, scenario, settings, predicted_s(scenario_document, request.on))


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

    try:
        running = running_testbeds()
    except (OSError, SluiceError):
        running = []
    if running:
        return (
            f"a testbed runs on this machine: {running[0].shown}. Two would take each other's CPU time. End that "
            f"demonstration or run first, or choose the simulator"
        )
    return _lasting_obstacle()


@cache
def _lasting_obstacle() -> str | None:
    """Return what this machine lacks. It is tried once, because that starts a process."""
    return obstacle()
