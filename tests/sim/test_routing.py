# SPDX-License-Identifier: Apache-2.0
"""Equal-cost paths: packets take them in turn, or flows by a hash that is independent of other switches' hashes."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sluice.runs.files import scenario_with
from sluice.simulator import _fabric as core
from sluice.simulator.division import Layout, divide, whole
from sluice.simulator.network import port_maker
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Taps
from sluice.topologies import build_topology
from tests.sim import kit
from tests.sim.kit import GBIT, MS, NS, Link
from tests.sim.runs import run
from tests.sim.threaded import DOCUMENT, FABRICS, RACKS, simulation


def three_stages(flows: int, *, spray: bool = False) -> kit.Array:
    """Return the packets on each of 16 paths from host 0 to host 1: by one of 4 switches, then by
    one of 4 others."""
    net = kit.Net(2, 22, kit.transport(), spray=spray)
    fast = Link(1000 * GBIT, 0)
    net.add_port(fast, 0)
    net.add_port(fast, 21)
    net.route(0, [1], [net.add_port(fast, 1 + i) for i in range(4)])
    net.route(0, [0], [net.add_port(fast, 0, to_host=True)])
    ways = {}
    for i in range(4):
        ways[i] = [net.add_port(fast, 5 + 4 * i + j) for j in range(4)]
        net.route(1 + i, [1], ways[i])
    for middle in range(5, 21):
        net.route(middle, [1], [net.add_port(fast, 21)])
    net.route(21, [1], [net.add_port(fast, 1, to_host=True)])
    net.route(21, [0], [net.add_port(fast, 0)])
    net.add(bytes=[100] * flows, start_ps=np.arange(flows) * 100 * NS, source=[0] * flows, sink=[1] * flows)
    net.finish(100 * MS)
    return np.array([[net.port(port).packets for port in ways[i]] for i in range(4)])


def test_flows_are_spread_evenly_and_at_each_stage_anew() -> None:
    """16,000 flows over 4 x 4 paths, by chi-square at 1 in 1000: as even as chance, neither more nor less."""
    flows = 16_000
    packets = three_stages(flows)
    assert packets.sum() == flows
    expected = flows / 16
    statistic = ((packets - expected) ** 2 / expected).sum()
    assert chi2.ppf(0.001, 15) < statistic < chi2.ppf(0.999, 15)


def test_seeds_of_listed_flows_are_runs_of_their_own() -> None:
    """Flows between racks over four spines: other seeds send them over other links, so other flows collide."""
    flows = [{"from": f"h{i}", "to": f"h{i + 8}", "bytes": "1MB", "start": "0s"} for i in range(1, 9)]
    document = {
        "name": "listed",
        "fabric": {"topology": "leaf-spine", "leaves": 2, "spines": 4, "hosts_per_leaf": 8}
        | {"host_rate": "10Gbit", "core_rate": "10Gbit"},
        "scheme": {"name": "dctcp"},
        "workload": {"flow": flows},
    }
    fct_ps = [run(document, seed=seed).flows["fct_ps"].tolist() for seed in (1, 1, 2, 3)]
    assert fct_ps[0] == fct_ps[1]
    slowest = [max(times) for times in fct_ps[1:]]
    assert len(set(slowest)) == 3
    assert max(slowest) > 1.3 * min(slowest), "more flows share a link, and not only starts differ"


def test_packets_of_a_flow_take_one_way() -> None:
    net = kit.leaf_spine(2, 4, 2)
    net.flow(0, 3, 1_000_000)
    net.finish()
    carried = [s.packets for s in map(net.port, range(len(net.fabric.port_statistics())))]
    assert sum(count > 600 for count in carried) == 8  # four links there, four back


def test_sprayed_packets_go_each_way_in_turn() -> None:
    """No path carries more than one packet more than another."""
    packets = three_stages(4001, spray=True)
    assert np.ptp(packets.sum(axis=1)) <= 1
    assert (np.ptp(packets, axis=1) <= 1).all()


def test_run__a_switch_without_a_way_to_a_host_says_so() -> None:
    net = kit.Net(2, 1, kit.transport())
    net.add_port(Link(10 * GBIT, 0), 0)
    net.add_port(Link(10 * GBIT, 0), 0)
    net.flow(1, 0, 1000)
    with pytest.raises(ValueError, match="switch 0 has no route to host 0"):
        net.finish()


@pytest.mark.parametrize("group", [0, 7])
def test_set_route__a_group_that_is_not_there_is_refused(group: int) -> None:
    with pytest.raises(ValueError, match="a group that add_group returned"):
        core.Fabric(2, 1, kit.transport(), [100_000], 1, False).set_route(0, 0, group)


@pytest.mark.parametrize(
    ("bps", "peer", "is_host", "message"),
    [
        (GBIT, 2, True, "peer a host or switch of the fabric"),
        (GBIT, 1, False, "peer a host or switch of the fabric"),
        (0, 0, True, "bps must be above 0"),
    ],
)
def test_add_port__leads_to_what_is_there_at_a_rate(bps: int, peer: int, is_host: bool, message: str) -> None:
    fabric = core.Fabric(2, 1, kit.transport(), [100_000], 1, False)
    with pytest.raises(ValueError, match=message):
        fabric.add_port(Link(bps).settings(), core.Discipline(), peer, is_host)


def sent(made: Simulation) -> dict[str, int]:
    """Return the packets that each port of a switch has sent."""
    statistics = made.fabric.port_statistics()
    return {port: int(statistics[number][0]) for port, number in Layout(made.topology).port.items()}


@pytest.mark.parametrize(("multipath", "by_spine"), [("per-packet", [1, 1]), ("per-packet-and-host", [0, 2])])
def test_multipath__for_whom_packets_take_the_spines_in_turn(multipath: str, by_spine: list[int]) -> None:
    """A packet to each of two hosts of a rack."""
    document = {
        "name": "turns",
        "fabric": {"topology": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
        "scheme": {"name": "dctcp"},
        "transport": {"connections": "persistent"},
        "simulator": {"multipath": multipath},
        "workload": {"flow": [{"from": "h1", "to": to, "bytes": "1KB"} for to in ("h3", "h4")]},
    }
    made = run(document).simulation
    leaf = made.topology.edge_port("h1").switch
    up = [port.id for port in made.topology.ports_of[leaf] if not port.edge]
    assert sorted(sent(made)[port] for port in up) == by_spine


@pytest.mark.parametrize("multipath", ["per-flow", "per-packet"])
def test_a_link_that_is_down_carries_nothing_and_every_flow_ends(multipath: str) -> None:
    fabric = {
        "topology": "fat-tree",
        "host_rate": "10Gbit",
        "core_rate": "10Gbit",
        "down": ["s1-s9", "s10-s20"],
    }
    document = {
        "name": "down",
        "seed": 1,
        "fabric": fabric,
        "scheme": {"name": "pias"},
        "simulator": {"multipath": multipath},
        "workload": {"sizes": "web-search", "pattern": "all-to-all", "load": 0.2, "flows": 300},
    }
    made = run(document)
    assert (made.flows["outcome"] == kit.FINISHED).all()
    packets = sent(made.simulation)
    down = [port.id for port in made.simulation.topology.ports if not port.up]
    assert len(down) == 4
    assert not any(packets[port] for port in down)
    assert min(packets["s2:3"], packets["s2:4"]) > 0  # the other edge switch of the pod uses both


# What a host's own port adds to a short flow: by the setting [simulator] uplink, and by the policy's host_queues.


RATE_BPS = 80_000_000
SIZE_BYTES, HEADER_BYTES = 1000, 66
FRAME_US = (SIZE_BYTES + HEADER_BYTES) * 8e6 / RATE_BPS
LONG = {"from": "h2", "to": "h1", "bytes": "3MB"}


def fcts_us(*flows: dict[str, Any], uplink: str, initial_window: int = 10, **scheme: Any) -> list[float]:
    """Return the completion times of flows among three hosts at one switch."""
    document = {
        "name": "uplink",
        "fabric": {"topology": "single", "hosts": 3, "host_rate": "80Mbit"},
        "scheme": {"name": "dctcp", **scheme},
        "transport": {"connections": "persistent", "initial_window": initial_window},
        "simulator": {"uplink": uplink},
        "workload": {"flow": list(flows)},
    }
    return [fct_ps / 1e6 for fct_ps in run(document).flows["fct_ps"].tolist()]


@pytest.mark.parametrize(
    ("uplink", "crossings"), [("fabric", 2), ("kernel", 2), ("fair", 2), ("free", 2), ("unshaped", 1)]
)
def test_a_packet_is_serialised_at_every_port_that_has_the_links_rate(uplink: str, crossings: int) -> None:
    (fct_us,) = fcts_us({"from": "h2", "to": "h1", "bytes": f"{SIZE_BYTES}B"}, uplink=uplink)
    assert fct_us == pytest.approx(crossings * FRAME_US, abs=0.2)


@pytest.mark.parametrize(("uplink", "packets"), [("fabric", (5, 1000)), ("kernel", (3, 25))])
@pytest.mark.parametrize("host_queues", [True, False])
def test_a_short_flow_passes_a_long_one_of_its_host_only_with_host_queues(
    host_queues: bool, uplink: str, packets: tuple[int, int]
) -> None:
    """The two flows share no port but their host's. In one queue, the short flow waits for so many packets."""
    short = {"from": "h2", "to": "h3", "bytes": f"{SIZE_BYTES}B", "start": "100ms"}
    pias: dict[str, Any] = {"name": "pias", "queues": 2, "thresholds": ["100KB"], "host_queues": host_queues}
    waited_us = fcts_us(LONG, short, uplink=uplink, **pias)[1] - 2 * FRAME_US
    frame_us = 1526 * 8e6 / RATE_BPS
    least, most = (0, 2) if host_queues else packets
    assert least * frame_us <= waited_us <= most * frame_us


