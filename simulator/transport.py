# SPDX-License-Identifier: Apache-2.0
"""Turns a scenario into the settings of the hosts' TCP."""

from __future__ import annotations

from policy.scenario import Scenario
from policy.schemes import Marking
from policy.workload import FRAME_BYTES, MSS_BYTES
from simulator import _fabric

PS_PER_US = 10**6
PS_PER_NS = 1000

CONTROLS = {
    "sluice_dctcp": _fabric.Control.dctcp,
    "sluice_ucp": _fabric.Control.ucp,
    "sluice_d2tcp": _fabric.Control.d2tcp,
    "sluice_datcp": _fabric.Control.datcp,
    "sluice_mcp": _fabric.Control.mcp,
    "cubic": _fabric.Control.cubic,
    "reno": _fabric.Control.reno,
    "pfabric": _fabric.Control.pfabric,
    "d3": _fabric.Control.d3,
}
"""By the name in the scheme. Those of the kernel have the same laws compiled in."""

STANDARD_ECHO = ("sluice_datcp", "reno", "cubic")
"""Controls whose receivers echo marks as in RFC 3168. All others echo the mark of each packet."""

NO_WINDOW_BOUND = 10_000
"""Packets: more than any path and buffer here hold."""


def transport_settings(scenario: Scenario) -> _fabric.TransportSettings:
    """The settings, which are the same for every flow of the run."""
    scheme, transport, simulator = scenario.policy.definition, scenario.transport, scenario.simulator
    control = scheme.congestion_control
    settings = _fabric.TransportSettings()
    settings.control = CONTROLS[control]
    settings.echo = _echo(control, scheme.marking)
    settings.payload_bytes = MSS_BYTES
    settings.header_bytes = FRAME_BYTES - MSS_BYTES
    settings.initial_window = transport.initial_window
    settings.max_window = transport.max_window or NO_WINDOW_BOUND
    settings.rto_min_ps = transport.rto_min_us * PS_PER_US
    settings.rto_initial_ps = simulator.rto_initial_us * PS_PER_US
    settings.duplicate_threshold = simulator.duplicate_threshold
    settings.recovers_as_linux = simulator.recovery == "linux"
    settings.packets_per_ack = simulator.packets_per_ack
    settings.ack_delay_ps = simulator.ack_delay_ns * PS_PER_NS
    settings.handshake = transport.connections == "new"
    settings.tags_deadlines = scheme.tags_deadlines
    settings.urgent_after_bytes = scenario.policy.urgent_after or 0
    settings.tags_sizes = scheme.tags_sizes
    settings.forgets_late = simulator.late == "plain"
    return settings


def _echo(control: str, marking: Marking) -> _fabric.Echo:
    if marking is Marking.NONE:
        return _fabric.Echo.none
    return _fabric.Echo.standard if control in STANDARD_ECHO else _fabric.Echo.exact
