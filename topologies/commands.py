# SPDX-License-Identifier: Apache-2.0
"""Every command that sets up switches, hosts and links, and fixed OpenFlow rules, as data. Nothing is run here.

A command is its argument vector and its standard input. `ip` and `tc` read whole batches from standard input. An
OVSDB transaction is one `ovs-vsctl`.

A link with a delay has two veth pairs, and netem between their inner ends:

    switch port ═ x~a ──▶ netem of x~b ──▶ x~b ═ other end        and the same in the other direction

netem cannot be at the port itself. There it would be below Open vSwitch's queues and delay packets before the queues
serve them. Behind the port, the userspace datapath would take packets before any ingress qdisc sees them.

Fixed rules are for a network without a controller, as `sluice doctor` and tests have it. There are two tables. The
first maps the destination to an egress port (one path), the second maps port × tag to a queue. Like the controller, a
rule writes the queue twice: set_queue, and an 802.1p priority for the port program.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sluice.hostagent.port.queues import queues
from sluice.policy.network.graph import Host, Port, Topology
from sluice.policy.schemes.ports import HOST_BURST_BYTES, port_burst_bytes
from sluice.policy.tags import TAG_COUNT
from sluice.policy.units import NS_PER_S

QUEUE_PACKETS = 10_000
"""Length of the kernel's queues. It never limits: the port program's buffer in bytes is the limit."""

_OFFLOADS = ("rx", "tx", "sg", "tso", "gso", "gro")


class Command(NamedTuple):
    """One command."""

    argv: list[str]
    stdin: str | None = None


def sysctl(values: dict[str, str]) -> Command:
    return Command(["sysctl", "-q", "-w", *(f"{name}={value}" for name, value in values.items())])


def offloads(interface: str) -> Command:
    """Turn off segmentation and checksum offload, so that every packet is one frame with its own tag and checksum."""
    argv = ["ethtool", "-K", interface]
    for name in _OFFLOADS:
        argv += [name, "off"]
    return Command(argv)


REVALIDATE_MS = 100
"""Open vSwitch copies datapath counters to OpenFlow statistics at this interval. Below 100 it would use 500."""

KEEP_IDLE_MS = 2_000
"""Open vSwitch forgets a datapath flow that is idle for this long.

It checks all its datapath flows every REVALIDATE_MS. With its default of 10 s, the demonstration has 5,000 of them,
and checking them takes a quarter of a core.
"""


def ovs_settings() -> Command:
    """Set prompt counters and few threads, because switches and hosts share the machine."""
    return Command(
        [
            "ovs-vsctl",
            "--no-wait",
            "set",
            "Open_vSwitch",
            ".",
            f"other_config:max-revalidator={REVALIDATE_MS}",
            f"other_config:max-idle={KEEP_IDLE_MS}",
            "other_config:n-handler-threads=1",
            "other_config:n-revalidator-threads=1",
        ]
    )


def network(
    topology: Topology,
    *,
    controllers: Sequence[str],
    datapath_type: str,
    shares: Sequence[float] | None = None,
) -> Command:
    """Return the one OVSDB transaction that makes all bridges, ports and queues. `shares`: see `min_rates_bps`."""
    argv = ["ovs-vsctl"]
    for switch in topology.switches:
        argv += ["--", "add-br", switch.name]
        argv += ["--", "set", "Bridge", switch.name, "fail_mode=secure", "protocols=OpenFlow13"]
        argv += [f"datapath_type={datapath_type}", f"other_config:datapath-id={switch.dpid:016x}"]
        argv += [f"other_config:dp-desc={switch.name}", "other_config:disable-in-band=true"]
        argv += _controllers(switch.name, controllers) if controllers else []
        for port in topology.ports_of[switch.name]:
            argv += ["--", "add-port", switch.name, port.interface]
            argv += ["--", "set", "Interface", port.interface, f"ofport_request={port.number}"]
            argv += queues(port, shares)
    return Command(argv)


def _controllers(bridge: str, targets: Sequence[str]) -> list[str]:
    argv, rows = [], [f"@{bridge}_controller{number}" for number in range(len(targets))]
    for row, target in zip(rows, targets, strict=True):
        argv += ["--", f"--id={row}", "create", "Controller", f'target="{target}"']
        argv += ["connection_mode=out-of-band", "max_backoff=1000", "inactivity_probe=5000"]
    return [*argv, "--", "set", "Bridge", bridge, f"controller={','.join(rows)}"]


def controllers_of(switch: str) -> Command:
    """Ask for the Controller rows of a switch (`controller_rows`)."""
    return Command(["ovs-vsctl", "get", "Bridge", switch, "controller"])


def controller_rows(listing: str) -> list[str]:
    """Return the ids of rows, from the output of `controllers_of`."""
    return listing.strip("[] \n").split(", ")


def configure_once_connected(row: str) -> list[Command]:
    """Have Open vSwitch read a Controller row again once it is connected. The second command waits for that.

    Open vSwitch 3.1 applies max_backoff only if it is configured while it is connected. Otherwise it waits up to 8 s
    between two attempts, and a restarted controller would wait as long for its switches.
    """
    again = ["set", "Controller", row, "external_ids:configured=while-connected"]
    # An earlier ovs-vswitchd may have left is_connected=true in the database.
    forget = ["remove", "Controller", row, "external_ids", "configured"]
    return [
        Command(["ovs-vsctl", *forget, "--", "set", "Controller", row, "is_connected=false"]),
        Command(["ovs-vsctl", "wait-until", "Controller", row, "is_connected=true", "--", *again]),
    ]


def switch_namespace() -> list[Command]:
    """Before the ports are made, turn IPv6 off: switch ports have no addresses and send no packets of their own."""
    return [
        sysctl({"net.ipv6.conf.default.disable_ipv6": "1", "net.ipv6.conf.all.disable_ipv6": "1"}),
        Command(["ip", "link", "set", "lo", "up"]),
    ]


def switch_ports(ports: Sequence[Port]) -> list[Command]:
    """Before Open vSwitch takes the ports, set the two values that its queues inherit from the interface.

    One is the queue length. The other is the credit of the root class: Open vSwitch uses the MTU and ignores the QoS
    row. So the switch's side of a link has the burst as its MTU. The host's side has the true MTU, so no frame is that
    long. The larger MTU also leaves room for the priority tag, which the port program removes.
    """
    common = f"txqueuelen {QUEUE_PACKETS} gso_max_segs 1 up"
    lines = [f"link set {p.interface} mtu {port_burst_bytes(p.rate_bps)} {common}\n" for p in ports]
    return [Command(["ip", "-batch", "-"], "".join(lines)), *(offloads(port.interface) for port in ports)]


MTU_BYTES = 1500
LINK_CLASS = "1:1"
"""The class of a host's shaper. The host's agent makes the scheme's queues below it."""
HOST_PREFIX_V4 = 16
HOST_PREFIX_V6 = 64