def test_flows_of_a_fair_host_send_in_turn() -> None:
    """A flow of 20 packets beside one of 2,000 has half of their host's link, not what the other leaves."""
    short = {"from": "h2", "to": "h3", "bytes": f"{20 * 1448}B", "start": "100ms"}
    frame_us = 1514 * 8e6 / RATE_BPS
    fct_us = fcts_us(LONG, short, uplink="fair", initial_window=1000)[1]
    assert fct_us == pytest.approx(2 * 20 * frame_us, abs=3 * frame_us)


def test_a_kernels_port_has_queues_without_marks_or_bound() -> None:
    """And Open vSwitch's classes at the other end of the link: each has what the link carries in 2 ms, every second."""
    document = {
        "name": "kernel",
        "fabric": {"topology": "single", "hosts": 2, "host_rate": "80Mbit"},
        "scheme": {"name": "fish", "queues": 4, "thresholds": ["10KB", "100KB", "1MB"], "mark_by": "ahead"},
        "simulator": {"links": "emulated", "uplink": "kernel"},
        "workload": {"flow": [{"from": "h2", "to": "h1", "bytes": "1MB"}]},
    }
    scenario, *_ = scenario_with(document)
    policy, [port, *_] = scenario.policy, build_topology(scenario).ports
    make = port_maker(policy, scenario.simulator)
    settings, discipline = make(port, True)
    assert (settings.mark_bytes, settings.tells_hosts) == (0, True)
    assert settings.buffer_bytes > 10**12
    assert discipline.scheduler == core.Scheduler.strict
    settings, discipline = make(port, False)
    assert (settings.mark_bytes, settings.tells_hosts) == (policy.mark_at, False)
    assert settings.mark_by == core.MarkBy.ahead
    given = [*(policy.shares or ()), 0, 0, 0, 0]
    assert discipline.shares == pytest.approx([max(share, 0.002) for share in given])
    assert discipline.burst_bytes == 20_000


# The division of a network into parts: which belongs where, in which stage, and what keeps a network whole.


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
    kept = simulation(Taps(lambda columns: None), 2, **changes)
    assert obstacle in kept.division.obstacle
    assert kept.division == whole(kept.topology, kept.division.obstacle)


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
