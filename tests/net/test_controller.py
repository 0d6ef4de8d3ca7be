# SPDX-License-Identifier: Apache-2.0
"""The controller and real Open vSwitch: rules, counters, changes under traffic, and every kind of crash."""

import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.checks.hostile import attacker
from sluice import topologies
from sluice.controller.tables import Table, cookie, cookie_table
from sluice.policy import tags
from sluice.policy.schema.desired import Policy, queue_map
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from sluice.store import observed
from tests.fakes.certificates import Authority, Pair
from tests.net.controlled import LISTEN, Controlled, Script, controlled

PIAS = {"scheme": "pias"}
AT_10KB = {"scheme": "pias", "queues": 2, "thresholds": ["10KB"]}
AT_1MB = {"scheme": "pias", "queues": 2, "thresholds": ["1000KB"]}
ADAPTIVE = {"scheme": "mlfq-adaptive", "queues": 2, "thresholds": ["1000KB"], "window_ms": 10_000}
BY_FINS = ADAPTIVE | {"robust_ends": False}
"""The sockets of TAGGED_FLOWS send a byte under the tag of 10 KB, which no payload confirms."""


# Scripts for hosts that send, answer and count tagged packets.

SEND_TAGGED = """
import socket, sys
address, family, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
s = socket.socket(family, socket.SOCK_DGRAM)
for dscp in range(64):
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
    else:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    for _ in range(count):
        s.sendto(b"x" * 100, (address, 9))
"""

ECHO_SERVER = """
import socket, sys, threading
s = socket.create_server((sys.argv[1], 5001), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("ready", flush=True)
while True:
    c, _ = s.accept()
    while c.recv(65536):
        pass
    c.close()
"""

TAGGED_FLOWS = """
import socket, sys
address, dscp, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for _ in range(count):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    if ":" in address:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
    else:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    s.connect((address, 5001))
    s.sendall(b"x")
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
    s.close()
"""

NUMBERED_STREAM = """
import socket, sys, time, pathlib
address, dscp, rate, stop = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
sent, began = 0, time.monotonic()
while not stop.exists():
    while sent < (time.monotonic() - began) * rate:
        s.sendto(sent.to_bytes(8, "big"), (address, 5002)); sent += 1
    time.sleep(0.002)
s.sendto((1 << 63 | sent).to_bytes(8, "big"), (address, 5002))
print(sent)
"""

NUMBERED_SINK = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE: a sink without the CPU loses nothing
s.bind((sys.argv[1], 5002))
print("ready", flush=True)
seen = set()
while True:
    number = int.from_bytes(s.recv(64), "big")
    if number >> 63:
        break
    seen.add(number)
print("received", len(seen), flush=True)
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controlled]:
    """One switch, three hosts, controller running."""
    topology = topologies.build("single", hosts=3, host_rate_bps=100_000_000)
    with controlled(topology, tmp_path_factory.mktemp("single"), PIAS) as network:
        yield network


def wait_line(script: Script, word: str) -> str:
    """Return the first output line from the word on."""
    found = wait_until(lambda: re.search(rf"{word}.*", script.printed()), f"the script prints {word}")
    return found[0]


def settled_queue_packets(network: Controlled, port: int) -> list[int]:
    """Return the queue counters once they no longer change."""
    last = network.queue_packets("s1", port)

    def still() -> bool:
        nonlocal last
        now, before = network.queue_packets("s1", port), last
        last = now
        return now == before

    wait_until(still, "the queue counters settle", interval_s=0.3)
    return last


def test_the_policy_is_reported_as_applied_with_the_thresholds_of_every_port(network: Controlled) -> None:
    network.apply(PIAS)
    thresholds = observed.latest_thresholds(network.engine)
    snapped = tuple(tags.snap_to_edge(t) for t in Policy.from_document(PIAS).thresholds)
    assert {port: change.thresholds_bytes for port, change in thresholds.items()} == {
        f"s1:{i}": snapped for i in (1, 2, 3)
    }
    assert {change.policy_version for change in thresholds.values()} == {network.version}
    (row,) = observed.all_switches(network.engine)
    assert (row["connected"], row["policy_version"]) == (True, network.version)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_each_queue_counts_the_packets_of_its_tags(network: Controlled, family: socket.AddressFamily) -> None:
    """All 64 code points, 20 packets each. Queue 0 may also carry a neighbour discovery."""
    network.apply(PIAS)
    queue_of = queue_map(Policy.from_document(PIAS), Policy.from_document(PIAS).thresholds)
    expected = [0] * 8
    for dscp in range(64):
        expected[queue_of[dscp if dscp < tags.TAG_COUNT else tags.UNTAGGED]] += 20
    before = settled_queue_packets(network, 2)
    receiver = network.topology.hosts[1]
    address = receiver.ipv6 if family == socket.AF_INET6 else receiver.ipv4
    network.python("h1", SEND_TAGGED, address, int(family), 20)
    wait_until(
        lambda: sum(network.queue_packets("s1", 2)) >= sum(before) + sum(expected), "the packets are counted"
    )
    moved = [now - then for now, then in zip(settled_queue_packets(network, 2), before, strict=True)]
    assert moved[1:] == expected[1:]
    assert expected[0] <= moved[0] <= expected[0] + 5


