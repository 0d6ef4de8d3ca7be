# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.schemes.ports import PortMarking
from sluice.policy.workload.flows import Trace, TraceWorkload, Workload, parse_trace
from sluice.policy.workload.scenario import (
    Scenario,
    SimulatorSettings,
    check_topology,
    scenario_from_document,
)
from sluice.policy.workload.sizes import Mix, SizeCdf, parse_cdf
from tests.kit.known import known
from tests.unit.policy.networks import star

TEXT = """
name = "paper"
seed = 3
[fabric]
topology = "single"
hosts = 4
host_rate = "100Mbit"
link_delay = "20us"
buffer = "360KB"
[scheme]
name = "mlfq-adaptive"
queues = 2
mark_at = "20pkt"
thresholds = ["1KB"]
[transport]
rto_min = "10ms"
[workload]
mix = [ { bytes = "10KB", share = 0.8, from = ["h3"] }, { bytes = "1MB", share = 0.2 } ]
pattern = "many-to-one"
to = "h1"
load = 0.8
flows = 100
[deadlines]
share = 0.3
min = "5ms"
max = "25ms"
"""


def load_cdf(name: str) -> SizeCdf:
    return parse_cdf(name, "1 0\n10 1")


def load_trace(name: str) -> Trace:
    return parse_trace(name, "1 10 0\n2 20 1")


def read(document: Mapping[str, Any]) -> Scenario:
    return scenario_from_document(document, load_cdf, load_trace)


def changed(**tables: Any) -> dict[str, Any]:
    """Return the document with keys set, or removed if their value is None."""
    document = copy.deepcopy(tomllib.loads(TEXT))
    for name, values in tables.items():
        table = document.setdefault(name, {})
        table.update(values)
        document[name] = {key: value for key, value in table.items() if value is not None}
    return document


def random_workload(scenario: Scenario) -> Workload:
    """Return the scenario's workload, which is random flows."""
    assert isinstance(scenario.workload, Workload)
    return scenario.workload


INCAST = {"pattern": "incast", "mix": None, "to": None, "fanin": 3, "bytes": "20KB"}
TRACE = {"trace": "t.txt", "mix": None, "pattern": None, "load": None, "flows": None}


def test_scenario__reads_every_table() -> None:
    scenario = read(tomllib.loads(TEXT))
    assert scenario.seed == 3
    assert scenario.fabric.parameters == {"hosts": 4, "host_rate_bps": 10**8, "link_delay_ns": 20_000}
    assert scenario.policy.mark_at == 30_000
    assert scenario.policy.buffer == 360_000
    assert scenario.policy.thresholds == (1000,)
    workload = random_workload(scenario)
    assert isinstance(workload.sizes, Mix)
    assert known(workload.deadlines).min_us == 5000
    assert scenario.transport.rto_min_us == 10_000
    assert (workload.load, workload.interarrival_s, workload.size_known) == (
        0.8,
        None,
        0,
    )
    assert scenario.size_scale == 1.0


def test_scenario__a_time_between_starts_instead_of_a_load() -> None:
    keys = {"load": None, "interarrival": "0.01ms", "size_known": 0.5}
    workload = random_workload(read(changed(workload=keys)))
    assert (workload.load, workload.interarrival_s, workload.size_known) == (None, 1e-5, 0.5)


@pytest.mark.parametrize(
    ("keys", "size_bytes"), [({"bytes": "20KB"}, 20_000), ({"bytes": None, "total": "1MB"}, 333_334)]
)
def test_scenario__incast(keys: dict[str, Any], size_bytes: int) -> None:
    workload = random_workload(read(changed(workload=INCAST | keys)))
    assert (workload.pattern, workload.fanin, workload.to) == ("incast", 3, None)
    assert isinstance(workload.sizes, Mix)
    assert [part.bytes for part in workload.sizes.parts] == [size_bytes]
    assert random_workload(read(changed(workload=INCAST | {"to": "h2"}))).to == "h2"


def test_scenario__a_trace() -> None:
    scenario = read(changed(workload=TRACE | {"scale": 0.5}))
    assert isinstance(scenario.workload, TraceWorkload)
    assert (scenario.workload.to, scenario.workload.flows, scenario.size_scale) == ("h1", 2, 0.5)
    assert known(scenario.workload.deadlines).share == 0.3
    assert read(changed(workload=TRACE | {"flows": 1})).workload.flows == 1


