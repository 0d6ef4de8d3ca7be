# SPDX-License-Identifier: Apache-2.0

import copy
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from sluice.policy.errors import FieldError
from sluice.policy.workload.flows import Workload, flows_of
from sluice.policy.workload.listed_flows import ExplicitWorkload, explicit_batches, explicit_workload
from sluice.policy.workload.scenario import (
    Scenario,
    SimulatorSettings,
    check_hosts,
    check_topology,
    scenario_from_document,
    scheduled_flows,
)
from sluice.policy.workload.sizes import Mix, SizeCdf, parse_cdf
from tests.kit.known import known
from tests.kit.networks import star

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


def read(document: Mapping[str, Any]) -> Scenario:
    return scenario_from_document(document, load_cdf)


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


def test_scenario__what_only_the_simulator_needs() -> None:
    given = {
        "multipath": "per-packet",
        "duplicate_threshold": 0,
        "packets_per_ack": 2,
        "ack_delay": "40us",
        "rto_initial": "3ms",
        "uplink": "free",
        "links": "emulated",
    }
    assert read(changed(simulator=given)).simulator == SimulatorSettings(
        "per-packet", 0, "plain", 2, 40_000, 3000, "free", "emulated"
    )


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
        ({"workload": {"to": None}}, "workload.to"),
        ({"workload": {"sizes": "web-search"}}, "workload.sizes"),
        ({"workload": {"mix": [{"bytes": "10KB", "share": 0.5}]}}, "workload.mix"),
        ({"workload": {"mix": [{"share": 1.0}]}}, "workload.mix[0].bytes"),
        ({"deadlines": {"min": "50ms"}}, "deadlines.min"),
        ({"workload": {"pattern": "permutation"}}, "workload.to"),
        ({"workload": {"fanin": 3}}, "workload.fanin"),
        ({"workload": {"shift": [{"sizes": "web-search"}, {"sizes": "web-search"}]}}, "workload.shift"),
        ({"workload": {"shift": [{"at": 0.2}, {"sizes": "web-search"}]}}, "workload.shift[0].sizes"),
        ({"workload": {"shift": {"at": 0.2}}}, "workload.shift.sizes"),
        ({"workload": INCAST | {"fanin": None}}, "workload.fanin"),
        ({"workload": INCAST | {"total": "1MB"}}, "workload.bytes"),
        ({"workload": INCAST | {"bytes": None}}, "workload.bytes"),
        ({"workload": INCAST | {"bytes": None, "total": "100B"}}, "workload.total"),
        ({"workload": INCAST | {"sizes": "web-search"}}, "workload.sizes"),
        ({"workload": INCAST | {"shift": {"at": 0.5, "sizes": "web-search"}}}, "workload.shift"),
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
    for workload in ({}, INCAST, {"load": None, "interarrival": "1us"}):
        check_topology(read(changed(workload=workload)), star())


def test_scenario__optimal_thresholds_are_those_of_the_workload() -> None:
    document = tomllib.loads(TEXT)
    document["scheme"] = {"name": "pias", "queues": 2, "thresholds": "optimal"}
    assert read(document).policy.thresholds == (10_000,)
    document["scheme"]["thresholds"] = "best"
    with pytest.raises(FieldError, match="neither a list nor one of optimal, pias") as error:
        read(document)
    assert error.value.field == "scheme.thresholds"


@pytest.mark.parametrize("missing", ["name", "fabric", "scheme", "workload"])
def test_scenario__names_what_is_missing(missing: str) -> None:
    document = tomllib.loads(TEXT)
    del document[missing]
    with pytest.raises(FieldError, match=missing):
        read(document)


URGENT = {
    "from": "h2",
    "to": "h1",
    "bytes": "10MB",
    "start": "1s",
    "deadline": "4s",
    "elapsed": "500ms",
    "importance": 2,
    "importance_share": 0.5,
    "quench": "kill",
    "label": "urgent",
}
ENDLESS = {"from": "h3", "to": "h1", "until": "8s"}


def document(*flows: dict[str, Any], **tables: Any) -> dict[str, Any]:
    return {
        "name": "explicit",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "100Mbit"},
        "scheme": {"name": "dctcp"},
        "workload": {"flow": list(flows)},
    } | tables


def no_tables(name: str) -> SizeCdf:
    raise AssertionError(f"listed flows need no table, but {name} was read")


def read_explicit(*flows: dict[str, Any], **tables: Any) -> Scenario:
    return scenario_from_document(document(*flows, **tables), no_tables)


def test_explicit__every_key_reaches_the_schedule() -> None:
    workload = explicit_workload({"flow": [URGENT, ENDLESS]})
    endless, urgent = flows_of(explicit_batches(workload, star()), star(), "run")
    assert (endless.id, endless.start_s, endless.until_s, endless.label) == ("run/0", 0.0, 8.0, "")
    assert (urgent.id, urgent.src, urgent.dst, urgent.bytes) == ("run/1", "h2", "h1", 10**7)
    assert (urgent.start_s, urgent.deadline_us, urgent.until_s) == (1.0, 4e6, None)
    assert (urgent.elapsed_us, endless.elapsed_us) == (5e5, None)
    assert (urgent.importance, urgent.importance_share, urgent.quench, urgent.label) == (
        2,
        0.5,
        "kill",
        "urgent",
    )
    assert (urgent.size_known, endless.size_known) == (True, False)
    assert urgent.ideal_us == pytest.approx(10**7 * 1514 / 1448 * 8 / 100, rel=1e-3)


