# SPDX-License-Identifier: Apache-2.0
"""ns2_check: its runs differ in what their names say, and its flows are those of the reference."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from experiments.checks import ns2
from experiments.checks.ns2 import FULL, SMALL, Reference, columns
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
