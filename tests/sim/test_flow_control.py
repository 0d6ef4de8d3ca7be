# SPDX-License-Identifier: Apache-2.0
"""Buffers that the ports of a switch share, and priority flow control: when a switch drops, pauses and resumes."""

from collections.abc import Sequence
from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.runs.files import scenario_with
from sluice.simulator.division import divide
from sluice.topologies import build_topology
from tests.sim import kit
from tests.sim.kit import FRAME, GBIT, MS, NS, PAYLOAD, US, Link, serialisation
from tests.sim.runs import run

ONE = 1 << 16
"""An alpha of 1."""
PAUSE_FRAME = 64
QUICK, SLOW = serialisation(FRAME, 10 * GBIT), serialisation(FRAME, GBIT)
PAUSE_PS = serialisation(PAUSE_FRAME, 10 * GBIT) + US
"""From the decision to pause until the far end of a link of 10 Gb/s and a microsecond stops."""


def link(bps: int = 10 * GBIT, **more: Any) -> Link:
    return Link(bps, more={"flow_control": True, **more})


def pfc(
    net: kit.Net,
    ports: Sequence[int],
    into: Sequence[int],
    frames: int,
    *,
    margin: int = 0,
    headroom: int = 3,
) -> None:
    """Let the ports of a switch share a buffer of so many frames besides the headroom, with an alpha of 1."""
    net.fabric.share_buffer(frames * FRAME, ONE, True, margin, ports, into, [headroom * FRAME] * len(into))


def chain(*, headroom: int = 3) -> kit.Net:
    """Host 0, two switches, host 1 behind a slow link. Ports: 0 and 1 of the hosts, 2 and 3 of the first switch, 4 and
    5 of the second one; 2 and 4 lead towards host 1. The second switch pauses with the fifth packet that waits."""
    net = kit.chain([link(), link(), link(GBIT)], kit.transport(initial_window=20))
    pfc(net, [2, 3], [0, 5], 1000)
    pfc(net, [4, 5], [1, 2], 8, margin=FRAME, headroom=headroom)
    return net


def sent(net: kit.Net, port: int, at_ps: int) -> int:
    net.run(at_ps)
    return net.port(port).packets


def test_a_pause_and_its_end_take_the_delay_of_the_link_and_the_time_of_a_frame() -> None:
    """Packet k reaches the second switch at (k + 2) QUICK + 2 us. Packet 0 leaves at once, packets 1 to 4 are half of
    the buffer, and packet 5 goes to the headroom."""
    net = chain()
    net.flow(0, 1, 20 * PAYLOAD)
    first_ps = 2 * QUICK + 2 * US
    pause_ps = first_ps + 5 * QUICK + PAUSE_PS
    assert sent(net, 2, pause_ps - 1) == 8, (
        "packet k begins to leave the first switch at (k + 1) QUICK + 1 us"
    )
    assert net.fabric.pauses().tolist() == [0] * 6
    net.run(pause_ps)
    assert net.fabric.pauses().tolist() == [0, 0, 1, 0, 0, 0]
    net.fabric.audit()
    # With a frame as margin, the pause ends once three packets are there, and the threshold is five.
    resume_ps = first_ps + 4 * SLOW + PAUSE_PS
    assert sent(net, 2, resume_ps - 1) == 8
    assert sent(net, 2, resume_ps) == 9
    net.finish()
    assert net.fabric.packets_dropped == 0
    net.assert_nothing_left()


def test_a_packet_beyond_the_headroom_is_dropped() -> None:
    """Packets 5, 6 and 7 come before the pause acts."""
    for headroom, dropped in ((3, 0), (2, 1), (1, 2)):
        net = chain(headroom=headroom)
        net.flow(0, 1, 20 * PAYLOAD)
        net.run(25 * US)
        assert net.port(4).dropped == dropped, headroom


def test_the_pause_of_a_switch_reaches_the_host_when_the_next_switch_is_full() -> None:
    """Both switches pause: the host itself waits, and no packet is lost."""
    net = kit.chain([link(), link(), link(GBIT)], kit.transport(initial_window=200))
    pfc(net, [2, 3], [0, 5], 8)
    pfc(net, [4, 5], [1, 2], 8)
    net.flow(0, 1, 200 * PAYLOAD)
    result = net.finish()
    assert net.fabric.pauses()[0] > 0
    assert net.fabric.packets_dropped == 0
    assert result["retransmissions"].tolist() == [0]
    assert result["fct_ps"].tolist() == [2 * QUICK + 200 * SLOW + 3 * US], "the slow link never waits"