def test_a_change_under_traffic_loses_nothing_resets_nothing_and_is_never_half_done(
    network: Controlled, tmp_path: Path
) -> None:
    """2000 packets/s have the tag whose queue changes six times, while the test reads the table."""
    network.apply(AT_10KB)
    maps = {
        name: dict(enumerate(queue_map(policy, policy.thresholds))) | {tags.TAG_COUNT: 0}
        for name, policy in (("10KB", Policy.from_document(AT_10KB)), ("1MB", Policy.from_document(AT_1MB)))
    }
    tag, until = 12, tmp_path / "stop"
    address = network.topology.hosts[1].ipv4
    sink = network.spawn_python("h2", NUMBERED_SINK, address)
    wait_line(sink, "ready")
    rule = next(
        c for c, r in network.rules("s1", Table.MAP).items() if c >> 16 & 0xFFFF == 2 and c & 0xFF == tag
    )
    counters = [network.rules("s1", Table.MAP)[rule]]
    stream = network.spawn_python("h1", NUMBERED_STREAM, address, tag, 2000, until)
    for turn in range(6):
        network.put_policy((AT_1MB, AT_10KB)[turn % 2])
        whole = ""
        while whole != ("1MB", "10KB")[turn % 2]:
            rules = network.rules("s1", Table.MAP)
            counters.append(rules[rule])
            by_port: dict[int, dict[int, int]] = {}
            for r in rules.values():
                if "set_queue" in r.actions:
                    by_port.setdefault(r.cookie >> 16 & 0xFFFF, {})[r.cookie & 0xFF] = r.queue
            assert set(by_port) == {1, 2, 3}
            (whole,) = {name for name, queues in maps.items() if all(q == queues for q in by_port.values())}
    network.wait_applied()
    until.touch()
    stream.process.wait(300)
    sent = int(stream.printed())
    received = int(wait_line(sink, "received").split()[1])
    assert received == sent > 0
    assert [c.packets for c in counters] == sorted(c.packets for c in counters)
    assert [c.duration_s for c in counters] == sorted(c.duration_s for c in counters)
    # The rule's counter contains the whole stream, because no change has reset it.
    wait_until(
        lambda: network.rules("s1", Table.MAP)[rule].packets >= counters[0].packets + sent,
        "all packets are counted",
    )


def learn(network: Controlled, address: str) -> None:
    """Let 30 flows to h2 end in the bucket up to 10 KB, and wait until the port's threshold is their edge."""
    server = network.spawn_python("h2", ECHO_SERVER, address)
    try:
        wait_line(server, "ready")
        network.python("h1", TAGGED_FLOWS, address, tags.attained_tag(10_000), 30)
    finally:
        stop(server.process)
    wait_until(
        lambda: observed.latest_thresholds(network.engine)["s1:2"].thresholds_bytes == (10_000,),
        "the threshold is the short flows' edge",
    )


def test_thresholds_follow_the_sizes_of_completed_flows(network: Controlled) -> None:
    """Every flow ends in the bucket up to 10 KB. Their egress port adapts, and the others do not."""
    network.apply(BY_FINS)
    address = network.topology.hosts[1].ipv6
    learn(network, address)
    changes = observed.latest_thresholds(network.engine)
    assert changes["s1:2"].flows >= 5
    assert changes["s1:3"].thresholds_bytes == (1_000_000,)
    edge = tags.attained_tag(10_000)
    wait_until(lambda: network.queue_map("s1", 2)[edge + 1] == 1, "the rules have the threshold")
    assert network.queue_map("s1", 2)[edge] == 0
    assert network.queue_map("s1", 3)[edge + 1] == 0


