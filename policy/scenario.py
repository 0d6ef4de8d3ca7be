# SPDX-License-Identifier: Apache-2.0
"""A scenario: one TOML document that the testbed and the simulator both run. Unknown keys are errors.

This module turns the parsed tables into checked values. The caller reads the files and passes `load_cdf`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from sluice.policy.desired import Policy
from sluice.policy.entries import entries, read
from sluice.policy.errors import FieldError, unknown_key
from sluice.policy.explicit import ExplicitWorkload, explicit_batches
from sluice.policy.fields import POLICY_FIELDS
from sluice.policy.fitting import NetworkPath, Surroundings, fitted
from sluice.policy.graph import Topology
from sluice.policy.links import Links
from sluice.policy.port_warnings import check_ports
from sluice.policy.random_flows import check_random, random_batches
from sluice.policy.scenario_tables import (
    Background,
    Fabric,
    FabricKeys,
    ScenarioKeys,
    SimulatorSettings,
    Transport,
)
from sluice.policy.schedule import ScheduledFlow
from sluice.policy.sizes import Mix
from sluice.policy.static_thresholds import Traffic
from sluice.policy.workload import BATCH_FLOWS, FlowBatch, TraceWorkload, Workload, flows_of
from sluice.policy.workload_table import AnyWorkload, LoadCdf, LoadTrace, workload_from

TABLES = ("fabric", "scheme", "transport", "simulator", "workload", "deadlines")
"""The tables of a scenario, besides the keys at its top."""

SCHEME_KEYS = ("name", *(field.name for field in POLICY_FIELDS if field.name != "scheme"))
"""The keys of [scheme]: the policy's fields, where `name` is the scheme."""


@dataclass(frozen=True)
class Scenario:
    name: str
    seed: int
    fabric: Fabric
    policy: Policy
    transport: Transport
    workload: AnyWorkload
    background: tuple[Background, ...] = ()
    sample_ms: int | None = None
    grace_s: float = 10.0
    simulator: SimulatorSettings = field(default_factory=SimulatorSettings)

    @property
    def size_scale(self) -> float:
        """The scale of the workload's sizes, and of the limits between the size classes."""
        return 1.0 if isinstance(self.workload, ExplicitWorkload) else self.workload.scale


def no_traces(name: str) -> NoReturn:
    """Refuse a trace, for callers that read no files. Raises FieldError."""
    raise FieldError("workload.trace", f"{name!r} cannot be read here: run the scenario from a file")


FindPath: TypeAlias = Callable[[Fabric], NetworkPath | None]
"""Returns the path of a fabric, to which the scheme's defaults are fitted."""


def scenario_from_document(
    document: Mapping[str, Any],
    load_cdf: LoadCdf,
    load_trace: LoadTrace = no_traces,
    find_path: FindPath = lambda fabric: None,
) -> Scenario:
    """Check a parsed scenario. Raises FieldError that names the key ("workload.load") and what is allowed.

    Without `find_path`, the scheme's defaults are those for 10 Gb/s.
    """
    rest = {key: value for key, value in document.items() if key not in TABLES}
    known = [*(one.key for one in entries(ScenarioKeys)), *TABLES]
    for key in rest:
        if key not in known:
            raise unknown_key(str(key), str(key), known)
    for table in ("fabric", "scheme", "workload"):
        if table not in document:
            raise FieldError(table, "is missing; a scenario needs the tables fabric, scheme and workload")
    top = read(ScenarioKeys, rest)
    fabric = _fabric(document["fabric"])
    transport = read(Transport, document.get("transport", {}), "transport")
    simulator = _simulator(document.get("simulator", {}), transport)
    workload = workload_from(document["workload"], document.get("deadlines"), load_cdf, load_trace)
    policy = _policy(document["scheme"], fabric, workload, find_path(fabric))
    return Scenario(
        name=top.name,
        seed=top.seed,
        fabric=fabric,
        policy=policy,
        transport=transport,
        workload=workload,
        background=top.background,
        sample_ms=top.sample_ms,
        grace_s=top.grace_s,
        simulator=simulator,
    )


def scheduled_batches(
    scenario: Scenario,
    topology: Topology,
    rng: np.random.Generator,
    until_s: float = math.inf,
    batch_flows: int = BATCH_FLOWS,
) -> Iterator[FlowBatch]:
    """Yield every flow of a run that starts before `until_s`, by start time, in batches of about
    `batch_flows` at most.

    The same generator state gives the same flows for every size of a batch. The call raises
    FieldError if the topology lacks hosts for the workload.
    """
    check_hosts(scenario, topology.host_by_name)
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        return explicit_batches(workload, topology, until_s, batch_flows)
    return random_batches(workload, topology, rng, until_s, batch_flows)


