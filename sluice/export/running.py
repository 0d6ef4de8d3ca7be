# SPDX-License-Identifier: Apache-2.0
"""A running network as the source of an export: its policy, and the thresholds for ports of another switch.

A switch that is no Open vSwitch counts nothing for Sluice. So the operator says what the port stands for:

    s1:1    a port of the network with counters: it gets the thresholds that are in force there
    h3      a host: the port leads to it, and its thresholds follow from the flows that agents have reported to it
    any     an uplink: its thresholds follow from all flows that agents have reported
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.export.sonic import SonicPort
from sluice.export.traffic import LEAST_FLOWS, Reported, Traffic, reported_flows
from sluice.policy.errors import SluiceError, guess
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes.classes import ClassPlan, best_of_plan, class_plan
from sluice.remote import Remote

ANY = "any"


@dataclass(frozen=True)
class Running:
    """What a network reports at one moment."""

    version: int
    """Of the policy."""
    policy: Policy
    in_force: Mapping[str, Sequence[int]]
    """Port with counters → its thresholds in bytes."""
    hosts: frozenset[str]
    reported: Reported


@dataclass(frozen=True)
class Planned:
    """The classes of a policy, and the traffic that they were chosen for."""

    plan: ClassPlan
    traffic: Sequence[Traffic]
    thresholds_bytes: tuple[int, ...]
    """Of ports of which nothing is known."""


def look(remote: Remote) -> Running:
    """Ask a web process. Raises SluiceError without a policy."""
    current: dict[str, Any] | None = remote.get("policy?limit=1")["current"]
    if current is None:
        raise SluiceError("there is no policy yet: put one in force with `sluice policy set FILE`")
    policy = Policy.from_document(current["policy"])
    thresholds: dict[str, Any] = remote.get("thresholds")["now"]
    topology = remote.get("topology")["topology"] or {"hosts": []}
    return Running(
        current["version"],
        policy,
        {port: row["thresholds_bytes"] for port, row in thresholds.items()},
        frozenset(host["name"] for host in topology["hosts"]),
        reported_flows(remote) if policy.definition.threshold_rule.adapts else Reported(()),
    )


def check_places(running: Running, places: Iterable[str]) -> None:
    """Raise SluiceError for the first place that the network does not have."""
    known = {*running.in_force, *running.hosts, ANY}
    for place in places:
        if place not in known:
            shown = ", ".join([*sorted(running.in_force), *sorted(running.hosts), ANY])
            raise SluiceError(
                f"--interfaces: the network has no port or host {place}{guess(place, known)}; it has {shown}"
            )


def planned(policy: Policy, traffic: Sequence[Traffic]) -> Planned:
    """Choose the classes for these kinds of traffic. Raises SluiceError if adaptive thresholds have none."""
    adapts = policy.definition.threshold_rule.adapts
    if adapts and not traffic:
        raise SluiceError("the scenario names no distribution with a load: add --traffic web-search:0.8")
    models = [one.model(policy) for one in traffic]
    plan = class_plan(policy, models)
    return Planned(
        plan, traffic, best_of_plan(plan, models[0]) if adapts else plan.snapped(policy.thresholds)
    )


def reported_traffic(running: Running, load: float) -> list[Traffic]:
    """Return the sizes of all flows that agents have reported, or nothing for fixed thresholds. Raises SluiceError for
    too few flows.
    """
    if not running.policy.definition.threshold_rule.adapts:
        return []
    found = running.reported.traffic(load)
    if found is None:
        raise SluiceError(
            f"hosts have reported {len(running.reported.flows)} flows, and a plan needs {LEAST_FLOWS}: wait, or name "
            "the traffic with --traffic web-search:0.8"
        )
    return [found]


def ports_of(made: Planned, running: Running, interfaces: Mapping[str, str], load: float) -> list[SonicPort]:
    """Return the ports with their thresholds. `interfaces`: SONiC's name of a port → the place that it stands for."""
    of_place = {place: _thresholds(made, running, place, load) for place in interfaces.values()}
    return [SonicPort(interface, of_place[place]) for interface, place in interfaces.items()]


def _thresholds(made: Planned, running: Running, place: str, load: float) -> tuple[int, ...]:
    if place in running.in_force:
        return made.plan.snapped(running.in_force[place])
    if not running.policy.definition.threshold_rule.adapts:
        return made.thresholds_bytes
    found = running.reported.traffic(load, None if place == ANY else place)
    return made.thresholds_bytes if found is None else best_of_plan(made.plan, found.model(running.policy))
