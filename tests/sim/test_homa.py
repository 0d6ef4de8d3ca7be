# SPDX-License-Identifier: Apache-2.0
"""Homa in closed form: messages alone, the order in which a receiver grants, and what happens to lost packets."""

from typing import Any

import numpy as np
import pytest

from sluice.policy.errors import FieldError
from sluice.policy.thresholds.static import unscheduled_cutoffs
from sluice.runs.files import scenario_with
from sluice.simulator import _fabric as core
from sluice.simulator.limits import check_scenario
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Taps
from sluice.topologies import build_topology
from tests.sim import kit
from tests.sim.kit import FINISHED, FRAME, GBIT, HEADER, MS, PAYLOAD, US, Link, serialisation

LEVELS = 8
AHEAD = 8
"""Packets that leave without a grant, and that are granted beyond those that have arrived."""
RATE = 10 * GBIT
DELAY = US
FULL = serialisation(FRAME, RATE)
ACROSS = 2 * (FULL + DELAY)
"""From a packet's start until it has arrived, through one switch."""
TRIP = ACROSS + 2 * (serialisation(HEADER, RATE) + DELAY)


def homa(ahead: int = AHEAD, unscheduled: int = 1, **more: Any) -> core.TransportSettings:
    settings = {
        "homa_round_trip_packets": ahead,
        "homa_levels": LEVELS,
        "homa_unscheduled_levels": unscheduled,
        "homa_cutoffs_bytes": [PAYLOAD * (i + 1) for i in range(unscheduled - 1)],
        **more,
    }
    return kit.transport(control=core.Control.homa, echo=core.Echo.none, **settings)


def network(settings: core.TransportSettings, hosts: int = 4, **down: Any) -> kit.Net:
    """Hosts on one switch, which serves the level that a packet's tag names."""
    shortest = kit.discipline(scheduler=core.Scheduler.shortest_first)
    up = Link(RATE, DELAY, shortest, more={"tells_hosts": True})
    net = kit.single(hosts, settings, up=up, down=Link(RATE, DELAY, **down))
    for port in net.towards.values():
        net.fabric.set_queue_of(port, [0, *[min(level, LEVELS - 1) for level in range(kit.TAGS - 1)]])
    return net


@pytest.mark.parametrize("packets", [1, AHEAD, AHEAD + 1, 500])
def test_alone__a_message_fills_its_link_if_a_round_trip_is_granted(packets: int) -> None:
    net = network(homa())
    net.flow(0, 1, packets * PAYLOAD)
    assert net.fct_ps() == [ACROSS + (packets - 1) * FULL]


def test_alone__with_fewer_it_sends_as_many_in_each_round_trip() -> None:
    net = network(homa(ahead=2))
    net.flow(0, 1, 21 * PAYLOAD)
    assert 2 * FULL < TRIP
    assert net.fct_ps() == [ACROSS + 10 * TRIP]


def test_sink__serves_the_message_with_the_fewest_missing_packets_first() -> None:
    """The long message has all packets of a round trip in the queue, below the short one's."""
    net = network(homa())
    net.flow(0, 2, 400 * PAYLOAD)
    net.flow(1, 2, 50 * PAYLOAD, 100 * FULL)
    long, short = net.fct_ps()
    alone = ACROSS + 49 * FULL
    # Its unscheduled packets share level 0 with grants alone. One frame of the long message may be under way.
    assert alone <= short <= alone + 2 * FULL
    assert long == pytest.approx(ACROSS + 449 * FULL, abs=TRIP)


def test_source__sends_the_message_with_the_fewest_packets_left_first() -> None:
    net = network(homa())
    net.flow(0, 1, 400 * PAYLOAD)
    net.flow(0, 2, 50 * PAYLOAD, 100 * FULL)
    long, short = net.fct_ps()
    assert ACROSS + 49 * FULL <= short <= ACROSS + 50 * FULL
    assert long == pytest.approx(ACROSS + 449 * FULL, abs=TRIP)