def scheduled_flows(
    scenario: Scenario,
    topology: Topology,
    rng: np.random.Generator,
    run_id: str,
    until_s: float = math.inf,
) -> list[ScheduledFlow]:
    """Return the same flows as objects. A flow's id contains its number in the run."""
    batches = scheduled_batches(scenario, topology, rng, until_s)
    return flows_of(batches, topology, run_id, scenario.size_scale)


def check_topology(scenario: Scenario, topology: Topology) -> None:
    """Raise FieldError if the topology lacks something for the scenario, or if a link cannot carry its load."""
    check_hosts(scenario, topology.host_by_name)
    try:
        check_ports(scenario.policy, topology.port_by_id)
    except FieldError as error:
        raise FieldError(f"scheme.{error.field}", error.problem) from None
    if not isinstance(scenario.workload, ExplicitWorkload):
        check_random(scenario.workload, topology)


def _fabric(table: object) -> Fabric:
    """Read [fabric]. The topology's own keys are checked when it is built. A file needs no topology = "file"."""
    if not isinstance(table, Mapping):
        raise FieldError("fabric", "must be a table")
    table = {"topology": "file", **table} if "file" in table else table
    known = {one.key for one in entries(FabricKeys)}
    keys = read(FabricKeys, {key: value for key, value in table.items() if key in known}, "fabric")
    links = {one.name: getattr(keys, one.name) for one in entries(Links) if one.key in table}
    own = {key: value for key, value in table.items() if key not in known}
    for name in own.keys() & {one.name for one in entries(FabricKeys)}:  # an attribute is no key
        raise unknown_key(f"fabric.{name}", name, sorted(known))
    return Fabric(keys.topology, {**own, **links}, keys.buffer_bytes)


def _policy(table: object, fabric: Fabric, workload: AnyWorkload, path: NetworkPath | None) -> Policy:
    if not isinstance(table, Mapping):
        raise FieldError("scheme", "must be a table with a name")
    for key in table:
        if key not in SCHEME_KEYS:
            raise unknown_key(f"scheme.{key}", str(key), SCHEME_KEYS)
    document = {"buffer": fabric.buffer_bytes, **table}
    document["scheme"] = document.pop("name", None)
    try:
        return fitted(document, Surroundings(path, traffic=traffic_of(workload))).policy
    except FieldError as error:
        elsewhere = {"scheme": "scheme.name"} | ({} if "buffer" in table else {"buffer": "fabric.buffer"})
        raise FieldError(elsewhere.get(error.field, f"scheme.{error.field}"), error.problem) from None


def traffic_of(workload: AnyWorkload) -> Traffic | None:
    """Return the traffic of a workload, if it has a distribution of sizes and a load."""
    if not isinstance(workload, Workload) or workload.load is None:
        return None
    return Traffic(workload.sizes, workload.load, workload.scale)


def _simulator(table: object, transport: Transport) -> SimulatorSettings:
    """Read [simulator]. A persistent connection has measured its round trip before the run, so its
    timeout is the minimum."""
    settings = read(SimulatorSettings, table, "simulator")
    given = table if isinstance(table, Mapping) else {}
    if "recovery" not in given and not settings.duplicate_threshold:
        settings = replace(settings, recovery="plain")
    if "rto_initial" not in given and transport.connections == "persistent":
        settings = replace(settings, rto_initial_us=transport.rto_min_us)
    return settings


def check_hosts(scenario: Scenario, hosts: Collection[str]) -> None:
    """Raise FieldError if a host that the scenario names is not in the topology."""
    named = _workload_hosts(scenario.workload)
    for flow in scenario.background:
        named += [("background.from", "", flow.source), ("background.to", "", flow.to)]
    for key, place, name in named:
        if name is not None and name not in hosts:
            raise FieldError(
                key, f"{place}{name!r} is not a host of the topology; hosts are h1 … h{len(hosts)}"
            )


def _workload_hosts(workload: AnyWorkload) -> list[tuple[str, str, str | None]]:
    """Return (key, place within a file, host) for every host that the workload names."""
    if isinstance(workload, ExplicitWorkload):
        return [
            (*workload.place(i, key), name)
            for i, flow in enumerate(workload.flows)
            for key, name in (("from", flow.source), ("to", flow.to))
        ]
    named: list[tuple[str, str, str | None]] = [("workload.to", "", workload.to)]
    if isinstance(workload, TraceWorkload):
        return named
    for sizes in workload.all_sizes:
        if isinstance(sizes, Mix):
            named += [("workload.mix.from", "", name) for part in sizes.parts for name in part.sources]
    return named
