# SPDX-License-Identifier: Apache-2.0
"""Shares of the link among a port's queues, and flow queues in a queue. Both change on a busy Open vSwitch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from experiments.kit.live import sent_packets
from sluice.hostagent.port.queues import min_rates_bps
from sluice.policy.schema.desired import PortBehaviour
from sluice.runtime.wait import wait_until
from sluice.topologies import measure
from sluice.topologies.testbed import Testbed
from tests.net.conftest import RATE_BPS, install, listens

PORT = "s1-eth1"
FLOW_QUEUES = PortBehaviour(None, 2_000_000, sub_queues=8, release_ns=1_000_000)
SHARES = PortBehaviour(None, 2_000_000, shares=(0.6, 0.4))
MEASURED_S = 3.0
SETTLED_S = 1.0
"""A class that exceeded its old rate waits for the time of a packet at that rate."""


@pytest.fixture(scope="module")
def busy(start_testbed: Callable[..., Testbed]) -> Iterator[Testbed]:
    """Port s1:1 with a constant backlog. h2 and h4 send in queue 0, h3 in queue 1. The buffer holds their windows."""
    with (
        start_testbed("single", parameters={"hosts": 4, "host_rate_bps": RATE_BPS}) as bed,
        ExitStack() as traffic,
    ):
        install(bed, queue_of_tag=lambda tag: 1 if tag == 2 else 0)
        bed.set_behaviour(PortBehaviour(None, 2_000_000))
        for number, (host, tag) in enumerate((("h2", 1), ("h4", 1), ("h3", 2))):
            port = str(6001 + number)
            _spawn(bed, traffic, "h1", ["iperf", "-s", "-p", port, "-w", "128K"])
            wait_until(partial(listens, bed, "h1", port), "iperf listens")
            argv = ["iperf", "-c", "10.0.0.1", "-p", port, "-t", "600", "-w", "128K", "-S", hex(tag << 2)]
            _spawn(bed, traffic, host, argv)
        wait_until(lambda: backlog_bytes(bed) > 100_000, "the queues have a backlog")
        yield bed


def _spawn(bed: Testbed, traffic: ExitStack, host: str, argv: Sequence[str]) -> None:
    process = bed.spawn(host, argv)
    traffic.callback(process.wait)
    traffic.callback(process.kill)


def root_qdisc(bed: Testbed) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(bed.exec(None, ["tc", "-s", "-j", "qdisc", "show", "dev", PORT]))
    return next(q for q in found if q.get("handle") == "1:")


def backlog_bytes(bed: Testbed) -> int:
    return int(root_qdisc(bed)["backlog"])


def share_of_queue_1(bed: Testbed) -> float:
    """Return queue 1's share of the packets that queues 0 and 1 send in MEASURED_S."""
    before = measure.queue_packets(bed, "s1:1")
    time.sleep(MEASURED_S)
    after = measure.queue_packets(bed, "s1:1")
    sent = [after[q] - before[q] for q in (0, 1)]
    assert sum(sent) * 1500 * 8 > 0.9 * RATE_BPS * MEASURED_S, "the link is full"
    return sent[1] / sum(sent)


@pytest.mark.timing
def test_two_busy_queues_get_their_shares_and_strictness_comes_back(busy: Testbed) -> None:
    for shares, low, high in (
        ((0.7, 0.3), 0.28, 0.32),
        (None, 0.0, 0.01),
        ((0.2, 0.8), 0.78, 0.82),
        ((0.2, 0.1), 0.08, 0.12),  # the unassigned share goes to the first queue
        (None, 0.0, 0.01),
    ):
        busy.set_behaviour(PortBehaviour(None, 2_000_000, shares=shares))
        time.sleep(SETTLED_S)
        assert low <= share_of_queue_1(busy) <= high, shares


