# SPDX-License-Identifier: Apache-2.0
"""What does not fit into the numbers of the core is refused with its key, or counted exactly."""

from typing import Any

import pytest

from sluice.policy.errors import SluiceError
from sluice.runs.files import scenario_with
from sluice.simulator import _fabric as core
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Taps
from sluice.topologies import build_topology
from tests.sim import kit
from tests.sim.kit import GBIT, PAYLOAD, Link

MOST_PACKETS = 2**32 - 2


@pytest.mark.parametrize(
    "settings",
    [
        {"payload_bytes": 0},
        {"header_bytes": 0},
        {"payload_bytes": 65_470},
        {"payload_bytes": 2**32 - 1, "header_bytes": 66},
        {"payload_bytes": 1, "header_bytes": 60_000, "sack_option_bytes": 5_512},
    ],
)
def test_a_frame_has_at_most_16_bits_of_bytes(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at most 65,535"):
        kit.single(2, kit.transport(**settings))


def test_the_largest_frame_counts_in_full() -> None:
    net = kit.single(2, kit.transport(payload_bytes=65_469, header_bytes=66))
    net.flow(0, 1, 65_469)
    net.finish()
    assert net.port(0).bytes == 65_535


def test_change_transport__refuses_frames_as_the_fabric_does() -> None:
    net = kit.single(2)
    with pytest.raises(ValueError, match="at most 65,535"):
        net.fabric.change_transport(kit.transport(header_bytes=65_000))


@pytest.mark.parametrize("size_bytes", [MOST_PACKETS * PAYLOAD + 1, 2**64 - 1])
def test_a_flow_has_at_most_32_bits_of_packets(size_bytes: int) -> None:
    net = kit.single(2)
    net.flow(0, 1, MOST_PACKETS * PAYLOAD)
    with pytest.raises(core.FlowTooLong, match="flow 1 has more than 4294967294 packets"):
        net.flow(0, 1, size_bytes)


def test_a_run_names_the_key_of_a_flow_that_is_too_long() -> None:
    document = {
        "name": "long",
        "fabric": {"topology": "single", "hosts": 2},
        "scheme": {"name": "dctcp"},
        "simulator": {"tcp": {"payload": "64B"}},
        "workload": {"flow": [{"from": "h1", "to": "h2", "bytes": "300GB"}]},
    }
    scenario, *_ = scenario_with(document)
    run = Simulation(scenario, build_topology(scenario), Taps(lambda columns: None))
    with pytest.raises(SluiceError, match=r"^workload: flow 0 .* of simulator\.tcp\.payload = 64B; set"):
        run.run()


@pytest.mark.parametrize("burst_bytes", [2_400_000, GBIT])
def test_a_link_sends_its_whole_burst_at_once(burst_bytes: int) -> None:
    """Eight times these bytes, in picoseconds, need more than 64 bits."""
    link = Link(GBIT, more={"burst_bytes": burst_bytes})
    net = kit.chain([link], kit.transport(initial_window=100))
    net.flow(0, 1, 100 * PAYLOAD)
    assert net.finish()["fct_ps"].tolist() == [link.delay_ps]


def test_a_burst_is_at_most_what_the_link_carries_in_eight_seconds() -> None:
    with pytest.raises(ValueError, match="burst_bytes at most what the link carries in 8 s"):
        kit.chain([Link(GBIT, more={"burst_bytes": GBIT + 1})])


def test_a_queue_may_send_a_burst_of_any_length() -> None:
    """The lowest of eight priorities has all of the link for itself, so it goes before the highest."""
    link = Link(GBIT, discipline=kit.shares([0.0] * 7 + [1.0], burst_bytes=2**60))
    net = kit.chain([link], kit.transport(initial_window=100, tags_deadlines=True))
    net.fabric.set_queue_of(0, kit.priority_map())
    for priority in (0, 7):
        net.flow(0, 1, 100 * PAYLOAD, **kit.as_priority(priority, 0))
    highest, lowest = net.finish()["fct_ps"].tolist()
    assert lowest < highest
