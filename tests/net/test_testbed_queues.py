# SPDX-License-Identifier: Apache-2.0
"""The queues: each counts its tags, priority is strict, marking and buffer follow their settings."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from sluice.dataplane.link_queues import HANDLE
from sluice.hostagent.port.settings import write_json
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.entries import write
from sluice.policy.tags import TAG_COUNT, attained_tag
from sluice.policy.wire.agents import AgentSettings
from sluice.policy.wire.records import FINISHED, FlowRecord, ScheduledFlow
from sluice.runs.validity import lateness
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from sluice.topologies import measure
from sluice.topologies.commands import LINK_CLASS
from sluice.topologies.measure import Sender
from sluice.topologies.testbed import Testbed
from tests.kit.networks import ideal_fct_us
from tests.net.conftest import RATE_BPS, install, iperf_server, queue_of_tag
from tests.unit.hostagent.fake_web import FakeWeb

FRAME_BYTES = 1442
"""1400 bytes of payload."""


@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1"])
def test_each_queue_counts_its_tags(testbed: Testbed, address: str) -> None:
    """Open vSwitch and the port program count the same."""
    before, counted = measure.queue_packets(testbed, "s1:1"), testbed.port_counters("s1:1")
    tags, data_bytes = range(TAG_COUNT), 100
    got = measure.transmit(
        testbed, "h1", [Sender("h2", address, tags=tags, size_bytes=data_bytes, count=4 * TAG_COUNT)]
    )
    after, then = measure.queue_packets(testbed, "s1:1"), testbed.port_counters("s1:1")
    assert got.tos == {tag << 2: 4 for tag in tags}, "the tag arrives as it was sent"
    frame_bytes = data_bytes + (62 if ":" in address else 42)
    for queue in range(8):
        packets = 4 * sum(queue_of_tag(tag) == queue for tag in tags)
        assert after[queue] - before[queue] == then[queue].packets - counted[queue].packets == packets
        assert then[queue].bytes - counted[queue].bytes == packets * frame_bytes
        assert then[queue].dropped == counted[queue].dropped


def round_trips_ms(bed: Testbed, tag: int, count: int = 60) -> list[float]:
    text = bed.exec(
        "h3", ["ping", "-c", str(count), "-i", "0.02", "-Q", str(tag << 2), "-W", "2", "10.0.0.1"]
    )
    found = sorted(float(ms) for ms in re.findall(r"time=([\d.]+) ms", text))
    assert len(found) == count, "no ping is lost"
    return found


@pytest.mark.timing
def test_strict_priority_protects(testbed: Testbed) -> None:
    """Two lowest-priority senders keep a constant backlog, and packets of the first queue overtake it."""
    install(testbed, queue_of_tag=lambda tag: 0 if tag == 1 else 7)
    idle = round_trips_ms(testbed, tag=1)
    with ConstantBacklog(testbed):
        first = round_trips_ms(testbed, tag=1)
        last = round_trips_ms(testbed, tag=2)
    install(testbed)
    frame_ms = FRAME_BYTES * 8e3 / RATE_BPS
    assert last[len(last) // 2] > 10, "there is a backlog to overtake"
    # HTB cannot interrupt the frame in transmission, and it sends bursts of two frames.
    assert first[len(first) // 2] < idle[len(idle) // 2] + 3 * frame_ms + 1
    assert first[-3] < last[len(last) // 2], (
        "95 of 100 of the first queue are faster than the median of the last"
    )


class ConstantBacklog:
    """iperf from h2 and h3 to h1 with tag 2. Windows of 128 KB keep a constant backlog without overflow."""

    def __init__(self, bed: Testbed) -> None:
        self._bed = bed
        server = iperf_server(bed, "h1", "5001", "-w", "64K")
        argv = ["iperf", "-c", "10.0.0.1", "-t", "60", "-S", "0x08"]
        self._processes = [server, *(bed.spawn(host, argv) for host in ("h2", "h3"))]

    def __enter__(self) -> None:
        wait_until(lambda: backlog_bytes(self._bed, 7) > 50_000, "the queue has a backlog")

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.mark.timing
def test_lateness__a_port_that_is_served_too_slowly_is_late(start_testbed: Callable[..., Testbed]) -> None:
    """HTB sends at half the port's rate, as it does with late timers."""
    with start_testbed("single", parameters={"hosts": 3, "host_rate_bps": RATE_BPS}) as bed:
        install(bed, queue_of_tag=lambda tag: 7)
        reports = [bed.port_service(bed.port_report())]
        for half in (False, True):
            if half:
                argv = ["tc", "class", "change", "dev", "s1-eth1", "parent", "1:", "classid", "1:fffe", "htb"]
                bed.exec(None, [*argv, "rate", f"{RATE_BPS // 2}bit", "burst", "5000", "cburst", "5000"])
            with ConstantBacklog(bed):
                time.sleep(2)
            reports.append(bed.port_service(bed.port_report()))
    first, then = (lateness([pair])["s1:1"] for pair in pairwise(reports))
    assert first < 0.1
    assert 0.5 < then < 1.1, "twice the time that it should take"


