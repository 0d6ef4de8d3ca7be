# SPDX-License-Identifier: Apache-2.0
"""On random networks, sent = received + dropped + in flight at every event, and every flow gets
all its bytes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.simulator import _fabric as core
from sluice.simulator._fabric import MarkBy
from tests.sim import kit
from tests.sim.kit import FINISHED, FRAME, GBIT, MS, NO_BOUND, US, Link, S

LONG_AGO = 10**5 * S
"""By that time even a flow with many timeouts in a row has ended."""

rates = st.sampled_from([GBIT, 10 * GBIT, 40 * GBIT, 7_777_777_777])
delays = st.integers(0, 30 * US)
bursts = st.sampled_from([0, 0, 1, FRAME, 5000, 20 * FRAME])
buffers = st.sampled_from([FRAME, FRAME + 1, 3 * FRAME, 5000, 20 * FRAME, NO_BOUND])
markings: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"mark_bytes": 2 * FRAME},
        {"mark_bytes": FRAME, "mark_by": MarkBy.queue},
        {"mark_bytes": 1, "mark_max_bytes": 10 * FRAME},
        {"phantom_rate_bps": GBIT // 2, "phantom_mark_bytes": 3000},
    ]
)
disciplines: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"flow_queues": True, "sub_queues": 4, "release_ns": 10_000},
        {"scheduler": core.Scheduler.shares, "shares": [0.5, 0.3, 0, 0, 0.2, 0, 0, 0], "burst_bytes": 3028},
        {
            "scheduler": core.Scheduler.shares,
            "shares": [0.1] * 8,
            "burst_bytes": 0,
            "flow_queues": True,
            "sub_queues": 2,
        },
        {"scheduler": core.Scheduler.shortest_first},
    ]
)
transports = st.fixed_dictionaries(
    {
        "control": st.sampled_from(
            [
                getattr(core.Control, name)
                for name in (
                    "dctcp",
                    "ucp",
                    "d2tcp",
                    "datcp",
                    "mcp",
                    "reno",
                    "cubic",
                    "pfabric",
                    "homa",
                    "pdq",
                )
            ]
        ),
        "echo": st.sampled_from([core.Echo.none, core.Echo.standard, core.Echo.exact]),
        "initial_window": st.sampled_from([1, 2, 10, 70]),
        "max_window": st.sampled_from([2, 50, 10_000]),
        "packets_per_ack": st.integers(1, 3),
        "duplicate_threshold": st.sampled_from([0, 1, 3]),
        "recovers_as_linux": st.booleans(),
        "handshake": st.booleans(),
        "rto_min_ps": st.sampled_from([200 * US, 10 * MS]),
        "rto_initial_ps": st.sampled_from([300 * US, 100 * MS]),
        "ack_delay_ps": st.sampled_from([US, 500 * US]),
        "tags_deadlines": st.booleans(),
        "tags_sizes": st.booleans(),
    }
)


@st.composite
def links(draw: st.DrawFn, delays: st.SearchStrategy[int] = delays) -> Link:
    more = {**draw(markings), "burst_bytes": draw(bursts)}
    buffer_bytes = draw(buffers)
    if more["burst_bytes"]:
        # Where packets take no time, flows in step find the same buffer full of the others, again and again.
        buffer_bytes = NO_BOUND
    return Link(draw(rates), draw(delays), kit.discipline(**draw(disciplines)), buffer_bytes, more)


@st.composite
def networks(draw: st.DrawFn) -> tuple[kit.Net, int]:
    """Return one of the kit's topologies, with random ports."""
    transport = kit.transport(**draw(transports))
    common = {"seed": draw(st.integers(0, 2**32)), "near_ps": draw(st.sampled_from([US, MS, 10**6 * MS]))}
    shape = draw(st.sampled_from(["single", "chain", "leaf and spine"]))
    a, b = draw(links()), draw(links())
    if shape == "single":
        net, hosts = kit.single(5, transport, up=a, down=b, **common), 5
    elif shape == "chain":
        net, hosts = kit.chain([a, b, a], transport, **common), 2
    else:
        spines, spray = draw(st.integers(1, 2)), draw(st.booleans())
        net = kit.leaf_spine(2, spines, 2, transport, edge=a, core_link=b, spray=spray, **common)
        hosts = 4
    for port in range(len(net.fabric.port_statistics())):
        net.fabric.set_queue_of(port, [tag % 8 for tag in range(kit.TAGS)])
    return net, hosts


