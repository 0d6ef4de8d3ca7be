# SPDX-License-Identifier: Apache-2.0
"""Every command that sets up switches and hosts, as data. Nothing is run here.

A command is its argument vector and its standard input: `ip` and `tc` take whole batches there, and an OVSDB
transaction is one `ovs-vsctl`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from policy.emulation import HOST_BURST_BYTES, port_burst_bytes
from policy.graph import Host, Port, Topology

QUEUES = 8
"""Every port has queues 0 (first) … 7 (last); a scheme uses some."""

MIN_RATE_BPS = 12_000
"""A class below its min-rate goes before all priorities, so it must be tiny.

linux-htb takes no less than the MTU in a second, which is policy.emulation.MAX_TIMER_DELAY_NS of the link here: 0.2 %
of its rate for each queue.
"""

SHARES_TIMEOUT_S = 2
"""So long does whoever changes shares wait for ovs-vswitchd to carry it out."""

MTU_BYTES = 1500

QUEUE_PACKETS = 10_000
"""Length of the kernel's queues: never the limit, that is the buffer in bytes of the port program."""

REVALIDATE_MS = 100
"""Open vSwitch carries datapath counters into OpenFlow statistics this often. Less than 100 is refused: 500 then."""

KEEP_IDLE_MS = 2_000
"""Open vSwitch keeps what it knows of a flow that is silent for so long. At every REVALIDATE_MS it looks at all that it
keeps: with its own 10 s the 5,000 entries of the demonstration took a quarter of a core."""

HOST_PREFIX_V4 = 16
HOST_PREFIX_V6 = 64

_OFFLOADS = ("rx", "tx", "sg", "tso", "gso", "gro")


class Command(NamedTuple):
    """One command."""

    argv: list[str]
    stdin: str | None = None


def ovs_settings() -> Command:
    """Global settings: prompt counters for little work, and few threads: switches and hosts share the machine."""
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
    controller: str | None,
    datapath_type: str,
    shares: Sequence[float] | None = None,
) -> Command:
    """The one OVSDB transaction that makes all bridges, ports and queues. `shares`: see `min_rates_bps`."""
    argv = ["ovs-vsctl"]
    for switch in topology.switches:
        argv += ["--", "add-br", switch.name]
        argv += _bridge(switch.name, switch.dpid, datapath_type)
        argv += _controller(switch.name, controller) if controller else []
        for port in topology.ports_of[switch.name]:
            argv += ["--", "add-port", switch.name, port.interface]
            argv += ["--", "set", "Interface", port.interface, f"ofport_request={port.number}"]
            argv += queues(port, shares)
    return Command(argv)


def _bridge(name: str, dpid: int, datapath_type: str) -> list[str]:
    return [
        "--",
        "set",
        "Bridge",
        name,
        "fail_mode=secure",
        "protocols=OpenFlow13",
        f"datapath_type={datapath_type}",
        f"other_config:datapath-id={dpid:016x}",
        f"other_config:dp-desc={name}",
        "other_config:disable-in-band=true",
    ]


def _controller(bridge: str, target: str) -> list[str]:
    created = [
        f'target="{target}"',
        "connection_mode=out-of-band",
        "max_backoff=1000",
        "inactivity_probe=5000",
    ]
    id_ = f"@{bridge}_controller"
    return [
        "--",
        f"--id={id_}",
        "create",
        "Controller",
        *created,
        "--",
        "set",
        "Bridge",
        bridge,
        f"controller={id_}",
    ]


def configure_once_connected(switch: str) -> list[Command]:
    """Have Open vSwitch look at its controller's settings again as soon as it is connected; the second command waits.

    Open vSwitch 3.1 heeds max_backoff only when it is configured while it is connected. Until then it lets up to 8 s
    pass between two attempts, and so long a controller that has come back would wait for its switches.
    """
    again = ["set", "Controller", switch, "external_ids:configured=while-connected"]
    # What an ovs-vswitchd that is no more has left in the database must not count as connected.
    forget = ["remove", "Controller", switch, "external_ids", "configured"]
    return [
        Command(["ovs-vsctl", *forget, "--", "set", "Controller", switch, "is_connected=false"]),
        Command(["ovs-vsctl", "wait-until", "Controller", switch, "is_connected=true", "--", *again]),
    ]


