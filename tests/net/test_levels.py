# SPDX-License-Identifier: Apache-2.0
"""QJUMP on a testbed: agents limit each level by the rate that follows from the network, and ports serve the levels.

Real TCP sends messages at level 1 beside TCP that fills the links at the last level, and a program sends datagrams at
level 2. Counters say which way the packets went.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sluice.dataplane.link_queues import HANDLE
from sluice.policy.schemes.epochs import level_rates_bps
from sluice.policy.units import BITS_PER_BYTE
from sluice.runs.bundle import read_flows
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.runs.testbed_run import run_on_testbed
from sluice.runtime.wait import wait_until
from sluice.store.observed import all_sanctions
from sluice.topologies.testbed import Testbed
from tests.kit.known import known

MESSAGES, DATAGRAMS = 20, 5
UNITS = {"": 1, "K": 10**3, "M": 10**6, "T": 10**12}
PROGRAM = f"""
import socket
sender = socket.socket(type=socket.SOCK_DGRAM)
sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 2)
for _ in range({DATAGRAMS}):
    sender.sendto(bytes(1000), ("10.0.0.1", 9))
"""


def document() -> dict[str, Any]:
    messages = [
        {"from": "h2", "to": "h1", "bytes": "800B", "start": f"{300 + 50 * i}ms", "level": 1}
        for i in range(MESSAGES)
    ]
    floods = [{"from": host, "to": "h1", "until": "2s"} for host in ("h2", "h3")]
    return {
        "name": "levels",
        "seed": 1,
        "grace": "30s",
        "fabric": {"topology": "single", "hosts": 3, "host_rate": "20Mbit"},
        "scheme": {"name": "qjump", "throughput_factors": [1, 3]},
        "workload": {"flow": [*messages, *floods]},
    }


def classes(bed: Testbed, host: str) -> list[tuple[int, int]]:
    """Return limit in bits per second and packets sent of the classes of a host's levels, level 1 first."""
    shown = bed.exec(host, ["tc", "-s", "class", "show", "dev", f"{host}-eth0"])
    one = rf"class htb {HANDLE}(\d) .*? ceil (\d+)([KMT]?)bit .*?Sent \d+ bytes (\d+) pkt"
    found = sorted(re.findall(one, shown, re.DOTALL))
    return [(int(number) * UNITS[unit], int(packets)) for _, number, unit, packets in found]


def test_packets_of_a_level_pass_its_class_at_the_host_and_its_queue_at_the_port(tmp_path: Path) -> None:
    resolved = scenario_with(document())
    policy = resolved.scenario.policy
    seen: dict[str, Any] = {}

    @contextmanager
    def beside(stack: Stack) -> Iterator[None]:
        bed = stack.testbed
        before = bed.port_counters("s1:1")
        yield
        bed.exec("h2", [sys.executable, "-c", PROGRAM])
        wait_until(
            lambda: bed.port_counters("s1:1")[1].packets - before[1].packets == DATAGRAMS,
            "the datagrams passed",
        )
        seen["limits"], seen["host"] = zip(*classes(bed, "h2"), strict=True)
        after = bed.port_counters("s1:1")
        seen["port"] = [after[queue].packets - before[queue].packets for queue in range(8)]
        seen["sanctions"] = all_sanctions(stack.engine)

    summary = run_on_testbed(resolved, tmp_path, beside=beside)
    assert summary["unfinished"] == 0
    assert len(read_flows(tmp_path)) >= MESSAGES
    # The kernel keeps rates in whole bytes a second.
    rates_bps = level_rates_bps(policy.throughput_factors, known(policy.epoch))
    assert list(seen["limits"][:2]) == [rate // BITS_PER_BYTE * BITS_PER_BYTE for rate in rates_bps]
    # Each message has a SYN, an ACK, its data and an RST. ARP has the first queue, too.
    assert min(seen["port"][0], seen["host"][0]) >= 4 * MESSAGES
    assert max(seen["port"][0], seen["host"][0]) < 10 * MESSAGES, "the floods are not at level 1"
    assert seen["port"][1] == seen["host"][1] == DATAGRAMS
    assert [*seen["port"][2:7], *seen["host"][2:7]] == [0] * 10
    assert seen["port"][7] > 1000, "the floods have the last level"
    assert seen["sanctions"] == [], "nobody takes a level for a wrong tag"