@st.composite
def flows(draw: st.DrawFn, hosts: int, most: int = 8, largest: int = 150_000) -> kit.ColumnsLike:
    """Return columns of random flows for Net.add."""
    count = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    start_ps = np.sort(rng.integers(0, draw(st.sampled_from([1, 100 * US, 5 * MS])), count))
    source = rng.integers(0, hosts, count)
    timed = rng.random(count) < 0.5
    return {
        "bytes": np.ceil(largest ** rng.random(count)),
        "start_ps": start_ps,
        "began_ps": start_ps - rng.integers(0, MS, count),
        "deadline_ps": np.where(timed, start_ps + rng.integers(1, 5 * MS, count), 0),
        "source": source,
        "sink": (source + rng.integers(1, hosts, count)) % hosts,
        "size_known": rng.random(count) < 0.5,
    }


def assert_all_delivered(net: kit.Net, result: kit.Columns, columns: kit.ColumnsLike) -> None:
    assert result["id"].tolist() == list(range(len(columns["bytes"])))
    assert set(result["outcome"]) == {FINISHED}
    assert result["delivered_bytes"].tolist() == np.asarray(columns["bytes"], np.uint64).tolist()
    net.assert_nothing_left()


@pytest.mark.slow
@settings(max_examples=80)
@given(st.data())
def test_packets_are_conserved_at_every_event(data: st.DataObject) -> None:
    net, hosts = data.draw(networks())
    columns = data.draw(flows(hosts))
    net.add(**columns)
    events = 0
    while not net.run(LONG_AGO, 1) and events < 3000:
        net.fabric.audit()
        events += 1
    assert net.run(LONG_AGO)
    assert_all_delivered(net, net.results(), columns)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_every_flow_ends_and_nothing_is_left(data: st.DataObject) -> None:
    net, hosts = data.draw(networks())
    columns = data.draw(flows(hosts, most=40, largest=2_000_000))
    net.add(**columns)
    assert_all_delivered(net, net.finish(LONG_AGO), columns)


@settings(max_examples=100)
@given(st.data())
def test_every_flow_ends_that_sends_at_granted_rates(data: st.DataObject) -> None:
    """D3 asks once a round trip, PDQ with each packet. Round trips are long here, so that D3 asks seldom.

    Each flow has one path. Scenarios with several are refused, because the ports of the others hold no grant of it.
    """
    edge, core_link = data.draw(links(st.just(20 * US))), data.draw(links(st.just(20 * US)))
    for link in (edge, core_link):
        link.more = {"grants_rates": True}
    settings = kit.transport(
        control=data.draw(st.sampled_from([core.Control.d3, core.Control.pdq])),
        echo=core.Echo.none,
        rto_min_ps=300 * US,
        handshake=data.draw(st.booleans()),
        duplicate_threshold=data.draw(st.sampled_from([0, 3])),
    )
    net = kit.leaf_spine(2, 2, 2, settings, edge=edge, core_link=core_link)
    columns = data.draw(flows(4, most=20))
    net.add(**columns)
    assert_all_delivered(net, net.finish(), columns)


@st.composite
def lossless(draw: st.DrawFn) -> tuple[kit.Net, int]:
    """A random network with PFC, and the headroom that its links need."""

    def drawn() -> Link:
        more = {"flow_control": True, **draw(markings)}
        return Link(draw(rates), draw(delays), kit.discipline(**draw(disciplines)), more=more)

    control = draw(st.sampled_from([core.Control.dctcp, core.Control.reno, core.Control.cubic]))
    window = draw(st.sampled_from([2, 70, 1000]))
    transport = kit.transport(control=control, initial_window=window, tags_deadlines=True, rto_min_ps=10 * S)
    edge, between = drawn(), drawn()
    spines = draw(st.integers(1, 2))
    net = kit.leaf_spine(2, spines, 2, transport, edge=edge, core_link=between, spray=draw(st.booleans()))
    # Ports: of the hosts; of each leaf, two to hosts and one to each spine; of each spine, one to each leaf.
    up = [[4 + leaf * (2 + spines) + 2 + spine for spine in range(spines)] for leaf in range(2)]
    down = [[4 + 2 * (2 + spines) + 2 * spine + leaf for spine in range(spines)] for leaf in range(2)]

    def headroom(one: Link) -> int:
        return 2 * one.delay_ps * one.bps // (8 * S) + 64 + 3 * FRAME + 2

    def share(ports: list[int], edges: list[int], others: list[int]) -> None:
        room = [headroom(edge)] * len(edges) + [headroom(between)] * len(others)
        size_bytes, margin = draw(st.integers(1, 30)) * FRAME, draw(st.sampled_from([0, 3000]))
        alpha = draw(st.sampled_from([1 << 13, 1 << 16, 1 << 19]))
        net.fabric.share_buffer(size_bytes, alpha, True, margin, ports, edges + others, room)

    for leaf in range(2):
        hosts = [2 * leaf, 2 * leaf + 1]
        share([net.towards[host] for host in hosts] + up[leaf], hosts, down[leaf])
    for spine in range(spines):
        share([down[leaf][spine] for leaf in range(2)], [], [up[leaf][spine] for leaf in range(2)])
    for port in range(len(net.fabric.port_statistics())):
        net.fabric.set_queue_of(port, [tag % 8 for tag in range(kit.TAGS)])
    return net, 4