@pytest.mark.parametrize(("unscheduled", "served"), [(1, 7), (5, 3), (7, 1)])
def test_sink__grants_to_as_many_messages_as_there_are_levels_for_it(unscheduled: int, served: int) -> None:
    """Ten messages come at once. What waits is what they sent without a grant, and a round trip of those served."""
    net = network(homa(unscheduled=unscheduled), hosts=11)
    net.add(bytes=[100 * PAYLOAD] * 10, start_ps=[0] * 10, source=range(10), sink=[10] * 10)
    net.run(MS // 2)
    under_way = net.port(net.towards[10])
    assert under_way.waiting_bytes <= (served + 1) * AHEAD * FRAME
    assert (under_way.waiting_bytes > served * AHEAD * FRAME / 2) or served == 1
    net.finish()
    net.assert_nothing_left()


def test_levels__follow_the_size_and_the_place_among_the_messages() -> None:
    """Cutoffs at one and two packets: three messages leave at levels 0, 1 and 2. One that is granted alone has the
    lowest level."""
    net = network(homa(unscheduled=3), more={"count_queues": True})
    net.add(
        bytes=[PAYLOAD, 2 * PAYLOAD, (AHEAD + 40) * PAYLOAD],
        start_ps=[0, 0, 0],
        source=[0, 1, 2],
        sink=[3, 3, 3],
    )
    net.fct_ps()
    packets = net.fabric.queue_counters()[net.towards[3], :, 0].tolist()
    assert packets == [1, 2, AHEAD, 0, 0, 0, 0, 40]


@pytest.mark.parametrize("buffer_frames", [2, 10])
def test_losses__are_asked_for_again(buffer_frames: int) -> None:
    """Thirty messages share a port that holds few packets. Data is lost, also whole messages."""
    net = network(homa(rto_min_ps=300 * US), hosts=31, buffer_bytes=buffer_frames * FRAME)
    net.add(bytes=np.arange(1, 31) * 4000, start_ps=[0] * 30, source=range(30), sink=[30] * 30)
    result = net.finish()
    assert set(result["outcome"]) == {FINISHED}
    assert result["delivered_bytes"].tolist() == (np.arange(1, 31) * 4000).tolist()
    assert net.port(net.towards[30]).dropped > 30
    assert result["retransmissions"].sum() >= net.port(net.towards[30]).dropped / 2
    net.assert_nothing_left()


def test_losses__what_waits_in_its_host_is_not_sent_again() -> None:
    """A long message waits for a hundred times its timeout behind shorter ones of its host."""
    net = network(homa(rto_min_ps=50 * US))
    net.flow(0, 1, 300 * PAYLOAD)
    for i in range(50):
        net.flow(0, 2, 80 * PAYLOAD, 20 * FULL + i * 80 * FULL)
    result = net.finish()
    assert result["fct_ps"][0] > 100 * 50 * US
    assert net.port(0).packets == 300 + 50 * 80 + int(result["timeouts"].sum())
    net.assert_nothing_left()


def test_settings__that_leave_no_level_for_grants_are_refused() -> None:
    for wrong in (
        {"homa_unscheduled_levels": LEVELS},
        {"homa_levels": 9},
        {"homa_round_trip_packets": 0},
        {"homa_cutoffs_bytes": [1]},
    ):
        with pytest.raises(ValueError, match="homa_"):
            network(homa(**wrong))
    net = network(homa())
    with pytest.raises(ValueError, match="until_ps"):
        net.flow(0, 1, 1, until_ps=MS)


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"simulator": {"uplink": "kernel"}}, "simulator.uplink"),
        ({"workload": {"flow": [{"from": "h1", "to": "h2", "until": "1s"}]}}, "workload.flow"),
        (
            {"workload": {"flow": [{"from": "h1", "to": "h2", "bytes": "1KB", "control": "dctcp"}]}},
            "workload",
        ),
        (
            {"scheme": {"name": "homa", "parameters": {"unscheduled_levels": 8}}},
            "scheme.parameters.unscheduled",
        ),
    ],
)
def test_scenario__that_messages_cannot_have_is_refused_by_its_key(changed: dict[str, Any], key: str) -> None:
    document = {
        "name": "homa",
        "fabric": {"topology": "single", "hosts": 2},
        "scheme": {"name": "homa", "parameters": {"round_trip_bytes": 20_000}},
        "workload": {"flow": [{"from": "h1", "to": "h2", "bytes": "100KB"}]},
    }
    scenario, *_ = scenario_with(document)
    run = Simulation(scenario, build_topology(scenario), Taps(lambda columns: None))
    run.run()
    with pytest.raises(FieldError, match=key):
        check_scenario(scenario_with(document | changed)[0])


def test_cutoffs__each_level_has_as_many_unscheduled_bytes() -> None:
    sizes = np.random.default_rng(1).lognormal(7, 2, 50_000)
    cutoffs = unscheduled_cutoffs(list(sizes), 9700, LEVELS)
    unasked = np.minimum(sizes, 9700)
    share = unasked.sum() / sizes.sum()
    assert len(cutoffs) + 1 == max(1, round(LEVELS * share))
    of_level = np.bincount(np.searchsorted(cutoffs, sizes), unasked)
    assert of_level == pytest.approx(np.full(len(cutoffs) + 1, unasked.sum() / (len(cutoffs) + 1)), rel=0.02)
    assert unscheduled_cutoffs([100.0, 200.0], 9700, LEVELS)[-1] <= 200, "one level is left for grants"
    assert len(unscheduled_cutoffs([1e9], 9700, LEVELS)) == 0
    assert len(unscheduled_cutoffs(list(sizes), 9700, LEVELS, 3)) == 2
