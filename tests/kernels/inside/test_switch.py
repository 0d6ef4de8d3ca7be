# SPDX-License-Identifier: Apache-2.0
"""One scenario on each datapath: a controller, a switch and three hosts. Tags, marks, shares, changed thresholds."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sluice import topologies
from sluice.policy import tags
from sluice.policy.schema.desired import Policy, PortBehaviour, queue_map
from sluice.runtime.wait import patient, wait_until
from sluice.topologies import measure
from sluice.topologies.measure import Sender
from sluice.topologies.testbed import Testbed
from tests.net.controlled import Controlled

RATE_BPS = 1_000_000
FRAME_BYTES = 1442
PER_TAG = 3
DISCOVERIES = 5
"""The most packets of neighbour discovery, which also use queue 0."""
MARK_BYTES = 10_000
BUFFER_BYTES = 20_000_000
SHARES = (0.7, 0.3)
MEASURED_S = 20
LIMIT = 0.05
"""Of the link, for a demoted host."""
PAUSE_S = 0.01
"""Between packets. Two hosts then send twice the link's rate, and the switch has processor time left."""
PIAS = {"scheme": "pias"}
AT_10KB = {"scheme": "pias", "queues": 2, "thresholds": ["10KB"]}
AT_1MB = {"scheme": "pias", "queues": 2, "thresholds": ["1000KB"]}
CHANGING_TAG = 12
"""Attained service between both thresholds."""


@pytest.fixture(scope="module")
def network(datapath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controlled]:
    graph = topologies.build("single", hosts=3, host_rate_bps=RATE_BPS)
    controlled = Controlled(graph, tmp_path_factory.mktemp("single"), PIAS, datapath)
    try:
        controlled.start_controller()
        controlled.wait_applied()
        yield controlled
    finally:
        controlled.close()


def require_full_link(sent_bytes: int) -> None:
    """Skip a test that judges an overloaded port if the machine was too slow to overload it."""
    if sent_bytes * 8 < 0.8 * RATE_BPS * MEASURED_S:
        pytest.skip("the machine was too slow to fill the link")


def test_the_testbed_has_the_datapath(network: Controlled, datapath: str) -> None:
    assert network.bed.datapath_type == datapath


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_each_queue_counts_exactly_the_packets_of_its_tags(network: Controlled, family: str) -> None:
    bed, receiver = network.bed, network.topology.hosts[0]
    policy = Policy.from_document(PIAS)
    queue_of, every = queue_map(policy, policy.thresholds), range(tags.TAG_COUNT)
    before = measure.queue_packets(bed, "s1:1")
    address = getattr(receiver, family)
    sender = Sender("h2", address, tags=every, size_bytes=200, count=PER_TAG * len(every), for_s=60)
    measure.transmit(bed, "h1", [sender], idle_s=3)
    after = measure.queue_packets(bed, "s1:1")
    expected = [PER_TAG * sum(queue_of[tag] == queue for tag in every) for queue in range(8)]
    counted = [after[queue] - before[queue] for queue in range(8)]
    assert counted[1:] == expected[1:]
    assert expected[0] <= counted[0] <= expected[0] + DISCOVERIES


def test_a_port_marks_only_ecn_capable_packets_and_each_arrives_with_its_mark(network: Controlled) -> None:
    bed, to = network.bed, network.topology.hosts[0].ipv4
    bed.set_marking(MARK_BYTES)
    before = bed.port_counters("s1:1")
    capable = Sender("h2", to, (1,), 2, FRAME_BYTES - 42, for_s=MEASURED_S, pause_s=PAUSE_S)
    other = replace(capable, host="h3", tags=(40,), ecn=0)
    got = measure.transmit(bed, "h1", [capable, other], idle_s=3)
    after = bed.port_counters("s1:1")
    bed.set_marking(None)
    marked = sum(now.marked - then.marked for now, then in zip(after, before, strict=True))
    assert got.tos.get(1 << 2 | 3, 0) == marked
    assert 40 << 2 | 3 not in got.tos
    require_full_link(sum(now.bytes - then.bytes for now, then in zip(after, before, strict=True)))
    assert marked > 100