def test_changing_shares_interrupts_no_traffic(busy: Testbed) -> None:
    """Open vSwitch changes the classes in place. So the port keeps counting, and drops no packet. An upcall that a busy
    machine takes too late is lost elsewhere, and not by the change."""
    before = root_qdisc(busy)
    for share in (0.7, 0.4, 0.7, 0.4, 0.7):
        busy.set_behaviour(PortBehaviour(None, 2_000_000, shares=(1 - share, share)))
        sent = root_qdisc(busy)["bytes"]
        wait_until(lambda sent=sent: root_qdisc(busy)["bytes"] > sent, "the port sends on")  # type: ignore[misc]
    after = root_qdisc(busy)
    assert after["bytes"] > before["bytes"]
    assert after["drops"] == before["drops"]
    assert busy.losses().keys() <= {"upcalls of the switches"}


@pytest.fixture(scope="module")
def unequal(start_testbed: Callable[..., Testbed]) -> Iterator[Testbed]:
    """Two flows to h1 in one queue of the port. h2's window is eight times h3's."""
    with (
        start_testbed("single", parameters={"hosts": 3, "host_rate_bps": RATE_BPS}) as bed,
        ExitStack() as traffic,
    ):
        install(bed, queue_of_tag=lambda tag: 3)
        bed.set_behaviour(PortBehaviour(None, 2_000_000))
        for number, (host, window) in enumerate((("h2", "256K"), ("h3", "32K"))):
            port = str(6001 + number)
            _spawn(bed, traffic, "h1", ["iperf", "-s", "-p", port, "-w", "512K"])
            wait_until(partial(listens, bed, "h1", port), "iperf listens")
            _spawn(bed, traffic, host, ["iperf", "-c", "10.0.0.1", "-p", port, "-t", "600", "-w", window])
        wait_until(lambda: backlog_bytes(bed) > 100_000, "the queue has a backlog")
        yield bed


def sent_by(bed: Testbed, host: str) -> int:
    return sent_packets(bed.exec(host, ["cat", "/proc/net/dev"]), f"{host}-eth0")


def part_of_h3(bed: Testbed) -> float:
    """Return h3's share of the packets that h2 and h3 send in MEASURED_S."""
    before = [sent_by(bed, host) for host in ("h2", "h3")]
    time.sleep(MEASURED_S)
    sent = [sent_by(bed, host) - was for host, was in zip(("h2", "h3"), before, strict=True)]
    assert sum(sent) * 1500 * 8 > 0.9 * RATE_BPS * MEASURED_S, "the link is full"
    return sent[1] / sum(sent)


@pytest.mark.timing
def test_flow_queues__two_flows_share_equally_despite_their_windows(unequal: Testbed) -> None:
    assert part_of_h3(unequal) < 0.3, "first in, first out shares by the windows"
    unequal.set_behaviour(FLOW_QUEUES)
    time.sleep(SETTLED_S)
    assert 0.45 < part_of_h3(unequal) < 0.55
    unequal.set_behaviour(PortBehaviour(None, 2_000_000))
    time.sleep(SETTLED_S)
    assert part_of_h3(unequal) < 0.3


@pytest.mark.parametrize("behaviour", [FLOW_QUEUES, SHARES], ids=["flow queues", "shares"])
def test_classes_survive_a_new_port_agent_and_a_new_ovs_vswitchd(
    busy: Testbed, behaviour: PortBehaviour
) -> None:
    busy.set_behaviour(behaviour)
    for service in ("port-agent", "ovs-vswitchd"):
        before = classes(busy)
        restarts = busy.restarts[service]
        busy.crash(service)
        busy.wait_restarted(service, restarts + 1)
        assert classes(busy) == before
        assert busy.port_agent_state().behaviour == behaviour, "the new agent keeps the settings"
    if behaviour.shares:
        rate_bps = min_rates_bps(RATE_BPS, behaviour.shares)[1]
        assert any(" 1:2 " in line and f"rate {rate_bps // 10**6}Mbit" in line for line in before)


def classes(bed: Testbed) -> list[str]:
    return sorted(bed.exec(None, ["tc", "class", "show", "dev", PORT]).splitlines())
