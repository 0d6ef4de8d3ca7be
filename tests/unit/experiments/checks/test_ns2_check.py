# SPDX-License-Identifier: Apache-2.0
"""ns2_check: its runs differ in what their names say, and its flows are those of the reference."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.checks import ns2
from experiments.checks.ns2 import FLOWS_AT_S, FULL, SMALL, Reference, columns
from sluice.policy.workload.scenario import Scenario, TcpVariant, scenario_from_document
from sluice.runs.files import load_cdf
from tests.kit.bundles import given


@cache
def scenario_of(name: str) -> Scenario:
    point = ns2._point(name, ns2.variants()[name], given(ns2.EXPERIMENT, "--small", "--flows", "10"))
    return scenario_from_document(point.document, load_cdf)


@cache
def tcp_of(name: str) -> TcpVariant:
    tcp = scenario_of(name).simulator.tcp
    assert tcp is not None
    return tcp


@pytest.mark.parametrize("reference", [FULL, SMALL])
def test_flows__are_those_of_the_reference(reference: Reference) -> None:
    starts_s, size_bytes, source, to = columns(reference.flows, 0.8, load_cdf("web-search"), reference.hosts)
    packets = size_bytes / 1460
    assert [
        int(((row.least_packets <= packets) & (packets <= row.most_packets)).sum()) for row in reference.rows
    ] == [row.flows for row in reference.rows]
    assert (source != to).all()
    assert (np.diff(starts_s) >= 0).all()


def test_runs__have_the_same_flows_but_one() -> None:
    workloads = {name: scenario_of(name).workload for name in ns2.variants()}
    other = workloads.pop(ns2.POISSON)
    assert set(workloads.values()) == {workloads["ns-2"]}
    assert other != workloads["ns-2"]


def test_runs__ns2_differs_from_linux_in_every_key() -> None:
    linux, ns2 = vars(tcp_of("Linux")), vars(tcp_of("ns-2"))
    assert all(linux[key] != ns2[key] for key in linux)


def test_runs__without_a_key_it_is_linuxs() -> None:
    linux, own = vars(tcp_of("Linux")), vars(tcp_of("ns-2"))
    for key in set(ns2.NS2) - {"probe_after", "headers"}:
        without = vars(tcp_of(f"ns-2 without {key}"))
        back = {key for key in linux if without[key] == linux[key]}
        assert 1 <= len(back) <= 2
        assert all(without[key] == own[key] for key in set(linux) - back)


def test_side__a_row_for_each_range_of_sizes_without_the_warm_up(tmp_path: Path) -> None:
    asked = given(ns2.EXPERIMENT, "--small", "--flows", "10", "--out", str(tmp_path))
    point = ns2._point("ns-2", ns2.NS2, asked)
    flows: dict[str, Any] = {
        "started_at": [0.1, *[FLOWS_AT_S] * 4],
        "bytes": [1460 * 5, 1460 * 3, 1460 * 7, 1460 * 7 + 1, 1460],
        "fct_us": [1e6, 1.0, 3.0, 50.0, 9.0],
    }
    (tmp_path / point.name).mkdir()
    pq.write_table(pa.table(flows), tmp_path / point.name / "flows.parquet")
    found = ns2.side(asked, [point])
    assert found.rows[0][:5] == (3, 7, 2, 2.0, 2.0)
    assert (found.rows[1].flows, found.rows[1].mean_us) == (1, 50.0)
    assert found.rows[2].flows == 0
    assert found.all_mean_us == pytest.approx(63 / 4)
    assert ns2.side(asked, [point, point]).rows[0].flows == 4