def test_scenario__explicit_flows_are_drawn_without_chance() -> None:
    scenario = read_explicit(URGENT, ENDLESS, sample="100ms", grace="40s", transport={"max_window": 50})
    assert isinstance(scenario.workload, ExplicitWorkload)
    assert (scenario.sample_ms, scenario.grace_s, scenario.transport.max_window) == (100, 40, 50)
    flows = [scheduled_flows(scenario, star(), np.random.default_rng(seed), "run") for seed in (1, 2)]
    assert flows[0] == flows[1]
    early = scheduled_flows(scenario, star(), np.random.default_rng(), "run", 0.5)
    assert [(flow.id, flow.src) for flow in early] == [("run/0", "h3")]


def test_seeds__vary_starts_and_paths_of_listed_flows() -> None:
    """Otherwise several seeds would be one run, counted several times. Seed 1 takes the list as it is."""
    urgent = [URGENT | {"start": f"{second}s"} for second in range(3)]
    listed = [read_explicit(*urgent, ENDLESS, seed=seed) for seed in (1, 2, 3)]
    packet_s = 1514 * 8 / 100e6
    runs = [scheduled_flows(one, star(), np.random.default_rng(one.seed), "run") for one in listed]
    starts = np.asarray([[flow.start_s for flow in run if flow.until_s is None] for run in runs])
    assert starts[0].tolist() == [0, 1, 2]
    late_s = starts[1:] - starts[0]
    assert ((late_s > 0) & (late_s < packet_s)).all()
    assert len(np.unique(late_s)) == late_s.size
    assert {flow.start_s for run in runs for flow in run if flow.until_s} == {0}, "endless flows stay"
    for run in runs[1:]:
        assert sorted((f.src, f.bytes, f.deadline_us) for f in run if f.bytes) == sorted(
            (f.src, f.bytes, f.deadline_us) for f in runs[0] if f.bytes
        )
    assert listed[0].path_salt == 0
    assert len({one.path_salt for one in listed}) == 3
    exact = read_explicit(*urgent, ENDLESS, seed=2, workload={"flow": [*urgent, ENDLESS], "vary": False})
    assert scheduled_flows(exact, star(), np.random.default_rng(2), "run") == runs[0]
    assert exact.path_salt == 0
    assert read(tomllib.loads(TEXT)).path_salt == 0, (
        "the seed gives drawn flows other sizes and hosts already"
    )


def test_explicit__the_same_batches_in_other_sizes() -> None:
    flows = [URGENT | {"start": f"{(7 * i) % 10}s", "label": f"f{i}"} for i in range(20)]
    workload = explicit_workload({"flow": flows})
    whole = flows_of(explicit_batches(workload, star()), star(), "run")
    assert flows_of(explicit_batches(workload, star(), batch_flows=3), star(), "run") == whole
    assert [flow.start_s for flow in whole] == sorted(flow.start_s for flow in whole)
    assert [flow.label for flow in whole[:4]] == ["f0", "f10", "f3", "f13"], "at once: as in the document"


def test_explicit__the_size_may_be_told_without_a_deadline() -> None:
    plain: dict[str, Any] = {"from": "h2", "to": "h1", "bytes": "1MB"}
    flows = [plain, plain | {"size_known": True}, plain | {"deadline": "1s"}]
    workload = read_explicit(*flows).workload
    assert isinstance(workload, ExplicitWorkload)
    assert [flow.size_known for flow in workload.flows] == [False, True, True]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"byte": "1MB"}, "byte"),
        ({"until": "9s"}, "bytes"),
        ({"bytes": None}, "bytes"),
        ({"from": None}, "from"),
        ({"to": "h2"}, "to"),
        ({"deadline": None, "elapsed": None}, "quench"),
        ({"importance": None}, "importance_share"),
        ({"size_known": False}, "size_known"),
        ({"bytes": None, "until": "9s", "quench": "never", "size_known": True}, "size_known"),
        ({"deadline": None, "quench": "never", "elapsed": "1s"}, "elapsed"),
        ({"bytes": None, "until": "9s"}, "quench"),
        ({"bytes": None, "until": "1s"}, "until"),
    ],
)
def test_explicit__names_the_bad_key(changes: dict[str, Any], field: str) -> None:
    flow = {key: value for key, value in (URGENT | changes).items() if value is not None}
    with pytest.raises(FieldError) as caught:
        read_explicit(ENDLESS, flow)
    assert caught.value.field == f"workload.flow[1].{field}"


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ({"workload": {"flow": []}}, "workload.flow"),
        ({"workload": {"flow": [ENDLESS], "load": 0.5}}, "workload.load"),
        ({"deadlines": {"share": 1.0}}, "deadlines"),
    ],
)
def test_scenario__keys_beside_explicit_flows(tables: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        read_explicit(ENDLESS, **tables)
    assert caught.value.field == field


def test_check_hosts__names_the_flow() -> None:
    with pytest.raises(FieldError, match="h9") as caught:
        check_hosts(read_explicit(ENDLESS, URGENT | {"from": "h9"}), ["h1", "h2", "h3"])
    assert caught.value.field == "workload.flow[1].from"
