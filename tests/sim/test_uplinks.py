# SPDX-License-Identifier: Apache-2.0
"""What a host's own port adds to a short flow: by the setting [simulator] uplink, and by the policy's host_queues."""

from __future__ import annotations

import pytest

from sluice.runs.files import scenario_with
from sluice.simulator import _fabric
from sluice.simulator.network import port_maker
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Columns, Taps
from sluice.topologies import build_topology

RATE_BPS = 80_000_000
SIZE_BYTES, HEADER_BYTES = 1000, 66
FRAME_US = (SIZE_BYTES + HEADER_BYTES) * 8e6 / RATE_BPS


@pytest.mark.parametrize(
    ("uplink", "crossings"), [("fabric", 2), ("kernel", 2), ("free", 2), ("unshaped", 1)]
)
def test_a_packet_is_serialised_at_every_port_that_has_the_links_rate(uplink: str, crossings: int) -> None:
    document = {
        "name": "uplink",
        "fabric": {"topology": "single", "hosts": 2, "host_rate": "80Mbit"},
        "scheme": {"name": "dctcp"},
        "transport": {"connections": "persistent"},
        "simulator": {"uplink": uplink},
        "workload": {"flow": [{"from": "h2", "to": "h1", "bytes": f"{SIZE_BYTES}B"}]},
    }
    scenario, *_ = scenario_with(document)
    ended: list[Columns] = []
    Simulation(scenario, build_topology(scenario), Taps(flows=ended.append)).run()
    [fct_ps] = [int(columns["fct_ps"][0]) for columns in ended if len(columns["fct_ps"])]
    assert fct_ps / 1e6 == pytest.approx(crossings * FRAME_US, abs=0.2)


@pytest.mark.parametrize(("uplink", "packets"), [("fabric", (5, 1000)), ("kernel", (3, 25))])
@pytest.mark.parametrize("host_queues", [True, False])
def test_a_short_flow_passes_a_long_one_of_its_host_only_with_host_queues(
    host_queues: bool, uplink: str, packets: tuple[int, int]
) -> None:
    """The two flows share no port but their host's. In one queue, the short flow waits for so many packets."""
    document = {
        "name": "host-queues",
        "fabric": {"topology": "single", "hosts": 3, "host_rate": "80Mbit"},
        "scheme": {"name": "pias", "queues": 2, "thresholds": ["100KB"], "host_queues": host_queues},
        "transport": {"connections": "persistent"},
        "simulator": {"uplink": uplink},
        "workload": {
            "flow": [
                {"from": "h2", "to": "h1", "bytes": "3MB"},
                {"from": "h2", "to": "h3", "bytes": f"{SIZE_BYTES}B", "start": "100ms"},
            ]
        },
    }
    scenario, *_ = scenario_with(document)
    ended: list[Columns] = []
    Simulation(scenario, build_topology(scenario), Taps(flows=ended.append)).run()
    found = {int(n): int(f) for c in ended for n, f in zip(c["number"], c["fct_ps"], strict=True)}
    waited_us = found[1] / 1e6 - 2 * FRAME_US
    frame_us = 1526 * 8e6 / RATE_BPS
    least, most = (0, 2) if host_queues else packets
    assert least * frame_us <= waited_us <= most * frame_us


def test_a_kernels_port_has_queues_without_marks_or_bound() -> None:
    """And Open vSwitch's classes at the other end of the link: each has what the link carries in 2 ms, every second."""
    document = {
        "name": "kernel",
        "fabric": {"topology": "single", "hosts": 2, "host_rate": "80Mbit"},
        "scheme": {"name": "fish", "queues": 4, "thresholds": ["10KB", "100KB", "1MB"]},
        "simulator": {"links": "emulated", "uplink": "kernel"},
        "workload": {"flow": [{"from": "h2", "to": "h1", "bytes": "1MB"}]},
    }
    scenario, *_ = scenario_with(document)
    policy, [port, *_] = scenario.policy, build_topology(scenario).ports
    make = port_maker(policy, scenario.simulator)
    settings, discipline = make(port, True)
    assert (settings.mark_bytes, settings.tells_hosts) == (0, True)
    assert settings.buffer_bytes > 10**12
    assert discipline.scheduler == _fabric.Scheduler.strict
    settings, discipline = make(port, False)
    assert (settings.mark_bytes, settings.tells_hosts) == (policy.mark_at, False)
    given = [*(policy.shares or ()), 0, 0, 0, 0]
    assert discipline.shares == pytest.approx([max(share, 0.002) for share in given])
    assert discipline.burst_bytes == 20_000
