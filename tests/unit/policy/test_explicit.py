# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sluice.policy.errors import FieldError
from sluice.policy.workload.flows import flows_of
from sluice.policy.workload.listed_flows import ExplicitWorkload, explicit_batches, explicit_workload
from sluice.policy.workload.scenario import Scenario, check_hosts, scenario_from_document, scheduled_flows
from sluice.policy.workload.sizes import SizeCdf
from tests.unit.policy.networks import star

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


def read(*flows: dict[str, Any], **tables: Any) -> Scenario:
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
    scenario = read(URGENT, ENDLESS, sample="100ms", grace="40s", transport={"max_window": 50})
    assert isinstance(scenario.workload, ExplicitWorkload)
    assert (scenario.sample_ms, scenario.grace_s, scenario.transport.max_window) == (100, 40, 50)
    flows = [scheduled_flows(scenario, star(), np.random.default_rng(seed), "run") for seed in (1, 2)]
    assert flows[0] == flows[1]
    early = scheduled_flows(scenario, star(), np.random.default_rng(), "run", 0.5)
    assert [(flow.id, flow.src) for flow in early] == [("run/0", "h3")]


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
    workload = read(*flows).workload
    assert isinstance(workload, ExplicitWorkload)
    assert [flow.size_known for flow in workload.flows] == [False, True, True]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"byte": "1MB"}, "byte"),
        ({"until": "9s"}, "bytes"),
        ({"bytes": None}, "bytes"),
        ({"bytes": "10B"}, "bytes"),
        ({"bytes": 10}, "bytes"),
        ({"from": None}, "from"),
        ({"from": 2}, "from"),
        ({"to": "h2"}, "to"),
        ({"start": 1}, "start"),
        ({"deadline": "0s"}, "deadline"),
        ({"deadline": None, "elapsed": None}, "quench"),
        ({"quench": "perhaps"}, "quench"),
        ({"importance": None}, "importance_share"),
        ({"size_known": 1}, "size_known"),
        ({"size_known": False}, "size_known"),
        ({"bytes": None, "until": "9s", "quench": "never", "size_known": True}, "size_known"),
        ({"importance": 9}, "importance"),
        ({"importance": 0}, "importance"),
        ({"importance_share": 1.5}, "importance_share"),
        ({"label": "x" * 65}, "label"),
        ({"deadline": None, "quench": "never", "elapsed": "1s"}, "elapsed"),
        ({"bytes": None, "until": "9s"}, "quench"),
        ({"bytes": None, "until": "1s"}, "until"),
    ],
)
def test_explicit__names_the_bad_key(changes: dict[str, Any], field: str) -> None:
    flow = {key: value for key, value in (URGENT | changes).items() if value is not None}
    with pytest.raises(FieldError) as caught:
        read(ENDLESS, flow)
    assert caught.value.field == f"workload.flow[1].{field}"


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ({"workload": {"flow": []}}, "workload.flow"),
        ({"workload": {"flow": [ENDLESS], "load": 0.5}}, "workload.load"),
        ({"deadlines": {"share": 1.0}}, "deadlines"),
        ({"sample": "1ms"}, "sample"),
        ({"sample": 100}, "sample"),
        ({"grace": 5}, "grace"),
        ({"transport": {"max_window": 0}}, "transport.max_window"),
    ],
)
def test_scenario__keys_beside_explicit_flows(tables: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        read(ENDLESS, **tables)
    assert caught.value.field == field


def test_check_hosts__names_the_flow() -> None:
    with pytest.raises(FieldError, match="h9") as caught:
        check_hosts(read(ENDLESS, URGENT | {"from": "h9"}), ["h1", "h2", "h3"])
    assert caught.value.field == "workload.flow[1].from"
