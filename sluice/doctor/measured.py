# SPDX-License-Identifier: Apache-2.0
"""Checks that measure a small testbed."""

import re
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sluice import topologies
from sluice.doctor import Check, tried
from sluice.hostagent.port.queues import QUEUES
from sluice.policy.errors import SluiceError
from sluice.policy.schema.desired import PortBehaviour
from sluice.policy.tags import TAG_COUNT
from sluice.policy.units import format_rate
from sluice.runtime.wait import wait_until
from sluice.topologies import commands, measure
from sluice.topologies.commands import MTU_BYTES
from sluice.topologies.measure import Sender
from sluice.topologies.testbed import Testbed

RATE_BPS = 20_000_000
"""Low enough that two senders in Python overload a port even on a busy machine."""
RATE_TOLERANCE = 0.03
PER_TAG = 5
SHARES = (0.7, 0.3)
SHARES_S = 1.0
SHARES_BUFFER_BYTES = 20_000_000
"""More than two hosts send in SHARES_S. A full buffer would decide the shares instead of the queues."""
STANDING_PACKETS = 30
MARK_BYTES = 10_000
COUNTER_CHANGES = 20
COUNTER_MEDIAN_S = 0.11
"""Open vSwitch's least interval of 0.1 s, and the time to read the counter."""


def measured_checks() -> Iterator[Check]:
    """Measure a switch with three hosts. If the testbed does not start, that is the finding."""
    graph = topologies.build("single", hosts=3, host_rate_bps=RATE_BPS)
    remedy = "see the checks above and the log that the message names"
    with tempfile.TemporaryDirectory(prefix="sluice-doctor-") as folder:
        try:
            bed = Testbed.start(graph, Path(folder), controller=None)
        except (SluiceError, TimeoutError) as error:
            log_file = Path(folder) / "log" / "testbed.log"
            log = log_file.read_text() if log_file.exists() else ""
            yield Check("testbed", False, f"{error}\n{log}".strip(), remedy)
            return
        with bed:
            yield Check("testbed", True, f"starts with the {bed.datapath_type} datapath", remedy)
            install_queue_per_tag(bed)
            for name, measured, what_to_do in MEASUREMENTS:
                yield tried(name, partial(measured, bed), what_to_do)
            yield measure_losses(bed)


def queue_of_tag(tag: int) -> int:
    return tag % QUEUES


def install_queue_per_tag(bed: Testbed) -> None:
    for command in commands.install(bed.topology, queue_of_tag):
        bed.ovs(command.argv, stdin=command.stdin)


def measure_queues(bed: Testbed) -> str:
    """Each queue counts exactly the packets of its tags, for IPv4 and for IPv6."""
    for host in (bed.topology.hosts[0].ipv4, bed.topology.hosts[0].ipv6):
        before = measure.queue_packets(bed, "s1:1")
        tags = range(TAG_COUNT)
        measure.transmit(
            bed, "h1", [Sender("h2", host, tags=tags, size_bytes=200, count=PER_TAG * len(tags))]
        )
        after = measure.queue_packets(bed, "s1:1")
        counted = {q: after[q] - before[q] for q in range(QUEUES)}
        expected = {q: PER_TAG * sum(queue_of_tag(t) == q for t in tags) for q in range(QUEUES)}
        if counted != expected:
            raise SluiceError(f"to {host}: sent {expected}, but the queues counted {counted}")
    return f"{QUEUES} queues count exactly the packets of {TAG_COUNT} tags, IPv4 and IPv6"


def measure_full_frames(bed: Testbed) -> str:
    """Full packets pass, although the priority tag makes their frames longer inside the switch."""
    payload = str(MTU_BYTES - 28)
    options = ["-M", "do", "-s", payload, "-c", "3", "-i", "0.05", "-W", "2"]
    bed.exec("h2", ["ping", *options, bed.topology.hosts[0].ipv4])
    return f"{MTU_BYTES}-byte packets pass unfragmented"


def measure_marking(bed: Testbed) -> str:
    """Two hosts overload a port: it marks only ECN-capable packets, and its counter agrees with the receiver."""
    bed.set_marking(MARK_BYTES)
    before = bed.port_counters("s1:1")
    to = bed.topology.hosts[0].ipv4
    sender = Sender("h2", to, tags=(1,), ecn=2, for_s=1.0)
    arrivals = measure.transmit(bed, "h1", [sender, Sender("h3", to, tags=(2,), ecn=0, for_s=1.0)])
    after = bed.port_counters("s1:1")
    marked = after[1].marked - before[1].marked
    ce = {tag: arrivals.tos.get(tag << 2 | 3, 0) for tag in (1, 2)}
    if not marked or ce != {1: marked, 2: 0}:
        raise SluiceError(
            f"the port marked {marked} packets, but {ce[1]} ECN-capable and {ce[2]} other packets arrived with CE"
        )
    capable = arrivals.tos.get(1 << 2 | 2, 0) + ce[1]
    return f"{marked} of {capable} packets marked, and each arrived with its mark"


