# SPDX-License-Identifier: Apache-2.0
"""Commands that set up a host: its addresses, its transport and its end of the link."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.policy.network.graph import Host
from sluice.policy.schemes.ports import HOST_BURST_BYTES
from sluice.topologies.commands.command import QUEUE_PACKETS, Command, offloads, sysctl

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
