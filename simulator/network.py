# SPDX-License-Identifier: Apache-2.0
"""Makes the fabric of a scenario, before any flow: settings of TCP and ports, hosts, switches and equal-cost routes."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from sluice.policy import controls
from sluice.policy.controls import Control, Need
from sluice.policy.errors import FieldError
from sluice.policy.figures.metrics import Array
from sluice.policy.network.graph import Port, Topology, ingress_groups
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.field_kinds import MAX_SUB_QUEUES, name_port
from sluice.policy.schemes import Marking, QueueRule, epochs
from sluice.policy.schemes.ports import (
    HOST_BURST_BYTES,
    PHANTOM_PERCENT,
    PortMarking,
    last_mark_bytes,
    least_class_rate_bps,
    mark_most_q32,
    port_burst_bytes,
)
from sluice.policy.tags import ATTAINED_FIRST
from sluice.policy.thresholds.static import unscheduled_cutoffs
from sluice.policy.units import FRAME_BYTES, NS_PER_S, PS_PER_NS, PS_PER_S, PS_PER_US
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.scenario import SPRAYS, Scenario, SimulatorSettings, TcpVariant
from sluice.policy.workload.sizes import scaled_bytes
from sluice.policy.workload.tables import AnyWorkload
from sluice.simulator import _fabric, build
from sluice.simulator.division import Division, Layout, whole
from sluice.simulator.flows import Transports
from sluice.simulator.limits import check_scenario

ALPHA_ONE_Q16 = 1 << 16
PAUSE_FRAME_BYTES = 64
"""As in the core (port/port.cpp)."""

MakePort = Callable[[Port, bool], tuple[_fabric.PortSettings, _fabric.Discipline]]
"""Returns the settings and discipline of a port, by its link and whether the port is a host's own."""


def near_ps(topology: Topology) -> int:
    """How long before its time nearly every event is added: twice the time of a frame on the slowest link.

    A packet on an empty link arrives later than that, by the link's delay. Once a link carries packets, arrivals follow
    each other closely.
    """
    return 2 * FRAME_BYTES * 8 * PS_PER_S // min(port.rate_bps for port in topology.ports)


def _add_ports(fabric: _fabric.Fabric, layout: Layout, make_port: MakePort, division: Division) -> None:
    topology = layout.topology
    groups = {switch.name: ingress_groups(topology.ports_of[switch.name]) for switch in topology.switches}
    for number, (link, part) in enumerate(zip(layout.links, (*division.host, *division.port), strict=True)):
        of_host = number < len(topology.hosts)
        settings, discipline = make_port(link, of_host)
        to_host, far_end = link.edge and not of_host, link.switch if of_host else link.peer
        peer = layout.host[far_end] if to_host else layout.switch[far_end]
        fabric.add_port(on_link(settings, link), discipline, peer, to_host, part, division.far[number])
        if of_host:
            fabric.set_ingress_group(number, groups[link.switch][link.number])


def on_link(settings: _fabric.PortSettings, link: Port) -> _fabric.PortSettings:
    """Return the settings with the link's rate, unless they have one, and the link's delay."""
    settings.bps = settings.bps or link.rate_bps
    settings.delay_ps = link.delay_ns * PS_PER_NS
    return settings


def _share_buffers(fabric: _fabric.Fabric, layout: Layout, scenario: Scenario) -> None:
    """Give each switch its buffer, if the scenario has them. Raises FieldError if headroom leaves nothing of it."""
    shared = scenario.simulator.shared_buffer
    if shared is None:
        return
    queues = min(scenario.policy.queues + shared.acks_first, QUEUES)
    into: dict[str, list[int]] = {switch: [] for switch in layout.switch}
    if shared.pfc:
        for number, link in enumerate(layout.links):
            if number < len(layout.host):
                into[link.switch].append(number)
            elif not link.edge:
                into[link.peer].append(number)
    tcp = scenario.simulator.tcp or TcpVariant()
    for switch, numbers in into.items():
        headroom = [headroom_bytes(layout.links[number], tcp) for number in numbers]
        size_bytes = shared.size_bytes - queues * sum(headroom)
        if size_bytes <= 0:
            raise FieldError(
                "simulator.shared_buffer.size",
                f"must be above {queues * sum(headroom)} bytes, the headroom of the links into {switch}",
            )
        fabric.share_buffer(
            size_bytes,
            round(shared.alpha * ALPHA_ONE_Q16),
            shared.pfc,
            shared.resume_margin_bytes,
            [layout.port[port.id] for port in layout.topology.ports_of[switch]],
            numbers,
            headroom,
        )