def measure_shaping(bed: Testbed) -> str:
    """Two hosts overload a port: it sends at its rate."""
    to = bed.topology.hosts[0].ipv4
    senders = [Sender(host, to, size_bytes=1400, for_s=3.0) for host in ("h2", "h3")]
    rate_bps = measure.transmit(bed, "h1", senders).rate_bps
    text = f"{format_rate(rate_bps)} of {format_rate(RATE_BPS)}"
    if abs(rate_bps / RATE_BPS - 1) > RATE_TOLERANCE:
        raise SluiceError(f"{text}: differs by more than {RATE_TOLERANCE:.0%}")
    return text


def measure_shares(bed: Testbed) -> str:
    """Two hosts overload two queues of a port: each queue gets its share of the link."""
    bed.set_behaviour(PortBehaviour(None, SHARES_BUFFER_BYTES, shares=(0.0, *SHARES)))
    to = bed.topology.hosts[0].ipv4
    overload = [Sender(f"h{2 + i}", to, tags=(1 + i,), size_bytes=1400, for_s=4.0) for i in range(2)]
    with (
        measure.Receiver(bed, "h1"),
        measure.sending(bed, overload[0]),
        measure.sending(bed, overload[1]),
    ):
        wait_until(
            lambda: min(_waiting_packets(bed, q) for q in (1, 2)) > STANDING_PACKETS,
            "both queues have a backlog",
        )
        before = measure.queue_packets(bed, "s1:1")
        time.sleep(SHARES_S)
        after = measure.queue_packets(bed, "s1:1")
    bed.set_marking(None)
    sent = [after[q] - before[q] for q in (1, 2)]
    text = f"{sent[0] / sum(sent):.0%} and {sent[1] / sum(sent):.0%} of the link"
    if abs(sent[0] / sum(sent) - SHARES[0]) > RATE_TOLERANCE:
        raise SluiceError(f"{text}, not {SHARES[0]:.0%} and {SHARES[1]:.0%}")
    return text


def _waiting_packets(bed: Testbed, queue: int) -> int:
    output = bed.exec(None, ["tc", "-s", "class", "show", "dev", "s1-eth1", "classid", f"1:{queue + 1}"])
    waiting = re.search(r"backlog \S+ (\d+)p", output)
    return int(waiting[1]) if waiting else 0


def measure_counters(bed: Testbed) -> str:
    """OpenFlow counters advance at short intervals. The controller sees traffic only through them."""
    to = bed.topology.hosts[0].ipv4
    with (
        measure.Receiver(bed, "h1", idle_s=2.0),
        measure.sending(bed, Sender("h2", to, tags=(3,), pause_s=0.002)),
    ):
        match = "table=1,metadata=1,ip,ip_dscp=3"
        gaps_s = sorted(measure.counter_gaps_s(bed, "s1", match, changes=COUNTER_CHANGES))
    median_s = gaps_s[len(gaps_s) // 2]
    text = f"every {median_s * 1000:.0f} ms (longest {gaps_s[-1] * 1000:.0f} ms)"
    if median_s > COUNTER_MEDIAN_S:
        raise SluiceError(text)
    return text


_SEE_PORT = "the port program must be on the port: see port-agent.log"
_FREE_CPU = "free the CPU of other work, and try again"
MEASUREMENTS = (
    ("each queue counts", measure_queues, _SEE_PORT),
    ("full packets", measure_full_frames, "the switch side of a link needs a larger MTU"),
    ("ECN marks", measure_marking, _SEE_PORT),
    ("shaping equals the rate", measure_shaping, _FREE_CPU),
    ("queues get their shares", measure_shares, _FREE_CPU),
    ("OpenFlow counters move", measure_counters, _FREE_CPU),
)
"""Name of the check, its function, and what to do if it fails."""


def measure_losses(bed: Testbed) -> Check:
    """In these measurements, only the buffer limits of ports have dropped packets."""
    losses = bed.losses()
    detail = "; ".join(f"{place}: {packets}" for place, packets in losses.items()) or "none"
    return Check("losses outside the queues", not losses, detail, _FREE_CPU)