@settings(max_examples=100)
@given(st.data())
def test_random_networks_with_pfc_lose_nothing(data: st.DataObject) -> None:
    net, hosts = data.draw(lossless())
    columns = data.draw(flows(hosts, most=20))
    net.add(**columns)
    while not net.run(LONG_AGO, 500):
        net.fabric.audit()
    assert net.fabric.packets_dropped == 0
    assert_all_delivered(net, net.results(), columns)


@pytest.mark.parametrize(
    ("discipline", "threshold"),
    [({}, 3), ({"scheduler": core.Scheduler.shortest_first}, 0)],
    ids=["strict", "shortest first"],
)
def test_every_flow_ends_where_two_packets_wait_at_most(discipline: dict[str, Any], threshold: int) -> None:
    """30 flows share one port, which loses data, retransmissions and ACKs."""
    settings = kit.transport(rto_min_ps=200 * US, rto_initial_ps=200 * US, duplicate_threshold=threshold)
    down = Link(buffer_bytes=2 * FRAME, discipline=kit.discipline(**discipline))
    net = kit.single(31, settings, down=down)
    columns = {
        "bytes": [200_000] * 30,
        "start_ps": [0] * 30,
        "source": range(30),
        "sink": [30] * 30,
    }
    net.add(**columns)
    result = net.finish(LONG_AGO)
    assert result["timeouts"].sum() > 30
    assert net.port(net.towards[30]).dropped > 100
    assert net.port(net.towards[30]).most_bytes <= 2 * FRAME
    assert_all_delivered(net, result, columns)


def test_nothing_is_left_of_a_flow_whose_last_packet_is_dropped() -> None:
    """A needless retransmission is dropped after its flow has ended, and the flow is removed nevertheless.

    The timeout is shorter than the round trip, so packet 0 leaves twice. Its second copy waits behind another flow's
    packets and then finds the last port full.
    """
    settings = kit.transport(rto_min_ps=MS, rto_initial_ps=20 * US, initial_window=200)
    edge = Link(10 * GBIT, 2 * US, buffer_bytes=FRAME)
    net = kit.Net(5, 2, settings)
    for host in range(5):
        net.add_port(Link(10 * GBIT, 2 * US), int(host > 1))
    core_port = net.add_port(Link(GBIT, 2 * US), 1)
    net.route(0, [2, 3, 4], [core_port])
    net.route(1, [0, 1], [net.add_port(Link(GBIT, 2 * US), 0)])
    for host in range(5):
        net.route(int(host > 1), [host], [net.add_port(edge, host, to_host=True)])
    net.add(
        bytes=[kit.PAYLOAD, 20 * kit.PAYLOAD, 200 * kit.PAYLOAD, 200 * kit.PAYLOAD],
        start_ps=[0, 5 * US, 100 * US, 100 * US],
        source=[0, 1, 3, 4],
        sink=[2, 2, 2, 2],
    )
    net.run(100 * US)
    assert net.results()["id"].tolist() == [0]
    assert net.port(0).packets == 2
    assert net.fabric.flows_under_way == 4
    net.run(300 * US)
    assert net.fabric.flows_under_way == 3
    net.finish()
    net.assert_nothing_left()


def test_nothing_is_left_of_an_endless_flow_after_its_end() -> None:
    """The result counts what arrived until the end. Packets in flight then arrive or are dropped."""
    net = kit.single(3, kit.transport(), down=Link(buffer_bytes=3 * FRAME))
    net.add(bytes=[1, 1], start_ps=[0, 0], until_ps=[3 * MS, 5 * MS], source=[0, 1], sink=[2, 2])
    result = net.finish(LONG_AGO)
    assert result["outcome"].tolist() == [kit.ENDED] * 2
    assert result["fct_ps"].tolist() == [3 * MS, 5 * MS]
    rate_bps = result["delivered_bytes"].sum() * 8 / 5e-3
    assert 0.5 * 10 * GBIT < rate_bps < 10 * GBIT
    net.assert_nothing_left()