def headroom_bytes(link: Port, tcp: TcpVariant) -> int:
    """What may arrive in one priority from the packet that causes a pause on: the packet itself, what is on the link,
    what enters it until the pause arrives, and the rest of two packets that have begun by then."""
    frame_bytes = tcp.payload_bytes + tcp.header_bytes
    return -(-2 * link.delay_ns * link.rate_bps // (8 * NS_PER_S)) + PAUSE_FRAME_BYTES + 3 * frame_bytes


def route(fabric: _fabric.Fabric, layout: Layout, *, turn_by_host: bool) -> None:
    """Add every route of the graph. `turn_by_host`: packets that take equal-cost ports in turn do so for each host, not
    for each edge switch.

    The groups of a switch follow each other, so that no two threads write the same cache line.
    """
    for switch, ports, hosts in sorted(_routes(layout), key=lambda route: layout.switch[route[0]]):
        group = fabric.add_group(list(ports))
        for name in hosts:
            if turn_by_host and len(hosts) > 1:
                group = fabric.add_group(list(ports))
            fabric.set_route(layout.switch[switch], layout.host[name], group)


def _routes(layout: Layout) -> Iterator[tuple[str, Sequence[int], Sequence[str]]]:
    """Yield a switch, the numbers of equal-cost ports, and the hosts to which they lead.

    Other switches reach all hosts of one edge switch by the same ports.
    """
    for edge_switch, towards in layout.next_hops.items():
        ports = [port for port in layout.topology.ports_of[edge_switch] if port.edge]
        for port in ports:
            yield edge_switch, [layout.port[port.id]], [port.peer]
        for switch, numbers in towards.items():
            if switch != edge_switch:
                yield switch, numbers, [port.peer for port in ports]


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
        scenario.path_salt,
    )
    layout = Layout(topology)
    _add_ports(fabric, layout, make_port, division)
    _share_buffers(fabric, layout, scenario)
    route(fabric, layout, turn_by_host=scenario.simulator.multipath == "per-packet-and-host")
    fabric.trace(list(scenario.simulator.traced_flows))
    return fabric, layout


# ── Settings of TCP and ports ────────────────────────────────────────────────────────────────────────


ALPHA_ONE_Q20 = 1 << 20
SIZE_SAMPLES = 10_000
NO_WINDOW_BOUND = 10_000
"""Packets: more than any path and buffer here hold."""


def add_transports(fabric: _fabric.Fabric, scenario: Scenario, policy: Policy) -> Transports:
    """Add settings for each congestion control that parts of the workload have, and each level. Returns their numbers.

    In a scheme without levels, those of all levels are the same.
    """
    numbers = {("", 0): 0}
    for name, level in product(sorted({"", *scenario.workload.controls}), range(QUEUES + 1)):
        if level and not policy.definition.has_levels:
            numbers[name, level] = numbers[name, 0]
        elif name or level:
            control = controls.selectable()[name] if name else None
            numbers[name, level] = fabric.add_transport(transport_settings(scenario, policy, control, level))
    return numbers