def test_two_busy_queues_get_their_shares(network: Controlled) -> None:
    network.apply(AT_10KB)
    bed, to = network.bed, network.topology.hosts[0].ipv4
    bed.set_behaviour(PortBehaviour(None, BUFFER_BYTES, shares=SHARES))
    fast_s = PAUSE_S / 3  # each host alone fills the link, so that the queue with the larger share waits, too
    first = Sender("h2", to, tags=(1,), size_bytes=FRAME_BYTES - 42, for_s=patient(20), pause_s=fast_s)
    second = replace(first, host="h3", tags=(CHANGING_TAG,))
    with measure.Receiver(bed, "h1"), measure.sending(bed, first), measure.sending(bed, second):
        try:
            wait_until(lambda: min(_backlog_packets(bed, queue) for queue in (0, 1)) > 50, "both queues wait")
        except TimeoutError:
            pytest.skip("the machine was too slow to fill both queues")
        sent, waited_s = _sent_while_both_wait(bed)
    wait_until(
        lambda: not any(_backlog_packets(bed, queue) for queue in (0, 1)),
        "the queues are empty",
        timeout_s=60,
    )
    bed.set_marking(None)
    if waited_s < MEASURED_S / 4:
        pytest.skip(f"the machine was too slow: both queues waited for {waited_s:.0f} of {MEASURED_S} s")
    assert sent[0] / sum(sent) == pytest.approx(SHARES[0], abs=0.05)


def _both_wait(bed: Testbed) -> bool:
    return min(_backlog_packets(bed, queue) for queue in (0, 1)) > 0


def _sent_while_both_wait(bed: Testbed) -> tuple[list[int], float]:
    """Return the packets of queues 0 and 1, and the length, of the seconds at whose ends both queues have packets.

    A slow guest's senders pause for longer than a backlog lasts. An idle queue has no use for its share.
    """
    sent, waited_s, end = [0, 0], 0.0, time.monotonic() + MEASURED_S
    while time.monotonic() < end:
        began, waits, before = time.monotonic(), _both_wait(bed), measure.queue_packets(bed, "s1:1")
        time.sleep(1)
        after = measure.queue_packets(bed, "s1:1")
        if waits and _both_wait(bed):
            sent = [sent[queue] + after[queue] - before[queue] for queue in (0, 1)]
            waited_s += time.monotonic() - began
    return sent, waited_s


def test_a_change_of_thresholds_under_traffic_loses_no_packet(network: Controlled) -> None:
    bed, to = network.bed, network.topology.hosts[0].ipv4
    network.apply(AT_10KB)
    before = measure.queue_packets(bed, "s1:1")
    sender = Sender("h2", to, tags=(CHANGING_TAG,), size_bytes=200, pause_s=0.005, for_s=patient(3))
    with measure.Receiver(bed, "h1", idle_s=3) as receiver:
        process = bed.spawn("h2", sender.argv(), log_file=measure.log_of(bed, "h2"))
        changes = 0
        while process.poll() is None:
            network.apply((AT_1MB, AT_10KB)[changes % 2])
            changes += 1
        received = receiver.result().packets
    after = measure.queue_packets(bed, "s1:1")
    assert process.returncode == 0
    assert changes >= 2
    assert received == int(measure.log_of(bed, "h2").read_text().split()[-1])
    assert all(after[queue] > before[queue] for queue in (0, 1)), "both queues have carried the tag"


def test_a_demoted_host_is_limited_by_a_meter(network: Controlled) -> None:
    """No host here has an agent, so nothing explains its urgency."""
    bed, to = network.bed, network.topology.hosts[0].ipv4
    network.apply({"scheme": "aemon", "demoted_share": LIMIT})
    urgent = Sender("h2", to, (tags.URGENCY_LAST,), size_bytes=FRAME_BYTES - 42, for_s=600, pause_s=PAUSE_S)
    with measure.Receiver(bed, "h1"), measure.sending(bed, urgent):
        wait_until(lambda: "meter=" in network.ofctl("dump-meters", "s1"), "a meter limits h2", timeout_s=120)
        wait_until(lambda: "meter:" in network.ofctl("dump-flows", "s1"), "rules name it", timeout_s=60)
        offered, passed, began = _sent_by(bed, "h2"), _sent_to_h1(bed), time.monotonic()
        time.sleep(MEASURED_S)
        for_s = time.monotonic() - began
        passed = _sent_to_h1(bed) - passed
        offered = _sent_by(bed, "h2") - offered
    limit = LIMIT * RATE_BPS / 8 / FRAME_BYTES * for_s
    assert offered > 3 * limit, "the host sends more than its limit"
    assert 0.5 * limit < passed < 1.5 * limit + DISCOVERIES


def _sent_to_h1(bed: Testbed) -> int:
    return sum(measure.queue_packets(bed, "s1:1").values())


def _sent_by(bed: Testbed, host: str) -> int:
    """Return the packets that a host has sent on its link."""
    shown = json.loads(bed.exec(host, ["ip", "-json", "-statistics", "link", "show", "dev", f"{host}-eth0"]))
    return int(shown[0]["stats64"]["tx"]["packets"])


def _backlog_packets(bed: Testbed, queue: int) -> int:
    output = bed.exec(None, ["tc", "-s", "class", "show", "dev", "s1-eth1", "classid", f"1:{queue + 1}"])
    return int(output.partition("backlog ")[2].split()[1].rstrip("p"))
