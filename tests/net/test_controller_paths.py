# SPDX-License-Identifier: Apache-2.0
"""Equal-cost paths and broadcast on a real leaf-spine network."""

from collections.abc import Iterator
from itertools import combinations

import pytest

from sluice import topologies
from sluice.policy.network.graph import Host
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from tests.net.controlled import Controlled, controlled

ECHO_SERVER = """
import socket, sys, threading
s = socket.create_server((sys.argv[1], 5001), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("ready", flush=True)
def serve(c):
    while data := c.recv(4096):
        c.sendall(data)
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""

FLOWS = """
import socket, sys
address, flows, packets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for _ in range(flows):
    s = socket.create_connection((address, 5001))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(packets):
        if ":" in address:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, (1 + i % 40) << 2)
        else:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, (1 + i % 40) << 2)
        s.sendall(b"x")
        s.recv(1)
    s.close()
"""


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controlled]:
    topology = topologies.build("leaf-spine", leaves=2, spines=2, hosts_per_leaf=2)
    with controlled(topology, tmp_path_factory.mktemp("fabric"), {"scheme": "pias"}) as fabric:
        yield fabric


def uplinks(fabric: Controlled) -> list[int]:
    return [port.number for port in fabric.topology.ports_of["s1"] if not port.edge]


def sent_over(fabric: Controlled, flows: int, packets: int, receiver: Host, family: str) -> dict[int, int]:
    """Return the packets on each uplink of s1 while h1 sends TCP flows to a host of the other leaf."""
    ports = uplinks(fabric)
    before = {port: sum(fabric.queue_packets("s1", port)) for port in ports}
    address = getattr(receiver, family)
    server = fabric.spawn_python(receiver.name, ECHO_SERVER, address)
    try:
        server.wait_printed("ready")
        fabric.python("h1", FLOWS, address, flows, packets)
    finally:
        stop(server.process)

    def moved() -> dict[int, int]:
        return {port: sum(fabric.queue_packets("s1", port)) - before[port] for port in ports}

    wait_until(lambda: sum(moved().values()) >= flows * packets, "all packets have left")
    return moved()


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_every_pair_of_hosts_is_connected(fabric: Controlled, family: str) -> None:
    for source, to in combinations(fabric.topology.hosts, 2):
        argv = ["ping", "-c", "2", "-i", "0.05", "-W", "60", getattr(to, family)]
        assert " 0% packet loss" in fabric.bed.exec(source.name, argv)


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_flows_spread_over_the_equal_cost_paths(fabric: Controlled, family: str) -> None:
    """64 TCP flows. Each of the two paths gets at least 10 (with a fair hash, fewer have a chance below 10^-8)."""
    moved = sent_over(fabric, 64, 10, fabric.topology.hosts[2], family)
    assert min(moved.values()) >= 10 * 10


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_a_flow_keeps_its_path_while_its_tag_grows(fabric: Controlled, family: str) -> None:
    """One flow uses all 40 tags. Either path may also carry a few packets of neighbour discovery."""
    moved = sent_over(fabric, 1, 400, fabric.topology.hosts[3], family)
    assert max(moved.values()) >= 400
    assert min(moved.values()) <= 10


def test_broadcast_arrives_once_at_every_other_host(fabric: Controlled) -> None:
    """ARP for an address that no host has, counted at every receiver."""
    listen = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
s.bind((sys.argv[1], 0))
print("ready", flush=True)
count = 0
s.settimeout(300)
try:
    while True:
        frame = s.recv(2000)
        if frame[:6] == b"\\xff" * 6:
            count += 1
        if frame[38:42] == bytes([10, 0, 200, 2]):
            break
except TimeoutError:
    pass
print("saw", count, flush=True)
"""
    send = """
import socket, sys, struct
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind((sys.argv[1], 0))
mac = s.getsockname()[4]
def arp(target):
    body = struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, mac, bytes([10, 0, 0, 1]), bytes(6), target)
    return b"\\xff" * 6 + mac + b"\\x08\\x06" + body
for _ in range(5):
    s.send(arp(bytes([10, 0, 200, 1])))
s.send(arp(bytes([10, 0, 200, 2])))
"""
    others = [host for host in fabric.topology.hosts if host.name != "h1"]
    listeners = {host.name: fabric.spawn_python(host.name, listen, host.interface) for host in others}
    for listener in listeners.values():
        listener.wait_printed("ready")
    fabric.python("h1", send, "h1-eth0")
    for listener in listeners.values():
        listener.process.wait(300)
    assert {name: listener.printed().split()[-1] for name, listener in listeners.items()} == dict.fromkeys(
        listeners, "6"
    )