def transport_settings(
    scenario: Scenario, policy: Policy, other: Control | None = None, level: int = 0
) -> _fabric.TransportSettings:
    """The settings of flows that start under this policy.

    `other`: instead of its control, with default parameters. `level`: in a scheme with levels; 0: the last one.
    """
    scheme, transport, simulator = policy.definition, scenario.transport, scenario.simulator
    settings = _fabric.TransportSettings()
    control = other or scheme.control
    if control.file:
        values = [parameter.default for parameter in control.parameters]
        if policy.parameters and control == scheme.control:
            values = list(policy.parameters.values)
        load = settings.load_transport if control.needs is Need.GRANTS else settings.load_control
        load(str(build.control_library(control)), values)
    else:
        settings.control = _fabric.Control[control.name]
    marks = scheme.marking is not Marking.NONE and control.reads_marks
    if control == controls.HOMA and policy.parameters:
        _give_levels(settings, scenario, policy, **policy.parameters.to_document())
    settings.echo = _fabric.Echo[control.echo.value] if marks else _fabric.Echo.none
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
    if scheme.has_levels:
        settings.tags, settings.fixed_tag = False, ATTAINED_FIRST - 1 + (level or policy.queues)
    settings.tags_bursts = transport.tags == "socket"
    settings.forgets_late = scheme.forgets_late or simulator.late == "plain"
    _vary(settings, simulator.tcp or TcpVariant())
    return settings