def test_forged_fins_move_no_threshold_unless_every_fin_counts(network: Controlled) -> None:
    """They have the last tag and no payload. The same counters move it as soon as the policy believes every FIN."""
    network.apply(ADAPTIVE)
    began, rule = time.time(), cookie(Table.ENDS, 2, tags.ATTAINED_LAST, 1)
    hosts = [network.topology.host_by_name[name] for name in ("h1", "h2")]
    places = [f"{host.mac},{host.ipv4}" for host in hosts]
    before = network.rules("s1", Table.ENDS)[rule].packets
    argv = [sys.executable, attacker.__file__, "large-fins", "h1-eth0", *places, "500"]
    sender = network.bed.spawn("h1", argv)
    try:
        wait_until(
            lambda: network.rules("s1", Table.ENDS)[rule].packets >= before + 500, "500 FINs are counted"
        )
    finally:
        stop(sender)
    network.apply(BY_FINS)
    wait_until(
        lambda: observed.latest_thresholds(network.engine)["s1:2"].thresholds_bytes == tags.EDGES_BYTES[-1:],
        "the forged FINs count",
    )
    earlier = [
        change.thresholds_bytes
        for change in observed.threshold_history(network.engine, began, ["s1:2"])
        if change.policy_version < network.version
    ]
    assert set(earlier) <= {(1_000_000,)}


def test_a_restarted_controller_changes_no_right_rule_and_keeps_learned_thresholds(
    network: Controlled,
) -> None:
    """Packets flow during the outage. After it, no rule is newer and no counter is lower than before."""
    network.apply(BY_FINS | {"thresholds": ["100KB"]})
    learn(network, network.topology.hosts[1].ipv4)
    wait_until(
        lambda: network.queue_map("s1", 2)[tags.attained_tag(10_000) + 1] == 1, "the rules have the threshold"
    )
    before, form = network.rules("s1"), network.normal_form("s1")
    died = time.monotonic()
    network.kill_controller()
    output = network.bed.exec(
        "h1", ["ping", "-c", "20", "-i", "0.02", "-W", "60", network.topology.hosts[2].ipv4]
    )
    assert " 0% packet loss" in output
    network.take_over()
    elapsed = time.monotonic() - died
    after = network.rules("s1")
    assert network.normal_form("s1") == form
    for number, rule in before.items():
        assert after[number].duration_s >= rule.duration_s + elapsed * 0.9
        assert after[number].packets >= rule.packets
    assert observed.latest_thresholds(network.engine)["s1:2"].thresholds_bytes == (10_000,)


def test_a_restarted_controller_repairs_only_wrong_rules(network: Controlled) -> None:
    """Rules are deleted, changed or unknown, and a group is missing."""
    network.apply(AT_10KB)
    before, form = network.rules("s1"), network.normal_form("s1")
    groups = network.ofctl("dump-groups", "s1")
    network.kill_controller()
    wrong = {c for c in before if cookie_table(c) == Table.MAP and c >> 16 & 0xFFFF == 1}
    network.ofctl("del-flows", "s1", f"cookie={cookie(Table.MAP, 1, 0):#x}/0xffffffffffff0000")
    network.ofctl("add-flow", "s1", "table=0,priority=999,udp,actions=drop")
    network.ofctl("mod-flows", "--strict", "s1", f"table={Table.FORWARD:d},priority=0,actions=NORMAL")
    network.ofctl("del-groups", "s1", "group_id=1")
    assert network.normal_form("s1") != form
    network.take_over()
    assert network.normal_form("s1") == form
    assert network.ofctl("dump-groups", "s1").split("\n")[1:] == groups.split("\n")[1:]
    after = network.rules("s1")
    untouched = [c for c in before if c not in wrong and cookie_table(c) != Table.FORWARD]
    assert len(untouched) > 500
    assert all(after[number].duration_s > before[number].duration_s for number in untouched)


def test_a_switch_is_served_over_tls_and_one_with_another_certificate_is_refused(
    network: Controlled, tmp_path: Path
) -> None:
    network.apply(PIAS)
    assert network.controller is not None
    stop(network.controller)
    before = network.queue_map("s1", 1)
    network.put_policy({"scheme": "tcp"})
    own, other = Authority(tmp_path, "own"), Authority(tmp_path, "other")
    mine = own.issue("controller")
    network.start_controller(
        "--tls-key", mine.key, "--tls-cert", mine.certificate, "--tls-ca", own.certificate
    )

    def connect_as(pair: Pair) -> None:
        files = (pair.key, pair.certificate, own.certificate)
        network.bed.ovs(["ovs-vsctl", "set-ssl", *map(str, files)])
        network.bed.ovs(["ovs-vsctl", "set-controller", "s1", f"ssl:{LISTEN}"])

    connect_as(other.issue("switch"))
    wait_until(lambda: "TLS: CERTIFICATE_VERIFY_FAILED" in network.log, "the controller refuses the switch")
    assert network.queue_map("s1", 1) == before
    connect_as(own.issue("switch"))
    network.wait_applied()
    assert set(network.queue_map("s1", 1).values()) == {0}