def min_rates_bps(rate_bps: int, shares: Sequence[float] | None) -> list[int]:
    """What each queue of a port is sure of; None: strict priorities, nobody is sure of more than MIN_RATE_BPS.

    HTB serves whoever is below this rate first, top down; of what is left, the queue of highest priority has all.
    """
    given = [*(shares or ()), *[0.0] * QUEUES][:QUEUES]
    return [max(MIN_RATE_BPS, int(share * rate_bps)) for share in given]


def queues(port: Port, shares: Sequence[float] | None = None) -> list[str]:
    """Part of an OVSDB transaction: the QoS of a port and its queues, by priority up to the link rate.

    A Queue row has no name: its external_ids say whose it is (see `queue_rows`).
    """
    qos = f"@{port.switch}_{port.number}"
    rows = [f"{qos}_q{q}" for q in range(QUEUES)]
    argv = ["--", "set", "Port", port.interface, f"qos={qos}", "--", f"--id={qos}", "create", "QoS"]
    argv += ["type=linux-htb", f"other_config:max-rate={port.rate_bps}"]
    argv += [f"queues:{q}={row}" for q, row in enumerate(rows)]
    for q, (row, min_rate_bps) in enumerate(zip(rows, min_rates_bps(port.rate_bps, shares), strict=True)):
        argv += ["--", f"--id={row}", "create", "Queue", f"other_config:priority={q}"]
        argv += [f"other_config:min-rate={min_rate_bps}", f"other_config:max-rate={port.rate_bps}"]
        argv += [f"other_config:burst={port_burst_bytes(port.rate_bps) * 8}"]
        argv += [f"external_ids:interface={port.interface}", f"external_ids:queue={q}"]
    return argv


class QueueRow(NamedTuple):
    """A Queue of the database."""

    uuid: str
    interface: str
    queue: int
    min_rate_bps: int


LIST_QUEUES = Command(
    ["ovs-vsctl", "--format=json", "--columns=_uuid,external_ids,other_config", "list", "Queue"]
)


def queue_rows(said: str) -> list[QueueRow]:
    """What LIST_QUEUES said: the rows of our making."""
    rows = []
    for (_, uuid), (_, ids), (_, config) in json.loads(said)["data"]:
        whose, how = dict(ids), dict(config)
        if "interface" in whose:
            rows.append(QueueRow(uuid, whose["interface"], int(whose["queue"]), int(how["min-rate"])))
    return rows


def share_out(
    rows: Iterable[QueueRow], ports: Iterable[Port], shares: Sequence[float] | None
) -> Command | None:
    """The one transaction after which ports have these shares; None when they have them.

    Open vSwitch changes the classes where they are (RTM_NEWTCLASS): no packet is lost, nothing stops.
    """
    wanted = {port.interface: min_rates_bps(port.rate_bps, shares) for port in ports}
    argv = ["ovs-vsctl", f"--timeout={SHARES_TIMEOUT_S}"]
    for row in rows:
        if row.interface in wanted and wanted[row.interface][row.queue] != row.min_rate_bps:
            min_rate_bps = wanted[row.interface][row.queue]
            argv += ["--", "set", "Queue", row.uuid, f"other_config:min-rate={min_rate_bps}"]
    return Command(argv) if len(argv) > 2 else None


def offloads(interface: str) -> Command:
    """No segmentation and no checksum offload: every packet is one frame with its own tag and a true checksum."""
    argv = ["ethtool", "-K", interface]
    for name in _OFFLOADS:
        argv += [name, "off"]
    return Command(argv)