def host(
    host: Host,
    peers: Iterable[Host],
    *,
    rate_bps: int,
    rto_min_ms: int,
    initial_window: int,
    has_rto_sysctl: bool,
) -> list[Command]:
    """Return all commands for a host's network namespace, which already holds its interface with its MAC address.

    `has_rto_sysctl`: net.ipv4.tcp_rto_min_us exists (kernel 6.11). Otherwise the routes carry the minimum RTO.
    """
    return [
        sysctl(host_sysctls(rto_min_ms if has_rto_sysctl else None)),
        Command(
            ["ip", "-batch", "-"], host_links(host, None if has_rto_sysctl else rto_min_ms, initial_window)
        ),
        Command(["ip", "-batch", "-"], neighbours(host, peers)),
        offloads(host.interface),
        Command(["tc", "-batch", "-"], shaper(host.interface, rate_bps)),
    ]


def host_sysctls(rto_min_ms: int | None) -> dict[str, str]:
    """Return the sysctls of a host's network namespace.

    - Hosts request ECN and accept it.
    - Socket buffers never limit the window.
    - TCP keeps no metrics of earlier connections, because one run would influence the next.
    - TCP slow-starts after an idle time, as in the papers' simulations.
    - Addresses are usable at once.
    - Reno is the default, because every kernel has it and allows it as a namespace's default. Agents set another.
    """
    values = {
        "net.ipv6.conf.all.disable_ipv6": "0",
        "net.ipv6.conf.default.disable_ipv6": "0",
        "net.ipv6.conf.all.accept_dad": "0",
        "net.ipv6.conf.default.accept_dad": "0",
        "net.ipv6.conf.all.router_solicitations": "0",
        "net.ipv6.conf.default.router_solicitations": "0",
        "net.ipv6.conf.all.accept_ra": "0",
        "net.ipv6.conf.default.accept_ra": "0",
        "net.ipv4.tcp_congestion_control": "reno",
        "net.ipv4.tcp_ecn": "1",
        "net.ipv4.tcp_rmem": "4096 524288 16777216",
        "net.ipv4.tcp_wmem": "4096 262144 16777216",
        "net.ipv4.tcp_no_metrics_save": "1",
        "net.ipv4.tcp_slow_start_after_idle": "1",
        "net.ipv4.tcp_tw_reuse": "1",
        "net.ipv4.ip_local_port_range": "10000 65000",
        "net.core.somaxconn": "4096",
    }
    if rto_min_ms is not None:
        values["net.ipv4.tcp_rto_min_us"] = str(rto_min_ms * 1000)
    return values


