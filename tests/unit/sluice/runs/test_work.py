# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.runs.files import scenario_with
from sluice.runs.work import predicted_work
from sluice.sweep.points import Point, predicted_works
from tests.kit.known import known


def work(on: str = SIMULATOR, fabric: dict[str, Any] | None = None, **workload: Any) -> float:
    document = {
        "name": "x",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "100Mbit"} if fabric is None else fabric,
        "scheme": {"name": "dctcp"},
        "workload": {"mix": [{"bytes": "100KB", "share": 1.0}], "flows": 100, "load": 0.5} | workload,
    }
    return known(predicted_work(scenario_with(document), on))


def test_on_the_simulator_it_is_the_bytes_that_cross_ports() -> None:
    assert work(flows=900) == pytest.approx(9 * work())
    assert work(load=0.1) == work()
    assert work(scale=2.0) == pytest.approx(2 * work(), rel=0.01)
    assert work() == pytest.approx(100 * 100_000, rel=0.1)
    assert work(fabric={"topology": "leaf-spine", "hosts_per_leaf": 1}) == 3 * work()


def test_on_the_testbed_it_is_the_time_in_which_flows_start() -> None:
    assert work(TESTBED, load=0.1) == pytest.approx(5 * work(TESTBED))
    assert work(TESTBED) == pytest.approx(100 * 8 * 100_000 / (0.5 * 4 * 1e8), rel=0.1)


def test_a_shift_counts_both_sizes() -> None:
    shift = {"at": 0.25, "mix": [{"bytes": "1MB", "share": 1.0}]}
    assert work(shift=shift) == pytest.approx((0.25 + 0.75 * 10) * work(), rel=0.01)


def test_listed_flows_count_by_themselves() -> None:
    document = {
        "name": "x",
        "fabric": {"topology": "single", "hosts": 3, "host_rate": "8Mbit"},
        "scheme": {"name": "dctcp"},
        "workload": {
            "flow": [{"from": "h1", "to": "h2", "bytes": "1MB"}, {"from": "h3", "to": "h2", "until": "2s"}]
        },
    }
    assert predicted_work(scenario_with(document), SIMULATOR) == 3_000_000
    assert predicted_work(scenario_with(document), TESTBED) == 2.0


def test_a_document_that_is_no_scenario_has_unknown_work() -> None:
    (work,) = predicted_works([Point("dctcp", None, 1, {})], SIMULATOR).values()
    assert work.amount is None