def switch_namespace() -> list[Command]:
    """Before the ports are made: switch ports have no addresses and say nothing themselves."""
    return [
        sysctl({"net.ipv6.conf.default.disable_ipv6": "1", "net.ipv6.conf.all.disable_ipv6": "1"}),
        Command(["ip", "link", "set", "lo", "up"]),
    ]


def switch_ports(ports: Sequence[Port]) -> list[Command]:
    """Before the ports are given to Open vSwitch, whose queues take two things from the interface.

    Their length; and the credit of the root class, which is the MTU whatever the QoS row says: so the switch's side of
    a link has that as its MTU. Nobody sends such frames, for the hosts' side has the true one; there is room for the
    priority tag that is on a frame until the port program takes it off.
    """
    common = f"txqueuelen {QUEUE_PACKETS} gso_max_segs 1 up"
    lines = [f"link set {p.interface} mtu {port_burst_bytes(p.rate_bps)} {common}\n" for p in ports]
    return [Command(["ip", "-batch", "-"], "".join(lines)), *(offloads(port.interface) for port in ports)]


def host(
    host: Host,
    peers: Iterable[Host],
    *,
    rate_bps: int,
    rto_min_ms: int,
    initial_window: int,
    has_rto_sysctl: bool,
) -> list[Command]:
    """Everything in a host's network namespace, its interface being there with its MAC address.

    `has_rto_sysctl`: net.ipv4.tcp_rto_min_us exists (kernel 6.11); else the routes carry the minimum RTO.
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


def sysctl(values: dict[str, str]) -> Command:
    return Command(["sysctl", "-q", "-w", *(f"{name}={value}" for name, value in values.items())])


def host_sysctls(rto_min_ms: int | None) -> dict[str, str]:
    """Of a host's network namespace.

    ECN on request and on offer; windows that never limit; no memory of earlier connections, which would let one run
    influence the next; slow start after an idle time, as in the papers' simulations; addresses usable at once. Reno is
    the one congestion control that every kernel has and allows as the default of a namespace; agents set another.
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
    """`ip -batch`: the interface, its addresses, and its routes with the transport's parameters."""
    dev = host.interface
    transport = f"initcwnd {initial_window}" + ("" if rto_min_ms is None else f" rto_min {rto_min_ms}ms")
    v4, v6 = f"{_network_v4(host)}/{HOST_PREFIX_V4}", f"{_network_v6(host)}/{HOST_PREFIX_V6}"
    lines = [
        "link set lo up",
        f"link set {dev} mtu {MTU_BYTES} txqueuelen {QUEUE_PACKETS} gso_max_segs 1 up",
        f"addr replace {host.ipv4}/{HOST_PREFIX_V4} dev {dev} noprefixroute",
        f"addr replace {host.ipv6}/{HOST_PREFIX_V6} dev {dev} nodad noprefixroute",
        f"route replace {v4} dev {dev} src {host.ipv4} {transport}",
        f"route replace {v6} dev {dev} src {host.ipv6} {transport}",
    ]
    return "\n".join(lines) + "\n"


def _network_v4(host: Host) -> str:
    return ".".join(host.ipv4.split(".")[:2]) + ".0.0"


def _network_v6(host: Host) -> str:
    return host.ipv6.split("::")[0] + "::"


def neighbours(host: Host, peers: Iterable[Host]) -> str:
    """`ip -batch`: the other hosts' MAC addresses, so that no measurement waits for ARP."""
    lines = [
        f"neigh replace {address} lladdr {peer.mac} dev {host.interface} nud permanent\n"
        for peer in peers
        if peer.name != host.name
        for address in (peer.ipv4, peer.ipv6)
    ]
    return "".join(lines)


def shaper(interface: str, rate_bps: int) -> str:
    """`tc -batch`: the host's end of the link sends at the link rate, first in first out; TCP itself keeps it short."""
    burst = HOST_BURST_BYTES
    return (
        f"qdisc replace dev {interface} root handle 1: htb default 1\n"
        f"class replace dev {interface} parent 1: classid 1:1 htb rate {rate_bps}bit burst {burst} cburst {burst}\n"
    )