def host_links(host: Host, rto_min_ms: int | None, initial_window: int) -> str:
    """Return the input of `ip -batch`: the interface, its addresses, and routes with the transport's parameters."""
    dev = host.interface
    transport = f"initcwnd {initial_window}" + ("" if rto_min_ms is None else f" rto_min {rto_min_ms}ms")
    network_v4 = ".".join(host.ipv4.split(".")[:2]) + f".0.0/{HOST_PREFIX_V4}"
    network_v6 = host.ipv6.split("::")[0] + f"::/{HOST_PREFIX_V6}"
    lines = [
        "link set lo up",
        f"link set {dev} mtu {MTU_BYTES} txqueuelen {QUEUE_PACKETS} gso_max_segs 1 up",
        f"addr replace {host.ipv4}/{HOST_PREFIX_V4} dev {dev} noprefixroute",
        f"addr replace {host.ipv6}/{HOST_PREFIX_V6} dev {dev} nodad noprefixroute",
        f"route replace {network_v4} dev {dev} src {host.ipv4} {transport}",
        f"route replace {network_v6} dev {dev} src {host.ipv6} {transport}",
    ]
    return "\n".join(lines) + "\n"


def neighbours(host: Host, peers: Iterable[Host]) -> str:
    """Return the input of `ip -batch`: the other hosts' MAC addresses, so that no measurement waits for ARP."""
    lines = [
        f"neigh replace {address} lladdr {peer.mac} dev {host.interface} nud permanent\n"
        for peer in peers
        if peer.name != host.name
        for address in (peer.ipv4, peer.ipv6)
    ]
    return "".join(lines)


def shaper(interface: str, rate_bps: int) -> str:
    """Return the input of `tc -batch`: the link's rate, and one first-in-first-out queue until the agent makes more."""
    burst = HOST_BURST_BYTES
    return (
        f"qdisc replace dev {interface} root handle 1: htb default 1\n"
        f"class replace dev {interface} parent 1: classid {LINK_CLASS} htb rate {rate_bps}bit"
        f" burst {burst} cburst {burst}\n"
    )


_SMALLEST_FRAME_BITS = 64 * 8


def inner_ends(port: Port) -> tuple[str, str]:
    """Return the names of a link's inner ends: the one at the port, and the one at its peer."""
    return f"{port.interface}~a", f"{port.interface}~b"


def pair(inner: str, outer: str, pid: int) -> Command:
    """Make a veth pair. Its outer end goes into the network namespace of a process."""
    argv = ["ip", "link", "add", "name", inner, "type", "veth", "peer", "name", outer, "netns", str(pid)]
    return Command(argv)


def delayed(port: Port) -> list[Command]:
    """Forward frames between the inner ends of a link, each of them `port.delay_ns` later, in their order."""
    a, b = inner_ends(port)
    links = "".join(f"link set {end} txqueuelen {QUEUE_PACKETS} up\n" for end in (a, b))
    delay_us = round(port.delay_ns / 1000)  # tc knows no nanoseconds here
    forwarding = "".join(
        f"qdisc add dev {there} root netem delay {delay_us}us limit {in_flight_packets(port)}\n"
        f"qdisc add dev {here} clsact\n"
        f"filter add dev {here} ingress protocol all prio 1 matchall action mirred egress redirect dev {there}\n"
        for here, there in ((a, b), (b, a))
    )
    return [Command(["ip", "-batch", "-"], links), Command(["tc", "-batch", "-"], forwarding)]


def in_flight_packets(port: Port) -> int:
    """Return a number of packets that the link never holds at once, so that netem drops none."""
    smallest_frames = port.rate_bps * port.delay_ns // (_SMALLEST_FRAME_BITS * NS_PER_S)
    return QUEUE_PACKETS + 2 * smallest_frames


QueueOfTag = Callable[[int], int]


def flows(graph: Topology, switch: str, queue_of_tag: QueueOfTag = lambda tag: 0) -> list[str]:
    """Return the rules of a switch as lines for ovs-ofctl. They match IP only, because hosts need no ARP."""
    lines = []
    for host in graph.hosts:
        number = graph.next_ports(switch, host.name)[0].number
        for match in (f"ip,nw_dst={host.ipv4}", f"ipv6,ipv6_dst={host.ipv6}"):
            lines.append(f"table=0,{match},actions=write_metadata:{number},goto_table:1")
    for port in graph.ports_of[switch]:
        for tag in range(TAG_COUNT):
            for family in ("ip", "ipv6"):
                match = f"metadata={port.number},{family},ip_dscp={tag}"
                lines.append(f"table=1,{match},actions={to_queue(queue_of_tag(tag))},output:{port.number}")
    return lines


def to_queue(queue: int) -> str:
    """Return the actions before `output` that choose a queue."""
    return f"set_queue:{queue},push_vlan:0x8100,set_field:{queue}->vlan_pcp"


def install(graph: Topology, queue_of_tag: QueueOfTag = lambda tag: 0) -> list[Command]:
    """Return the commands that replace the rules of every switch, one command a switch."""
    return [
        Command(
            ["ovs-ofctl", "-O", "OpenFlow13", "--bundle", "replace-flows", switch.name, "-"],
            "\n".join(flows(graph, switch.name, queue_of_tag)) + "\n",
        )
        for switch in graph.switches
    ]
