# SPDX-License-Identifier: Apache-2.0
"""The division of a network into parts: which belongs where, in which stage, and what keeps a network whole."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.runs.files import scenario_with
from sluice.simulator.division import divide, whole
from sluice.simulator.taps import Taps
from sluice.topologies import build_topology
from tests.sim.test_threads import DOCUMENT, FABRICS, RACKS, simulation


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"scheme": {"name": "d3"}}, "depend on their ports or receivers"),
        (
            {"scheme": {"name": "datcp"}, "fabric": {**RACKS, "buffer": "150KB"}},
            "depend on their ports or receivers",
        ),
        ({"simulator": {"tcp": {"keep": "threshold"}}}, "keep"),
        ({"simulator": {"tcp": {"ends": "ack"}}}, "ends"),
        ({"fabric": {**RACKS, "link_delay": "0us", "host_delay": "0us"}}, "no link delay"),
        ({"fabric": {"topology": "single", "hosts": 3, "host_delay": "1us"}}, "no link delay"),
    ],
)
def test_obstacle__the_network_stays_whole(changes: dict[str, Any], obstacle: str) -> None:
    run = simulation(Taps(lambda columns: None), 2, **changes)
    assert obstacle in run.division.obstacle
    assert run.division == whole(run.topology, run.division.obstacle)


def test_endless_flows_are_an_obstacle() -> None:
    workload = {"flow": [{"from": "h1", "to": "h2", "until": "1s"}]}
    document = {**DOCUMENT, "workload": workload, "simulator": {"threads": 2}}
    document.pop("deadlines")
    scenario, *_ = scenario_with(document)
    assert "endless flows" in divide(scenario, build_topology(scenario)).obstacle


def test_divide__cuts_at_the_links_that_allow_the_greatest_speed_up() -> None:
    """At the hosts' long links; or at every link, if all are long."""
    scenario, _, topology = scenario_with(DOCUMENT, simulator={"threads": 2})
    division = divide(scenario, topology)
    assert division.host == (0,) * 6 + (1,) * 6 + (2,) * 6
    parts: dict[tuple[str, bool], set[int]] = {}
    for port, part in zip(topology.ports, division.port, strict=True):
        parts.setdefault((port.switch, port.edge), set()).add(part)
    up, down, spines = {"s1", "s2", "s3"}, {"s1", "s2", "s3"}, {"s4", "s5"}
    expected = {(name, False): 0 for name in up} | {(name, True): 2 for name in down}
    expected |= {(name, False): 1 for name in spines}
    assert {place: division.stage[min(of)] for place, of in parts.items()} == expected
    assert sorted(part for of in parts.values() for part in of) == list(range(3, 11))
    assert division.stage[:3] == (0,) * 3
    assert sum(division.shares) == pytest.approx(1)
    scenario, *_ = scenario_with(DOCUMENT, fabric=FABRICS["long links"], simulator={"threads": 2})
    division = divide(scenario, build_topology(scenario))
    assert division.stage == (0,) * 8
    assert division.host == (0,) * 6 + (1,) * 6 + (2,) * 6
    scenario, *_ = scenario_with(DOCUMENT)
    assert divide(scenario, build_topology(scenario)) == whole(build_topology(scenario))
