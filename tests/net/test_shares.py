# SPDX-License-Identifier: Apache-2.0
"""Shares of the link among a port's queues, and flow queues in a queue. Both change on a busy Open vSwitch."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

from experiments.kit.live import sent_packets
from sluice.policy.schema.desired import PortBehaviour
from sluice.runtime.wait import wait_until
from sluice.topologies import measure
from sluice.topologies.testbed import Testbed
from tests.net.conftest import RATE_BPS, install, iperf_server

PORT = "s1-eth1"
FLOW_QUEUES = PortBehaviour(None, 2_000_000, sub_queues=8, release_ns=1_000_000)
SHARES = PortBehaviour(None, 2_000_000, shares=(0.6, 0.4))
ONE_QUEUE = PortBehaviour(None, 2_000_000, last_queue=0)
MEASURED_S = 3.0
SETTLED_S = 1.0
"""A class that exceeded its old rate waits for the time of a packet at that rate."""


@contextmanager
def loaded(
    start_testbed: Callable[..., Testbed],
    queue_of_tag: Callable[[int], int],
    senders: Mapping[str, str],
    window: str,
) -> Iterator[Testbed]:
    """Port s1:1 with a constant backlog. iperf sends to h1 with these options; the buffer holds the windows."""
    parameters = {"hosts": len(senders) + 1, "host_rate_bps": RATE_BPS}
    with start_testbed("single", parameters=parameters) as bed, ExitStack() as traffic:
        install(bed, queue_of_tag=queue_of_tag)
        bed.set_behaviour(PortBehaviour(None, 2_000_000))
        for number, (host, options) in enumerate(senders.items()):
            port = str(6001 + number)
            argv = ["iperf", "-c", "10.0.0.1", "-p", port, "-t", "600", *options.split()]
            for process in (iperf_server(bed, "h1", port, "-w", window), bed.spawn(host, argv)):
                traffic.callback(process.wait)
                traffic.callback(process.kill)
        wait_until(lambda: backlog_bytes(bed) > 100_000, "the queues have a backlog")
        yield bed


@pytest.fixture(scope="module")
def busy(start_testbed: Callable[..., Testbed]) -> Iterator[Testbed]:
    """h2 and h4 send in queue 0, h3 in queue 1."""
    first, second = (f"-w 128K -S {hex(tag << 2)}" for tag in (1, 2))
    senders = {"h2": first, "h4": first, "h3": second}
    with loaded(start_testbed, lambda tag: 1 if tag == 2 else 0, senders, "128K") as bed:
        yield bed


def root_qdisc(bed: Testbed) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(bed.exec(None, ["tc", "-s", "-j", "qdisc", "show", "dev", PORT]))
    return next(q for q in found if q.get("handle") == "1:")


def backlog_bytes(bed: Testbed) -> int:
    return int(root_qdisc(bed)["backlog"])


def share_of_second(count: Callable[[], Sequence[int]]) -> float:
    """Return the second part's share of the packets that both send in MEASURED_S."""
    before = count()
    time.sleep(MEASURED_S)
    sent = [now - was for now, was in zip(count(), before, strict=True)]
    assert sum(sent) * 1500 * 8 > 0.9 * RATE_BPS * MEASURED_S, "the link is full"
    return sent[1] / sum(sent)


def first_queues(bed: Testbed) -> list[int]:
    """Return the packets that queues 0 and 1 have sent."""
    sent = measure.queue_packets(bed, "s1:1")
    return [sent[0], sent[1]]


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
        assert low <= share_of_second(partial(first_queues, busy)) <= high, shares


def test_changing_shares_interrupts_no_traffic(busy: Testbed) -> None:
    """Open vSwitch changes the classes in place. So the port keeps counting, and drops no packet. What a busy machine
    loses at other places does not count."""
    before = root_qdisc(busy)
    for share in (0.7, 0.4, 0.7, 0.4, 0.7):
        busy.set_behaviour(PortBehaviour(None, 2_000_000, shares=(1 - share, share)))
        sent = root_qdisc(busy)["bytes"]
        wait_until(lambda sent=sent: root_qdisc(busy)["bytes"] > sent, "the port sends on")  # type: ignore[misc]
    after = root_qdisc(busy)
    assert after["bytes"] > before["bytes"]
    assert after["drops"] == before["drops"]


@pytest.fixture(scope="module")
def unequal(start_testbed: Callable[..., Testbed]) -> Iterator[Testbed]:
    """Two flows to h1 in one queue of the port. h2's window is eight times h3's."""
    with loaded(start_testbed, lambda tag: 3, {"h2": "-w 256K", "h3": "-w 32K"}, "512K") as bed:
        yield bed


def part_of_h3(bed: Testbed) -> float:
    """Return h3's share of the packets that h2 and h3 send."""
    devices = ["cat", "/proc/net/dev"]
    return share_of_second(
        lambda: [sent_packets(bed.exec(host, devices), f"{host}-eth0") for host in ("h2", "h3")]
    )


@pytest.mark.timing
def test_flow_queues__two_flows_share_equally_despite_their_windows(unequal: Testbed) -> None:
    assert part_of_h3(unequal) < 0.3, "first in, first out shares by the windows"
    unequal.set_behaviour(FLOW_QUEUES)
    time.sleep(SETTLED_S)
    assert 0.45 < part_of_h3(unequal) < 0.55
    unequal.set_behaviour(PortBehaviour(None, 2_000_000))
    time.sleep(SETTLED_S)
    assert part_of_h3(unequal) < 0.3


@pytest.mark.parametrize(
    ("behaviour", "rate"),
    [
        pytest.param(FLOW_QUEUES, "40Kbit", id="flow queues"),
        pytest.param(SHARES, "8Mbit", id="shares"),
        pytest.param(ONE_QUEUE, "1250Kbit", id="one queue"),
    ],
)
def test_classes_survive_a_new_port_agent_and_a_new_ovs_vswitchd(
    busy: Testbed, behaviour: PortBehaviour, rate: str
) -> None:
    """`rate`: of queue 1."""
    busy.set_behaviour(behaviour)
    for service in ("port-agent", "ovs-vswitchd"):
        before = classes(busy)
        restarts = busy.restarts[service]
        busy.crash(service)
        busy.wait_restarted(service, restarts + 1)
        assert classes(busy) == before
        assert busy.port_agent_state().behaviour == behaviour, "the new agent keeps the settings"
    assert any(" 1:2 " in line and f"rate {rate}" in line for line in before)


def classes(bed: Testbed) -> list[str]:
    return sorted(bed.exec(None, ["tc", "class", "show", "dev", PORT]).splitlines())
