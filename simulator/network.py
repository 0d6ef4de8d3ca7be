# SPDX-License-Identifier: Apache-2.0
"""Makes the fabric of a scenario: hosts, switches, links and routes, before any flow."""

from __future__ import annotations

from sluice.policy.network.graph import Topology
from sluice.policy.workload.scenario import SPRAYS, Scenario
from sluice.simulator import _fabric
from sluice.simulator.division import Division, whole
from sluice.simulator.layout import Layout, MakePort, lay_out, near_ps
from sluice.simulator.limits import check_scenario
from sluice.simulator.transport import transport_settings


def make_fabric(
    scenario: Scenario, topology: Topology, make_port: MakePort, division: Division | None = None
) -> tuple[_fabric.Fabric, Layout]:
    """Return the fabric and its layout. Without a division, the network stays whole. Raises FieldError as
    `check_scenario` does."""
    division = division or whole(topology)
    check_scenario(scenario)
    fabric = _fabric.Fabric(
        len(topology.hosts),
        len(topology.switches),
        transport_settings(scenario, scenario.policy),
        [round(near_ps(topology) / share) for share in division.shares],
        scenario.seed,
        scenario.simulator.multipath in SPRAYS,
        scenario.simulator.threads or 1,
        list(division.stage),
    )
    by_host = scenario.simulator.multipath == "per-packet-and-host"
    return fabric, lay_out(fabric, topology, make_port, division, turn_by_host=by_host)
