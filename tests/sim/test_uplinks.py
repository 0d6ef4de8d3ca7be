# SPDX-License-Identifier: Apache-2.0
"""The time that a host's own port adds to a flow of one packet, by the setting [simulator] uplink."""

from __future__ import annotations

import pytest

from simulator.run import Simulation
from simulator.taps import Columns, Taps
from sluice.runs.files import scenario_with
from topologies import build_topology

RATE_BPS = 80_000_000
SIZE_BYTES, HEADER_BYTES = 1000, 66
FRAME_US = (SIZE_BYTES + HEADER_BYTES) * 8e6 / RATE_BPS


@pytest.mark.parametrize(("uplink", "crossings"), [("fabric", 2), ("free", 2), ("unshaped", 1)])
def test_a_packet_is_serialised_at_every_port_that_has_the_links_rate(uplink: str, crossings: int) -> None:
    document = {
        "name": "uplink",
        "fabric": {"topology": "single", "hosts": 2, "host_rate": "80Mbit"},
        "scheme": {"name": "dctcp"},
        "transport": {"connections": "persistent"},
        "simulator": {"uplink": uplink},
        "workload": {"flow": [{"from": "h2", "to": "h1", "bytes": f"{SIZE_BYTES}B"}]},
    }
    scenario, _ = scenario_with(document)
    ended: list[Columns] = []
    Simulation(scenario, build_topology(scenario), Taps(flows=ended.append)).run()
    [fct_ps] = [int(columns["fct_ps"][0]) for columns in ended if len(columns["fct_ps"])]
    assert fct_ps / 1e6 == pytest.approx(crossings * FRAME_US, abs=0.2)
