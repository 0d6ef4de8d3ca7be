# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace

from experiments.checks.soak.run import read_process
from sluice.hostagent.link import LinkMeter, with_rates
from sluice.policy.wire.agents import LinkCounters
from tests.unit.hostagent.namespaces import Cable

FIRST = LinkCounters(at=10.0, sent_bytes=1_000, received_bytes=0, dropped=0, waiting_bytes=0)


def test_with_rates__are_those_of_the_time_between_two_readings() -> None:
    second = replace(FIRST, at=10.5, sent_bytes=126_000, received_bytes=62_500)
    found = with_rates(second, FIRST)
    assert (found.sent_bps, found.received_bps) == (2_000_000, 1_000_000)


def test_with_rates__there_are_none_at_first_or_after_a_counter_went_back() -> None:
    assert with_rates(FIRST, None).sent_bps is None
    again = replace(FIRST, at=11.0, sent_bytes=5)
    assert with_rates(again, FIRST).sent_bps is None


def test_meter__counts_what_leaves_an_interface() -> None:
    meter = LinkMeter("lo")
    before = meter.read()
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.sendto(bytes(5_000), ("127.0.0.1", 9))
    after = meter.read()
    assert before is not None
    assert after is not None
    assert after.sent_bytes - before.sent_bytes >= 5_000
    assert after.sent_bps is not None
    assert after.sent_bps > 0


def test_meter__leaves_nothing_in_the_process() -> None:
    """A reading a second for weeks. A question over netlink would leave some kilobytes each time."""
    meter = LinkMeter("lo")
    for _ in range(200):
        meter.read()
    before_kb = resident_kb()
    for _ in range(1000):
        meter.read()
    assert resident_kb() - before_kb < 1000


def resident_kb() -> int:
    used = read_process(os.getpid())
    assert used is not None
    return used[0]


def test_meter__a_missing_interface_has_no_counters() -> None:
    meter = LinkMeter("no-such-if")
    assert meter.read() is None


READ_QUEUES = """
import socket
import sys
from sluice.hostagent.link import HostLink
from sluice.hostagent.link import LinkMeter
from sluice.runtime.command import run

link = HostLink("h1-eth0", "root")
link.begin()
with socket.socket(type=socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0x5C1C0003)
    for _ in range(5):
        sender.sendto(bytes(1000), ("10.9.0.2", 9))
print(*(queue.sent_bytes for queue in LinkMeter("h1-eth0").read().queues))
run(["tc", "qdisc", "replace", "dev", "h1-eth0", "root", "handle", "9:", "pfifo", "limit", "0"])
with socket.socket(type=socket.SOCK_DGRAM) as sender:
    for _ in range(3):
        sender.sendto(bytes(1000), ("10.9.0.2", 9))
found = LinkMeter("h1-eth0").read()
print(found.dropped, found.waiting_bytes, len(found.queues))
"""


def test_meter__counts_what_each_queue_sends_and_what_the_link_drops() -> None:
    with Cable() as cable:
        cable.exec("h1", ["ping", "-c", "1", "10.9.0.2"])
        queues, dropped = cable.exec("h1", [sys.executable, "-c", READ_QUEUES]).strip().splitlines()
    assert queues.split() == ["0", "0", str(5 * 1042), *["0"] * 5]
    assert dropped.split() == ["3", "0", "0"]
