# SPDX-License-Identifier: Apache-2.0
"""Links that lose packets, are cut and come back in the middle of a run."""

from typing import Any

import numpy as np
import pytest

from sluice.policy.errors import FieldError
from sluice.runs.files import scenario_with
from sluice.simulator.limits import check_scenario
from sluice.simulator.run import Simulation
from sluice.simulator.taps import OUTCOMES, Columns, Taps
from sluice.topologies import build_topology
from tests.sim import kit
from tests.sim.kit import FRAME, Link, S

FLOW = {"from": "h1", "to": "h3", "bytes": "2MB"}


def document(faults: list[dict[str, Any]], flows: list[dict[str, Any]], **simulator: Any) -> dict[str, Any]:
    """Two racks of two hosts (h1 and h2, h3 and h4 at s1 and s2), with s3 and s4 above them."""
    return {
        "name": "faults",
        "grace": "1s",
        "fabric": {
            "topology": "leaf-spine",
            "leaves": 2,
            "spines": 2,
            "hosts_per_leaf": 2,
            "host_rate": "10Gbit",
            "core_rate": "10Gbit",
            "link_delay": "1us",
        },
        "scheme": {"name": "dctcp", "buffer": "4MB"},
        "transport": {"connections": "persistent", "rto_min": "1ms"},
        "simulator": {"fault": faults, **simulator},
        "workload": {"flow": flows},
    }


def simulated(
    faults: list[dict[str, Any]], flows: list[dict[str, Any]], **simulator: Any
) -> tuple[Columns, Simulation]:
    """Return the flows in the order of their numbers, and the run."""
    scenario, *_ = scenario_with(document(faults, flows, **simulator))
    found: list[Columns] = []
    run = Simulation(scenario, build_topology(scenario), Taps(found.append))
    run.run()
    columns = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    order = np.argsort(columns["number"])
    return {name: column[order] for name, column in columns.items()}, run


def sent_packets(run: Simulation, port: str) -> int:
    numbers = [port.id for port in run.topology.ports]
    return int(run.fabric.port_statistics()[len(run.topology.hosts) + numbers.index(port)][0])


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_loss__takes_its_share_of_the_packets(share: float) -> None:
    settings = kit.transport(rto_min_ps=10**9, rto_initial_ps=10**9)
    net = kit.chain([Link(more={"loss_q32": round(share * (2**32 - 1))}), Link()], settings)
    net.flow(0, 1, 3000 * kit.PAYLOAD)
    net.finish(10**5 * S)
    port = net.port(0)
    arrived = port.packets + port.dropped
    spread = (arrived * share * (1 - share)) ** 0.5
    assert abs(port.dropped - share * arrived) < 4 * spread
    assert net.port(net.towards[0]).dropped > 0, "the way back loses its own"
    net.assert_nothing_left()


def test_loss__the_same_seed_loses_the_same_packets() -> None:
    faults = [{"link": "h1-s1", "loss": 0.02}]
    (one, _), (other, _) = simulated(faults, [FLOW]), simulated(faults, [FLOW])
    assert one["fct_ps"].tolist() == other["fct_ps"].tolist()
    assert one["retransmissions"][0] > 0
    assert one["outcome"].tolist() == [OUTCOMES.index("finished")]


def test_cut__a_link_without_another_way_stops_a_flow_until_it_is_back() -> None:
    (before, _), (cut, run) = (
        simulated(faults, [FLOW]) for faults in ([], [{"link": "h1-s1", "start": "1ms", "until": "50ms"}])
    )
    assert before["fct_ps"][0] < 5e9
    assert cut["fct_ps"][0] > 50e9
    assert cut["timeouts"][0] > 3
    assert cut["outcome"].tolist() == [OUTCOMES.index("finished")]
    assert run.fabric.packets_dropped > 0


def test_cut__switches_that_notice_choose_another_path_and_come_back() -> None:
    """Flows start before the cut, during it, and after its end. Without rerouting, those whose path is cut wait."""
    flows = [{**FLOW, "bytes": "100KB", "start": f"{i}ms"} for i in range(60)]
    cut = {"link": "s3-s1", "start": "20ms", "until": "40ms"}
    (blind, _), (seen, run) = simulated([cut], flows), simulated([{**cut, "reroute": "1ms"}], flows)
    slow_ps = 5e9
    assert not (blind["fct_ps"][:19] > slow_ps).any()
    assert (blind["fct_ps"][20:39] > slow_ps).any()
    assert not (seen["fct_ps"][22:] > slow_ps).any()
    assert set(seen["outcome"]) == {OUTCOMES.index("finished")}
    _, whole = simulated([], flows)
    kept = sent_packets(run, "s3:2") / sent_packets(whole, "s3:2")
    assert 0.4 < kept < 0.95, "before the cut and after its end"


def test_cut__several_faults_of_a_link_add_up_and_end_apart() -> None:
    flows = [{**FLOW, "bytes": "10KB", "start": f"{i}ms"} for i in range(30)]
    faults: list[dict[str, Any]] = [
        {"link": "s1-h1", "start": "5ms", "until": "15ms"},
        {"link": "h1-s1", "loss": 0.3, "start": "10ms", "until": "20ms"},
    ]
    columns, _ = simulated(faults, flows)
    slow = columns["fct_ps"] > 5e8
    assert not slow[:5].any()
    assert slow[6:15].all()
    assert slow[15:20].any()
    assert not slow[21:].any()


def test_a_port_that_fails_and_comes_back_keeps_what_waits() -> None:
    """The queue before the second host has more than the cut lasts."""
    flows = [{**FLOW, "from": f"h{i}", "bytes": "1MB"} for i in (1, 2, 4)]
    columns, run = simulated([{"link": "s2-h3", "start": "1ms", "until": "1010us"}], flows)
    assert set(columns["outcome"]) == {OUTCOMES.index("finished")}
    run.fabric.audit()
    assert run.fabric.packets_dropped < 10_000 * 10 * 8 // FRAME


@pytest.mark.parametrize(
    ("fault", "more", "message"),
    [
        ({"link": "s1-s9"}, {}, r"simulator.fault\[0\].link: 's1-s9' is not a link of the network"),
        ({"link": "s1-s3", "start": "2ms", "until": "1ms"}, {}, r"simulator.fault\[0\].until: must be later"),
        ({"link": "s1-s3", "loss": 0.1, "reroute": "1ms"}, {}, r"simulator.fault\[0\].reroute: applies only"),
        ({"link": "s1-s3", "loss": 0}, {}, r"simulator.fault\[0\].loss"),
        ({"link": "s1-s3"}, {"scheme": {"name": "d3"}}, r"simulator.fault: must not stand beside scheme d3"),
    ],
)
def test_faults__that_cannot_be_are_refused_by_their_key(
    fault: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(FieldError, match=message):
        check_scenario(scenario_with(document([fault], [FLOW]) | more)[0])