def test_buffer__bounds_the_queue(testbed: Testbed) -> None:
    testbed.set_marking(None, 5_000)
    before = testbed.port_counters("s1:1")
    senders = [Sender(host, "10.0.0.1", tags=(1,), size_bytes=1400, for_s=0.7) for host in ("h2", "h3")]
    got = measure.transmit(testbed, "h1", senders)
    after = testbed.port_counters("s1:1")
    testbed.set_marking(None)
    dropped = after[1].dropped - before[1].dropped
    assert after[1].packets - before[1].packets == got.packets
    sent = sum(int(measure.log_of(testbed, host).read_text().split()[-1]) for host in ("h2", "h3"))
    assert sent == got.packets + dropped, "every packet is either delivered or counted as dropped"
    assert dropped > 0


@pytest.mark.timing
def test_the_real_queue_is_the_virtual_one(testbed: Testbed) -> None:
    """Marking and buffer follow a virtual queue.

    If the port's real rate were below its nominal rate, a real queue without marks and limit would grow under load.
    """
    buffer_bytes = 100_000
    testbed.set_marking(None, buffer_bytes)
    with measure.Receiver(testbed, "h1"), ExitStack() as senders:
        for host in ("h2", "h3"):
            sender = Sender(host, "10.0.0.1", tags=(1,), size_bytes=1400, for_s=12.0)
            senders.enter_context(measure.sending(testbed, sender))
        wait_until(lambda: backlog_bytes(testbed, 1) > buffer_bytes / 2, "the queue fills")
        samples = []
        end = time.monotonic() + 6
        while time.monotonic() < end:
            samples.append(backlog_bytes(testbed, 1))
    testbed.set_marking(None)
    frames_in_transit = 4 * FRAME_BYTES
    assert sorted(samples)[len(samples) // 2] < buffer_bytes + frames_in_transit
    assert sorted(samples)[len(samples) // 2] > buffer_bytes / 2


def backlog_bytes(bed: Testbed, queue: int) -> int:
    """Return the backlog of a queue of s1:1."""
    text = bed.exec(None, ["tc", "-s", "class", "show", "dev", "s1-eth1", "classid", f"1:{queue + 1}"])
    found = re.search(r"backlog (\d+)(K?)b", text)
    assert found, text
    amount, kilo = found.groups()
    return int(amount) * (1024 if kilo else 1)


def shifted(shift: int, tag: int) -> int:
    return (tag + shift) % 8


def test_rules_replaced_under_traffic_lose_nothing(testbed: Testbed) -> None:
    """Each change of the whole map is one bundle, so that there is no moment without rules."""
    sender = Sender("h2", "10.0.0.1", tags=(1, 9, 20), size_bytes=200, pause_s=0.001, for_s=2.0)
    with measure.Receiver(testbed, "h1", idle_s=1.0) as receiver:
        process = testbed.spawn("h2", sender.argv(), log_file=measure.log_of(testbed, "h2"))
        changes = 0
        while process.poll() is None:
            install(testbed, queue_of_tag=partial(shifted, changes))
            changes += 1
        received = receiver.result().packets
    install(testbed)
    assert changes > 1
    assert received == int(measure.log_of(testbed, "h2").read_text().split()[-1])


# -- agents on the hosts, whose tags choose the queues


SPLIT_BYTES = 10_000


@contextmanager
def run_by_agents(bed: Testbed, folder: Path, flows: Sequence[ScheduledFlow]) -> Iterator[list[FlowRecord]]:
    """Run flows of h2 to h1, each with an agent, under PIAS. Yields their records while the agents still run."""
    schedule, start_file = folder / "schedule.json", folder / "start"
    addresses = {host.name: host.ipv4 for host in bed.topology.hosts}
    document = {"scheme": "pias", "addresses": addresses, "flows": [asdict(f) for f in flows]}
    schedule.write_text(json.dumps(document))
    policy = Policy.from_document({"scheme": "pias", "queues": 2, "thresholds": [SPLIT_BYTES]})
    with FakeWeb(bed.settings.run_dir / "fake.sock") as web, ExitStack() as agents:
        web.settings = write(AgentSettings.of(1, policy))
        for host in ("h1", "h2"):
            argv = [sys.executable, "-m", "sluice", "agent", "--name", host, "--interface", f"{host}-eth0"]
            argv += ["--run-dir", str(folder / host), "--web", web.target, "--queues-at", LINK_CLASS]
            argv += ["--schedule", str(schedule), "--start-file", str(start_file)]
            agents.callback(stop, bed.spawn(host, argv, log_file=folder / f"{host}.log"))
        wait_until(lambda: len({beat["pid"] for beat in web.heartbeats}) == 2, "the agents report")
        write_json(start_file, time.time() + 0.5)
        wait_until(lambda: len(web.records) >= len(flows), "all records")
        yield list(web.records.values())


def test_the_tag_of_each_packet_chooses_its_queue_and_no_flow_is_too_fast(
    testbed: Testbed, tmp_path: Path
) -> None:
    """100 KB are 70 segments: 7 begin within the first 10 KB, 63 beyond. The closing RST comes after them."""
    size_bytes = 100_000
    ideal_us = ideal_fct_us(testbed.topology, "h2", "h1", size_bytes)
    flows = [
        ScheduledFlow(f"run/{number}", 0.1 * number, "h2", "h1", size_bytes, "small", ideal_us, None)
        for number in range(20)
    ]
    install(testbed, lambda tag: 0 if tag <= attained_tag(SPLIT_BYTES) else 1)
    before = testbed.port_counters("s1:1")
    with run_by_agents(testbed, tmp_path, flows) as records:
        at_host = [sent_on_link(testbed, "h2", queue) for queue in (0, 1)]
    after = testbed.port_counters("s1:1")
    install(testbed)
    assert {record.status for record in records} == {FINISHED}
    first, second = (after[q].packets - before[q].packets for q in (0, 1))
    retransmissions = sum(record.retransmissions or 0 for record in records)
    assert 20 * 63 <= second <= 20 * 66 + retransmissions  # each flow has up to three packets without data
    assert first >= 20 * 9  # with the SYN and the handshake's ACK
    assert all(after[q].packets == before[q].packets for q in range(2, 8))
    assert at_host[0] >= 20 * 9
    assert 20 * 63 <= at_host[1] <= 20 * 66 + retransmissions
    # After a pause, the shapers of host and port send a few frames at once, so a flow may gain that time.
    assert all((record.fct_us or 0.0) > ideal_us / 2 for record in records)


def sent_on_link(bed: Testbed, host: str, queue: int) -> int:
    """Return the packets that a queue of a host's own link has sent."""
    text = bed.exec(host, ["tc", "-s", "class", "show", "dev", f"{host}-eth0"])
    found = re.search(rf"class \w+ {HANDLE}{queue + 1} .*?Sent \d+ bytes (\d+) pkt", text, re.DOTALL)
    return int(found[1]) if found else 0
