# SPDX-License-Identifier: Apache-2.0
"""Measurements on a running testbed with `probe` traffic: what a receiver got and what each queue counted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from sluice.runtime.command import CommandFailed
from sluice.runtime.process import stop
from sluice.runtime.wait import patient, wait_until
from sluice.topologies.probe import Received
from sluice.topologies.testbed import Testbed

_QUEUE_LINE = re.compile(r"port \"?([\w-]+)\"? queue (\d+): bytes=(\d+), pkts=(\d+)")
_RULE_PACKETS = re.compile(r"\bn_packets=(\d+)")
_PROBE = [sys.executable, "-m", "sluice.topologies.probe"]

RESULT_S = 30.0


@dataclass(frozen=True)
class Sender:
    """`probe send` on a host."""

    host: str
    address: str
    tags: Sequence[int] = (0,)
    ecn: int = 0
    size_bytes: int = 1000
    count: int | None = None
    for_s: float = 30.0
    pause_s: float = 0.0

    def argv(self) -> list[str]:
        argv = [*_PROBE, "send", self.address, "--tags", *map(str, self.tags), "--ecn", str(self.ecn)]
        argv += ["--bytes", str(self.size_bytes), "--for-s", str(self.for_s), "--pause-s", str(self.pause_s)]
        return argv + (["--count", str(self.count)] if self.count is not None else [])


def transmit(bed: Testbed, to: str, senders: Sequence[Sender], *, idle_s: float = 0.5) -> Received:
    """Run the senders at the same time and return what arrived at a host."""
    with Receiver(bed, to, idle_s) as receiver:
        running = [
            bed.spawn(sender.host, sender.argv(), log_file=log_of(bed, sender.host)) for sender in senders
        ]
        for sender, process in zip(senders, running, strict=True):
            code = process.wait(sender.for_s + patient(RESULT_S))
            if code:
                raise CommandFailed(sender.argv(), code, log_of(bed, sender.host).read_text())
        return receiver.result()


@contextmanager
def sending(bed: Testbed, sender: Sender) -> Iterator[None]:
    """Run a sender during the block."""
    process = bed.spawn(sender.host, sender.argv(), log_file=log_of(bed, sender.host))
    try:
        yield
    finally:
        stop(process)


def log_of(bed: Testbed, host: str) -> Path:
    """Return the log file of the senders on a host."""
    return bed.settings.log_dir / f"probe-send-{host}.log"


class Receiver:
    """`probe receive` on a host. It is ready when the context is entered."""

    def __init__(self, bed: Testbed, host: str, idle_s: float = 0.5) -> None:
        self._log = bed.settings.log_dir / f"probe-receive-{host}.log"
        self._log.unlink(missing_ok=True)
        argv = [*_PROBE, "receive", "--idle-s", str(idle_s)]
        self._process: subprocess.Popen[bytes] = bed.spawn(host, argv, log_file=self._log)

    def _lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    def __enter__(self) -> Receiver:
        wait_until(lambda: "ready" in self._lines(), "the receiver is ready")
        return self

    def result(self) -> Received:
        """End the receiver when its packets end. Raises CommandFailed with its output if no packet came."""
        self._process.send_signal(signal.SIGUSR1)
        code = self._process.wait(patient(RESULT_S))
        if code:
            raise CommandFailed(_PROBE, code, self._log.read_text())
        return Received.from_json(self._lines()[-1])

    def __exit__(self, *_: object) -> None:
        stop(self._process)


def queue_packets(bed: Testbed, port_id: str) -> dict[int, int]:
    """Return the packets that each queue of a port has sent, by OpenFlow queue statistics."""
    port = bed.topology.port_by_id[port_id]
    text = bed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "queue-stats", port.switch, str(port.number)])
    return {int(queue): int(packets) for _, queue, _, packets in _QUEUE_LINE.findall(text)}


def rule_packets(bed: Testbed, switch: str, match: str) -> int:
    """Return the packets that the rules of a match have counted, by OpenFlow flow statistics."""
    text = bed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", switch, match])
    return sum(int(packets) for packets in _RULE_PACKETS.findall(text))


def counter_gaps_s(bed: Testbed, switch: str, match: str, *, changes: int) -> list[float]:
    """Return the times between changes of a rule's packet counter, while matching traffic flows."""
    moments: list[float] = []
    last = rule_packets(bed, switch, match)
    deadline = time.monotonic() + 2.0 * changes
    while len(moments) <= changes:
        now, packets = time.monotonic(), rule_packets(bed, switch, match)
        if packets != last:
            moments.append(now)
            last = packets
        if now > deadline:
            raise TimeoutError(f"the counter of {match} changed only {len(moments)} times in {2 * changes} s")
    return [b - a for a, b in pairwise(moments)]
