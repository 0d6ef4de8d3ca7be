# SPDX-License-Identifier: Apache-2.0
"""A running network as the source of an export: its policy, and the thresholds for ports of another switch.

A switch that is no Open vSwitch counts nothing for Sluice. So the operator says what the port stands for:

    s1:1    a port of the network with counters: it gets the thresholds that are in force there
    h3      a host: the port leads to it, and its thresholds follow from the flows that agents have reported to it
    any     an uplink: its thresholds follow from all flows that agents have reported

An export that follows the network has all rows at first, and then those that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sluice.export.sonic import SonicPort, Tables, adapted_tables, config_tables
from sluice.policy.errors import SluiceError, guess
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes.classes import ClassPlan, best_of_plan, class_plan
from sluice.policy.thresholds.online import DelayModel, threshold_limits
from sluice.policy.thresholds.static import known_delays
from sluice.policy.workload.sizes import SizeCdf, Sizes
from sluice.remote import Remote

LEAST_FLOWS = 100
"""A plan from fewer reported flows would follow chance."""
_PAGE = 1000
_MOST_PAGES = 20
_POINTS = 200


@dataclass(frozen=True)
class Traffic:
    """One kind of traffic at one load of a port."""

    name: str
    sizes: Sizes
    load: float
    scale: float = 1.0

    def model(self, policy: Policy) -> DelayModel:
        """The delay model of a port with this traffic under the policy."""
        levels = len(policy.thresholds) + 1
        return known_delays(self.sizes, self.load, levels, self.scale, *threshold_limits(policy))


@dataclass(frozen=True)
class Reported:
    """The newest flows that host agents have reported."""

    flows: Sequence[tuple[str, int]]
    """Receiver and size in bytes."""

    def traffic(self, load: float, to: str | None = None) -> Traffic | None:
        """Return the sizes of the flows to a host, or of all flows. None if they are too few."""
        sizes = [size for host, size in self.flows if to in (None, host)]
        if len(sizes) < LEAST_FLOWS:
            return None
        return Traffic(f"{len(sizes)} reported flows{f' to {to}' if to else ''}", _distribution(sizes), load)


def reported_flows(remote: Remote) -> Reported:
    """Return the newest 20,000 flows that host agents have reported."""
    flows: list[tuple[str, int]] = []
    path = f"flows?limit={_PAGE}"
    for _ in range(_MOST_PAGES):
        page: dict[str, Any] = remote.get(path)
        flows += [(flow["dst"], flow["bytes"]) for flow in page["flows"]]
        if page["next"] is None:
            break
        path = f"flows?limit={_PAGE}&before={page['next']}"
    return Reported(flows)


def _distribution(sizes_bytes: Sequence[int]) -> SizeCdf:
    """The distribution through quantiles of these sizes."""
    ranks = np.linspace(0, 1, min(_POINTS, len(sizes_bytes)))
    points = np.quantile(np.asarray(sizes_bytes, float), ranks)
    return SizeCdf("reported", tuple(points.tolist()), tuple(ranks.tolist()))


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


# ── Following ────────────────────────────────────────────────────────────────────────────────────────


class Following:
    """Knows which rows the switch has taken."""

    def __init__(
        self,
        remote: Remote,
        interfaces: Mapping[str, str],
        load: float,
        traffic: Sequence[Traffic] | None = None,
        *,
        only_maps: bool = False,
    ) -> None:
        """`interfaces`: see `ports_of`. `traffic`: choose classes for it instead of for the reported flows."""
        self._remote, self._interfaces, self._load, self._traffic = remote, interfaces, load, traffic
        self._tables = adapted_tables if only_maps else config_tables
        self._version = 0
        self._taken: Tables = {}
        self.made: Planned | None = None
        """The classes of the newest policy. They stay until there is another policy, because all ports share them."""
        self.tables: Tables = {}
        """All rows as of the newest look."""

    def look(self) -> Tables:
        """Look at the network. Return the rows that the switch does not have. Raises SluiceError."""
        running = look(self._remote)
        check_places(running, self._interfaces.values())
        if self.made is None or running.version != self._version:
            traffic = self._traffic or reported_traffic(running, self._load)
            self.made, self._version = planned(running.policy, traffic), running.version
        self.tables = self._tables(self.made.plan, ports_of(self.made, running, self._interfaces, self._load))
        return _difference(self._taken, self.tables)

    def taken(self) -> None:
        """The switch has taken all rows of the newest look."""
        self._taken = self.tables


def _difference(before: Tables, after: Tables) -> Tables:
    changed = {
        table: {row: fields for row, fields in rows.items() if before.get(table, {}).get(row) != fields}
        for table, rows in after.items()
    }
    return {table: rows for table, rows in changed.items() if rows}