def burst(alpha_q16: int, sinks: int) -> list[int]:
    """Return the longest queue in packets at each of the slow ports that 30 packets reach in turn, of ten frames."""
    net = kit.single(2 * sinks, kit.transport(initial_window=30), up=Link(), down=link(GBIT // 10))
    net.fabric.share_buffer(10 * FRAME, alpha_q16, False, 0, list(range(2 * sinks, 4 * sinks)))
    for i in range(sinks):
        net.flow(i, sinks + i, 30 * PAYLOAD, i * NS)
    net.run(50 * US)
    net.fabric.audit()
    return [net.port(net.towards[sinks + i]).most_bytes // FRAME for i in range(sinks)]


@pytest.mark.parametrize(
    ("alpha", "sinks", "longest"),
    [
        (1, 1, [5]),  # 4 + 1 <= 10 - 4, and not 5 + 1 <= 10 - 5
        (2, 1, [7]),  # 6 + 1 <= 2 (10 - 6)
        (0.5, 1, [3]),  # 2 + 1 <= (10 - 2) / 2, and not 3 + 1 <= (10 - 3) / 2
        (1, 2, [4, 3]),  # 3 + 1 <= 10 - 6, and then 3 + 1 > 10 - 7
        (64, 1, [10]),  # never more than there is
    ],
)
def test_a_queue_may_hold_alpha_times_what_is_free(alpha: float, sinks: int, longest: list[int]) -> None:
    """A packet is admitted if its queue with it is at most alpha times the free buffer without it."""
    assert burst(round(alpha * ONE), sinks) == longest


def incast(*, with_pfc: bool) -> tuple[kit.Net, kit.Columns]:
    net = kit.single(9, kit.transport(initial_window=70), up=link(), down=link())
    net.fabric.share_buffer(
        40 * FRAME,
        ONE,
        with_pfc,
        3000,
        list(range(9, 18)),
        list(range(9)) if with_pfc else [],
        [6 * FRAME] * 9 if with_pfc else [],
    )
    for source in range(8):
        net.flow(source, 8, 70 * PAYLOAD)
    return net, net.finish()


def test_an_incast_loses_packets_without_pfc_and_none_with_it() -> None:
    without, _ = incast(with_pfc=False)
    assert without.fabric.packets_dropped > 100
    net, result = incast(with_pfc=True)
    assert net.fabric.packets_dropped == 0
    assert net.fabric.pauses()[:8].min() > 0
    assert result["retransmissions"].sum() == 0
    assert result["fct_ps"].max() == 2 * US + QUICK + 560 * QUICK, "the last link never waits"
    without.assert_nothing_left()
    net.assert_nothing_left()


def victim(*, apart: bool) -> tuple[kit.Net, int]:
    """Hosts 0 and 1 send by one link to host 2, which is slow, and host 3. `apart`: in two priorities. Return the
    network and that link."""
    net = kit.Net(4, 2, kit.transport(initial_window=200, tags_deadlines=True))
    for host in range(4):
        net.add_port(link(), host // 2)
    there, back = net.add_port(link(), 1), net.add_port(link(), 0)
    net.route(0, [2, 3], [there])
    net.route(1, [0, 1], [back])
    for host in range(4):
        slow = GBIT // 10 if host == 2 else 10 * GBIT
        net.route(host // 2, [host], [net.add_port(link(slow), host, to_host=True)])
    pfc(net, [there, net.towards[0], net.towards[1]], [0, 1, back], 1000)
    pfc(net, [back, net.towards[2], net.towards[3]], [2, 3, there], 20)
    for port in range(len(net.fabric.port_statistics())):
        net.fabric.set_queue_of(port, kit.priority_map())
    net.flow(0, 2, 200 * PAYLOAD, **kit.as_priority(3, 0))
    net.flow(1, 3, 200 * PAYLOAD, 30 * US, **kit.as_priority(2 if apart else 3, 30 * US))
    return net, there


def test_a_paused_link_stops_a_flow_whose_own_path_is_free() -> None:
    """The first flow's packets fill the buffer of the second switch within 30 us. One leaves in 121 us, the next one
    enters, and the second flow's packets wait between them."""
    net, there = victim(apart=False)
    net.run(MS)
    assert net.fabric.pauses()[there] > 0
    assert net.port(there).waiting_bytes > 200 * FRAME
    assert net.port(net.towards[3]).packets < 30
    fct_ps = net.finish()["fct_ps"]
    assert fct_ps[1] > 10 * MS


def test_a_pause_stops_no_other_priority() -> None:
    net, there = victim(apart=True)
    fct_ps = net.finish()["fct_ps"]
    assert net.fabric.pauses()[there] > 0
    assert fct_ps[1] == pytest.approx(3 * US + 202 * QUICK, abs=2 * QUICK)


def test_acks_first__data_has_the_queue_after_and_a_pause_of_it_stops_no_ack() -> None:
    """Host 1 sends by the paused link of the other direction, too, and its ACKs come in time for the flow to go on."""
    fast, slow = (link(bps, acks_first=True, count_queues=True) for bps in (10 * GBIT, GBIT))
    net = kit.chain([fast, fast, slow], kit.transport(initial_window=20))
    pfc(net, [2, 3], [0, 5], 1000)
    pfc(net, [4, 5], [1, 2], 8, margin=FRAME)
    net.flow(0, 1, 20 * PAYLOAD)
    net.flow(1, 0, 10 * PAYLOAD)
    net.finish()
    sent = net.fabric.queue_counters()[:, :, 0]
    assert net.fabric.pauses()[2] > 0
    assert sent[2, :3].tolist() == [10, 20, 0]
    assert sent[5, :3].tolist() == [20, 10, 0]
    net.assert_nothing_left()


def test_settings_that_exclude_each_other_are_refused() -> None:
    net = kit.Net(2, 1)
    with pytest.raises(
        ValueError, match="burst_bytes at most what the link carries in 8 s, and 0 with flow_control"
    ):
        net.add_port(Link(more={"flow_control": True, "burst_bytes": 1}), 0)
    net.add_port(Link(), 0)
    for ports, into, headroom in (([0], [], []), ([], [0], [1]), ([], [9], [1]), ([], [], [1])):
        with pytest.raises(ValueError, match="share_buffer: ports and into must be"):
            net.fabric.share_buffer(FRAME, ONE, True, 0, ports, into, headroom)


# ── [simulator.shared_buffer] ──────────────────────────────────────────────────────────────────────────


def incast_document(**shared: Any) -> dict[str, Any]:
    """Eight hosts of one leaf send 100 KB each to a host of another one."""
    return {
        "name": "incast",
        "fabric": {
            "topology": "leaf-spine",
            "leaves": 2,
            "spines": 2,
            "hosts_per_leaf": 8,
            "host_rate": "10Gbit",
            "host_delay": "2us",
            "buffer": "20MB",
        },
        "scheme": {"name": "dctcp", "mark_at": "1MB"},
        "transport": {"connections": "persistent", "initial_window": 70, "rto_min": "20ms"},
        "simulator": {"shared_buffer": {"size": "700KB", **shared}},
        "workload": {"flow": [{"from": f"h{i + 1}", "to": "h16", "bytes": "100KB"} for i in range(8)]},
    }


def test_scenario__an_incast_overflows_a_shared_buffer_unless_it_pauses() -> None:
    lossy = run(incast_document(alpha=1))
    assert lossy.simulation.fabric.packets_dropped > 0
    paused = run(incast_document(alpha=0.25, pfc=True))
    assert paused.simulation.fabric.packets_dropped == 0
    assert paused.simulation.fabric.pauses().sum() > 0
    assert paused.flows["fct_ps"].max() < lossy.flows["fct_ps"].max()
    for one in (lossy, paused):
        one.simulation.fabric.audit()


def test_scenario__threads_leave_a_network_with_shared_buffers_whole() -> None:
    document = incast_document()
    document["simulator"]["threads"] = 2
    scenario, *_ = scenario_with(document)
    assert "[simulator.shared_buffer]" in divide(scenario, build_topology(scenario)).obstacle


@pytest.mark.parametrize(
    ("shared", "changed", "key"),
    [
        ({}, {"simulator": {"links": "emulated"}}, "simulator.links"),
        ({}, {"scheme": {"name": "pfabric"}}, "simulator.shared_buffer"),
        ({}, {"scheme": {"name": "d3"}}, "simulator.shared_buffer"),
        ({}, {"scheme": {"name": "sluice"}}, "simulator.shared_buffer"),
        ({"pfc": True}, {"simulator": {"uplink": "kernel"}}, "simulator.shared_buffer.pfc"),
        ({"pfc": True}, {"scheme": {"name": "homa"}}, "simulator.shared_buffer.pfc"),
        ({"pfc": True, "size": "50KB"}, {}, "simulator.shared_buffer.size"),
    ],
)
def test_scenario__what_does_not_go_with_shared_buffers_is_refused_by_its_key(
    shared: dict[str, Any], changed: dict[str, Any], key: str
) -> None:
    document = incast_document(**shared)
    document["simulator"] |= changed.get("simulator", {})
    document["scheme"] = changed.get("scheme", document["scheme"])
    with pytest.raises(FieldError, match=key):
        run(document)


def test_scenario__sluice_may_pause() -> None:
    """It chooses what a full port drops, but with PFC nothing is dropped."""
    document = incast_document(pfc=True, size="4MB")
    document["scheme"] = {"name": "sluice"}
    assert run(document).simulation.fabric.packets_dropped == 0