def test_scenario__what_only_the_simulator_needs() -> None:
    assert read(changed()).simulator == SimulatorSettings(
        "per-flow", 3, "linux", 1, 500_000, 1_000_000, "fabric", "real", "urgent"
    )
    given = {
        "multipath": "per-packet",
        "duplicate_threshold": 0,
        "packets_per_ack": 2,
        "ack_delay": "40us",
        "rto_initial": "3ms",
        "uplink": "free",
        "links": "emulated",
        "late": "plain",
    }
    assert read(changed(simulator=given)).simulator == SimulatorSettings(
        "per-packet", 0, "plain", 2, 40_000, 3000, "free", "emulated", "plain"
    )


def test_scenario__a_persistent_connection_starts_with_the_least_timeout() -> None:
    scenario = read(changed(transport={"connections": "persistent", "rto_min": "250us"}))
    assert (scenario.transport.rto_min_us, scenario.simulator.rto_initial_us) == (250, 250)


@pytest.mark.parametrize(("rto_min", "milliseconds"), [("2ms", 2), ("250us", None), ("2.5ms", None)])
def test_transport__a_kernels_timeout_is_whole_milliseconds(rto_min: str, milliseconds: int | None) -> None:
    transport = read(changed(transport={"rto_min": rto_min})).transport
    if milliseconds:
        assert transport.rto_min_ms == milliseconds
    else:
        with pytest.raises(FieldError, match="simulator") as caught:
            _ = transport.rto_min_ms
        assert caught.value.field == "transport.rto_min"


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ({"workload": {"interarrival": "1ms"}}, "workload.load"),
        ({"workload": {"load": None}}, "workload.load"),
        ({"workload": {"load": 1}}, "workload.load"),
        ({"workload": {"load": None, "interarrival": "0ms"}}, "workload.interarrival"),
        ({"workload": {"load": None, "interarrival": 0.1}}, "workload.interarrival"),
        ({"workload": {"size_known": 1.5}}, "workload.size_known"),
        ({"workload": {"pattern": "permutation"}}, "workload.to"),
        ({"workload": {"fanin": 3}}, "workload.fanin"),
        ({"workload": {"shift": [{"sizes": "web-search"}, {"sizes": "web-search"}]}}, "workload.shift"),
        ({"workload": {"shift": [{"at": 0.2}, {"sizes": "web-search"}]}}, "workload.shift[0].sizes"),
        ({"workload": {"shift": {"at": 0.2}}}, "workload.shift.sizes"),
        ({"workload": INCAST | {"fanin": None}}, "workload.fanin"),
        ({"workload": INCAST | {"total": "1MB"}}, "workload.bytes"),
        ({"workload": INCAST | {"bytes": None}}, "workload.bytes"),
        ({"workload": INCAST | {"bytes": "20"}}, "workload.bytes"),
        ({"workload": INCAST | {"bytes": None, "total": "100B"}}, "workload.total"),
        ({"workload": INCAST | {"sizes": "web-search"}}, "workload.sizes"),
        ({"workload": INCAST | {"shift": {"at": 0.5, "sizes": "web-search"}}}, "workload.shift"),
        ({"workload": TRACE | {"flows": 3}}, "workload.flows"),
        ({"workload": TRACE | {"load": 0.5}}, "workload.load"),
        ({"workload": TRACE | {"to": None}}, "workload.to"),
        ({"simulator": {"multipath": "both"}}, "simulator.multipath"),
        ({"simulator": {"duplicate_threshold": -1}}, "simulator.duplicate_threshold"),
        ({"simulator": {"packets_per_ack": 65}}, "simulator.packets_per_ack"),
        ({"simulator": {"ack_delay": "0s"}}, "simulator.ack_delay"),
        ({"simulator": {"ack_delay": "1"}}, "simulator.ack_delay"),
        ({"simulator": {"rto_initial": "0us"}}, "simulator.rto_initial"),
        ({"simulator": {"uplink": "none"}}, "simulator.uplink"),
        ({"simulator": {"late": "never"}}, "simulator.late"),
        ({"simulator": {"uplinks": "free"}}, "simulator.uplinks"),
        ({"transport": {"rto_min": "1ns"}}, "transport.rto_min"),
        ({"transport": {"rto_min": "10min"}}, "transport.rto_min"),
    ],
)
def test_scenario__names_the_bad_key_of_a_combination(tables: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        read(changed(**tables))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("workload", "hosts", "field"),
    [
        ({"to": "h9"}, 4, "workload.to"),
        ({"mix": [{"bytes": "1KB", "share": 1.0, "from": ["h9"]}]}, 4, "workload.mix.from"),
        ({"mix": [{"bytes": "1KB", "share": 1.0, "from": ["h1"]}]}, 4, "workload.mix"),
        (INCAST, 3, "workload.fanin"),
        (TRACE, 2, "workload.trace"),
        ({"pattern": "all-to-all", "to": None}, 4, "workload.load"),
    ],
)
def test_check_topology__names_what_does_not_fit(workload: dict[str, Any], hosts: int, field: str) -> None:
    """In the last case h3 sends what four hosts should send."""
    document = changed(workload=workload)
    if field == "workload.load":
        document["workload"]["mix"] = [{"bytes": "1KB", "share": 1.0, "from": ["h3"]}]
    with pytest.raises(FieldError) as caught:
        check_topology(read(document), star(hosts))
    assert caught.value.field == field


