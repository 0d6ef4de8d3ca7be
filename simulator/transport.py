# SPDX-License-Identifier: Apache-2.0
"""Turns a scenario into the settings of the hosts' TCP."""

from __future__ import annotations

from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import Marking, Scheme
from sluice.policy.units import PS_PER_NS, PS_PER_US
from sluice.policy.workload.scenario import Scenario, TcpVariant
from sluice.simulator import _fabric

ALPHA_ONE_Q20 = 1 << 20
NO_WINDOW_BOUND = 10_000
"""Packets: more than any path and buffer here hold."""


def transport_settings(scenario: Scenario, policy: Policy) -> _fabric.TransportSettings:
    """The settings of flows that start under this policy."""
    scheme, transport, simulator = policy.definition, scenario.transport, scenario.simulator
    settings = _fabric.TransportSettings()
    settings.control = _fabric.Control[scheme.control.name]
    settings.echo = _echo(scheme)
    settings.initial_window = transport.initial_window
    settings.max_window = transport.max_window or NO_WINDOW_BOUND
    settings.growth = policy.growth or 1
    settings.rto_min_ps = transport.rto_min_us * PS_PER_US
    settings.rto_initial_ps = simulator.rto_initial_us * PS_PER_US
    settings.duplicate_threshold = simulator.duplicate_threshold
    settings.recovers_as_linux = simulator.recovery == "linux"
    settings.undoes_late = simulator.undo == "late"
    settings.packets_per_ack = simulator.packets_per_ack
    settings.ack_delay_ps = simulator.ack_delay_ns * PS_PER_NS
    settings.small_queues = simulator.uplink == "kernel"
    settings.tick_ps = simulator.tick_ns * PS_PER_NS
    settings.handshake = transport.connections == "new"
    settings.tags_deadlines = scheme.tags_deadlines
    settings.urgent_after_bytes = policy.urgent_after or 0
    settings.tags_sizes = scheme.tags_sizes
    settings.forgets_late = scheme.forgets_late or simulator.late == "plain"
    _vary(settings, simulator.tcp or TcpVariant())
    return settings


def _vary(settings: _fabric.TransportSettings, tcp: TcpVariant) -> None:
    settings.payload_bytes = tcp.payload_bytes
    settings.header_bytes = tcp.header_bytes
    settings.first_alpha_q20 = round(tcp.first_alpha * ALPHA_ONE_Q20)
    settings.cuts_at_once = tcp.cut == "at-once"
    settings.bounds_from_first = tcp.bounds == "from-first"
    settings.changes_by_advance = tcp.changes == "by-advance"
    settings.keeps_threshold = tcp.keep == "threshold"
    settings.ends_with_ack = tcp.ends == "ack"
    settings.keeps_fractions = tcp.fractions == "keep"
    settings.alpha_by_acks = tcp.alpha_counts == "acks"
    settings.timeout_spares_threshold = tcp.after_timeout == "spare"
    settings.sack_option_bytes = tcp.sack_option_bytes
    settings.opens_if_busy = tcp.busy == "open"
    settings.starved_after = tcp.probe_after
    if tcp.timeout == "fixed":
        settings.timeout_rule = _fabric.TimeoutRule.fixed


def _echo(scheme: Scheme) -> _fabric.Echo:
    if scheme.marking is Marking.NONE:
        return _fabric.Echo.none
    return _fabric.Echo[scheme.control.echo.value]
