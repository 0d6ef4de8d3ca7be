# SPDX-License-Identifier: Apache-2.0
"""Commands that set up the private Open vSwitch: its bridges, ports and queues."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.hostagent.port.queues import queues
from sluice.policy.network.graph import Port, Topology
from sluice.policy.schemes.ports import port_burst_bytes
from sluice.topologies.commands.command import QUEUE_PACKETS, Command, offloads, sysctl

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
        argv += _bridge(switch.name, switch.dpid, datapath_type)
        argv += _controllers(switch.name, controllers) if controllers else []
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