def test_check_topology__what_fits() -> None:
    for workload in ({}, INCAST, TRACE, {"load": None, "interarrival": "1us"}):
        check_topology(read(changed(workload=workload)), star())


def test_scenario__a_ramp_with_units_below_the_fabrics_buffer() -> None:
    document = tomllib.loads(TEXT)
    document["scheme"] = {"name": "datcp", "mark_min": "40KB", "mark_max": "60KB"}
    assert read(document).policy.port_marking == PortMarking(
        40_000, 360_000, mark_max_bytes=60_000, last_queue=0
    )
    document["fabric"]["buffer"] = "60KB"
    with pytest.raises(FieldError) as error:
        read(document)
    assert error.value.field == "scheme.mark_max"


def test_scenario__optimal_thresholds_are_those_of_the_workload() -> None:
    document = tomllib.loads(TEXT)
    document["scheme"] = {"name": "pias", "queues": 2, "thresholds": "optimal"}
    assert read(document).policy.thresholds == (10_000,)
    document["scheme"]["thresholds"] = "best"
    with pytest.raises(FieldError, match="neither a list nor one of optimal, pias") as error:
        read(document)
    assert error.value.field == "scheme.thresholds"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("seeds", 1, "seeds"),
        ("workload.laod", 0.5, "workload.laod"),
        ("workload.load", 1.5, "workload.load"),
        ("workload.load", "high", "workload.load"),
        ("workload.flows", 0, "workload.flows"),
        ("workload.flows", 2.5, "workload.flows"),
        ("workload.pattern", "gossip", "workload.pattern"),
        ("workload.to", None, "workload.to"),
        ("workload.sizes", "web-search", "workload.sizes"),
        ("workload.mix", [{"bytes": "10KB", "share": 0.5}], "workload.mix"),
        ("workload.mix", [{"bytes": 10, "share": 1.0}], "workload.mix[0].bytes"),
        ("workload.mix", [{"share": 1.0}], "workload.mix[0].bytes"),
        ("workload.mix", [{"bytes": "1KB", "sizes": "web-search", "share": 1.0}], "workload.mix[0].bytes"),
        ("workload.mix", [{"sizes": 5, "share": 1.0}], "workload.mix[0].sizes"),
        ("fabric.host_rate", "100", "fabric.host_rate"),
        ("fabric.buffer", "360", "fabric.buffer"),
        ("scheme.name", "fifo", "scheme.name"),
        ("scheme.queue", 2, "scheme.queue"),
        ("transport.rto_min", 10, "transport.rto_min"),
        ("deadlines.share", 2, "deadlines.share"),
        ("deadlines.min", "50ms", "deadlines.min"),
    ],
)
def test_scenario__names_the_bad_key(path: str, value: Any, field: str) -> None:
    document = copy.deepcopy(tomllib.loads(TEXT))
    *tables, key = path.split(".")
    table = document
    for name in tables:
        table = table[name]
    if value is None:
        table.pop(key)
    else:
        table[key] = value
    with pytest.raises(FieldError) as caught:
        read(document)
    assert caught.value.field == field


@pytest.mark.parametrize("missing", ["name", "fabric", "scheme", "workload"])
def test_scenario__names_what_is_missing(missing: str) -> None:
    document = tomllib.loads(TEXT)
    del document[missing]
    with pytest.raises(FieldError, match=missing):
        read(document)