def _give_levels(
    settings: _fabric.TransportSettings,
    scenario: Scenario,
    policy: Policy,
    *,
    round_trip_bytes: int,
    unscheduled_levels: int,
) -> None:
    """Set Homa's window and its levels of priority, by the sizes of all flows: its hosts would have measured them."""
    payload_bytes = (scenario.simulator.tcp or TcpVariant()).payload_bytes
    cutoffs = unscheduled_cutoffs(
        _sizes_of(scenario.workload), round_trip_bytes, policy.queues, unscheduled_levels
    )
    settings.homa_round_trip_packets = max(1, -(-round_trip_bytes // payload_bytes))
    settings.homa_levels = policy.queues
    settings.homa_cutoffs_bytes = list(cutoffs)
    settings.homa_unscheduled_levels = len(cutoffs) + 1


def _sizes_of(workload: AnyWorkload) -> Array:
    """The sizes of listed flows, or evenly spaced percentiles of a distribution, in bytes."""
    if isinstance(workload, ExplicitWorkload):
        return np.asarray([flow.bytes for flow in workload.flows if flow.bytes], np.float64)
    size, _ = workload.sizes.at((np.arange(SIZE_SAMPLES) + 0.5) / SIZE_SAMPLES)
    return scaled_bytes(size, workload.scale).astype(np.float64)


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


# ── Ports ────────────────────────────────────────────────────────────────────────────────────────────


UNBOUNDED_BYTES = 2**62
UNSHAPED_BPS = 100_000_000_000
"""The rate of a host's link that takes almost no time at the rates of the testbed."""
QUEUES = 8
SHARE_BURST_BYTES = 3028
"""Two full frames: what a queue with a share may send at once after a pause."""


def port_maker(policy: Policy, simulator: SimulatorSettings) -> MakePort:
    """A function that gives a port its settings and discipline, by its link."""
    behaviour = policy.port_behaviour

    def make(link: Port, of_host: bool) -> tuple[_fabric.PortSettings, _fabric.Discipline]:
        settings = _fabric.PortSettings()
        shared = simulator.shared_buffer
        settings.flow_control = shared is not None and (shared.pfc or not of_host)
        settings.acks_first = settings.flow_control and shared is not None and shared.acks_first
        if of_host and policy.throughput_factors:
            limits = epochs.level_bytes(policy.throughput_factors)
            settings.epoch_ps = (policy.epoch or 0) * PS_PER_NS
            settings.level_bytes = [*limits, *[0] * (QUEUES - 1 - len(limits))]
        settings.traces_all = not of_host and name_port(simulator.traced_ports, link.id)
        settings.traces = settings.traces_all or bool(simulator.traced_flows)
        if simulator.links == "emulated":
            settings.burst_bytes = HOST_BURST_BYTES if of_host else port_burst_bytes(link.rate_bps)
        if of_host and Need.GRANTS in policy.needs:
            settings.buffer_bytes, settings.tells_hosts = UNBOUNDED_BYTES, True
            return settings, shortest_first()
        if of_host and simulator.uplink == "kernel":
            settings.buffer_bytes, settings.tells_hosts = UNBOUNDED_BYTES, True
            return settings, _fabric.Discipline()
        if of_host and simulator.uplink == "fair":
            settings.buffer_bytes = UNBOUNDED_BYTES
            return settings, flows_in_turn()
        if of_host and simulator.uplink != "fabric":
            settings.buffer_bytes = UNBOUNDED_BYTES
            settings.bps = UNSHAPED_BPS if simulator.uplink == "unshaped" else 0
            return settings, _fabric.Discipline()
        settings.buffer_bytes = UNBOUNDED_BYTES if of_host and settings.flow_control else policy.buffer
        settings.grants_rates = Need.EXPLICIT_RATES in policy.needs
        settings.stamps = not of_host and Need.TELEMETRY in policy.needs
        if policy.urgent_first:
            settings.drop_order = _fabric.DropOrder.urgency
        settings.count_tags = not of_host and policy.definition.threshold_rule.adapts
        _mark(settings, behaviour.marking(edge=link.edge), link.rate_bps)
        queueing = discipline(policy)
        if simulator.links == "emulated" and not of_host:
            _serve_as_htb(queueing, link.rate_bps)
        return settings, queueing

    return make


def shortest_first() -> _fabric.Discipline:
    """A port that serves the flow with the fewest packets left."""
    queueing = _fabric.Discipline()
    queueing.scheduler = _fabric.Scheduler.shortest_first
    return queueing


def flows_in_turn() -> _fabric.Discipline:
    """A port that serves its flows one after the other."""
    queueing = _fabric.Discipline()
    queueing.flow_queues, queueing.sub_queues, queueing.release_ns = True, MAX_SUB_QUEUES, 0
    return queueing


def _mark(settings: _fabric.PortSettings, marking: PortMarking, rate_bps: int) -> None:
    settings.mark_bytes = marking.mark_bytes or 0
    settings.mark_max_bytes = marking.mark_max_bytes or 0
    settings.mark_most_q32 = mark_most_q32(marking.mark_chance)
    settings.mark_by = _fabric.MarkBy[marking.mark_by]
    settings.last_queue = marking.last_queue
    settings.last_mark_bytes = last_mark_bytes(marking.mark_bytes, marking.last_mark_factor)
    if marking.phantom_mark_bytes is not None:
        settings.phantom_rate_bps = rate_bps * PHANTOM_PERCENT // 100
        settings.phantom_mark_bytes = marking.phantom_mark_bytes


def discipline(policy: Policy) -> _fabric.Discipline:
    """How packets wait at each port."""
    if policy.definition.queue_rule is QueueRule.SHORTEST_FIRST:
        return shortest_first()
    queueing = _fabric.Discipline()
    if policy.shares:
        queueing.scheduler = _fabric.Scheduler.shares
        queueing.shares = [*policy.shares, *[0.0] * (QUEUES - len(policy.shares))]
        queueing.burst_bytes = SHARE_BURST_BYTES
    if policy.flow_queues and policy.sub_queues and policy.release is not None:
        queueing.flow_queues = True
        queueing.sub_queues = policy.sub_queues
        queueing.release_ns = policy.release
    return queueing


def _serve_as_htb(queueing: _fabric.Discipline, rate_bps: int) -> None:
    """Give each queue of a port the least rate and the credit of a class of HTB."""
    if queueing.scheduler == _fabric.Scheduler.shortest_first:
        return
    shares = queueing.shares if queueing.scheduler == _fabric.Scheduler.shares else [0.0] * QUEUES
    queueing.scheduler = _fabric.Scheduler.shares
    queueing.shares = [max(share, least_class_rate_bps(rate_bps) / rate_bps) for share in shares]
    queueing.burst_bytes = port_burst_bytes(rate_bps)
