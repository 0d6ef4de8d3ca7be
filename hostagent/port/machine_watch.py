# SPDX-License-Identifier: Apache-2.0
"""How well this machine served its ports in the last seconds: late packets, late ports, losses outside the queues.

The port agent reports it, so that the live page can say when its figures show the machine and not the network.
"""

import json
import logging
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sluice.policy.figures import validity
from sluice.policy.figures.validity import MachineStatus
from sluice.policy.network.graph import Port
from sluice.policy.units import BITS_PER_BYTE, NS_PER_S
from sluice.policy.wire.agents import QueueCounters
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.identity import Ticks, machine_ticks

log = logging.getLogger(__name__)

WINDOW_S = 10.0
LEAST_WINDOW_S = 4.0
"""Figures of a shorter time say little."""
LOSSES_EVERY_S = 5.0
"""Reading them runs three commands."""

_SOCKET_DROPS = re.compile(r"^\S+\s+\S+\s+\S+\s+\S+?:(\S+).*\bd(\d+)\)", re.MULTILINE)
Counters = Mapping[str, Sequence[QueueCounters]]


@dataclass(frozen=True)
class _Reading:
    at_s: float
    ticks: Ticks
    busy_s: Mapping[str, float]
    """Port → transmission time at its rate of all that it sent."""
    late_s: Mapping[str, float]
    forwarding: Sequence[int]
    lost: Mapping[str, int]


class MachineWatch:
    """Keeps the readings of the last WINDOW_S. Without `start`, it counts no losses."""

    def __init__(
        self,
        losses_now: Callable[[], Mapping[str, int]],
        ticks: Callable[[], Ticks] = machine_ticks,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`losses_now` returns lost packets by place. It may take its time: a thread calls it."""
        self._losses_now, self._ticks, self._clock = losses_now, ticks, clock
        self._lost: Mapping[str, int] | None = None
        self._readings: deque[_Reading] = deque()

    def start(self) -> None:
        """Count losses from now on, in a thread that ends with the process."""
        threading.Thread(target=self._count, name="losses", daemon=True).start()

    def _count(self) -> None:
        while True:
            self.count_losses()
            time.sleep(LOSSES_EVERY_S)

    def count_losses(self) -> None:
        """Read the losses once. What cannot be read now counts as no loss."""
        try:
            self._lost = self._losses_now()
        except (CommandFailed, OSError, ValueError, subprocess.TimeoutExpired) as error:
            log.debug("losses cannot be read: %s", error)

    def look(
        self,
        ports: Collection[Port],
        counters: Counters,
        late_ns: Mapping[str, int],
        forwarding: Sequence[int],
    ) -> MachineStatus | None:
        """Take a reading, and return the figures of the last seconds; None while the time is too short."""
        rates_bps = {port.id: port.rate_bps for port in ports}
        busy_s = {
            port: BITS_PER_BYTE * sum(queue.bytes for queue in queues) / rates_bps[port]
            for port, queues in counters.items()
            if rates_bps.get(port)
        }
        late_s = {port: late / NS_PER_S for port, late in late_ns.items()}
        now = _Reading(self._clock(), self._ticks(), busy_s, late_s, forwarding, self._lost or {})
        self._readings.append(now)
        while len(self._readings) > 2 and self._readings[1].at_s <= now.at_s - WINDOW_S:
            self._readings.popleft()
        first = self._readings[0]
        return status_between(first, now) if now.at_s - first.at_s >= LEAST_WINDOW_S else None


def status_between(first: _Reading, now: _Reading) -> MachineStatus:
    ticks = max(now.ticks.total - first.ticks.total, 1)
    busy = min(1.0, max(0.0, (now.ticks.busy - first.ticks.busy) / ticks))
    late = {
        port: round(share, 4)
        for port in now.busy_s
        if (share := _late(first, now, port)) > validity.LATE_LIMIT
    }
    lost = {place: now.lost[place] - first.lost.get(place, 0) for place in now.lost}
    growing = [(place, count) for place, count in lost.items() if count > 0 and place in first.lost]
    delays = validity.delays_between(first.forwarding, now.forwarding)
    return MachineStatus(
        round(now.at_s - first.at_s, 1),
        round(busy, 3),
        late,
        dict(growing[: validity.MOST_PLACES]),
        round(validity.share_forwarded_late(delays), 4),
    )


def _late(first: _Reading, now: _Reading, port: str) -> float:
    """Return the lateness of a port as a share of its sending time; 0 for a port that is not judged."""
    sent_s = now.busy_s[port] - first.busy_s.get(port, now.busy_s[port])
    if sent_s < validity.LEAST_BUSY_S:
        return 0.0
    return max(0.0, now.late_s.get(port, 0.0) - first.late_s.get(port, 0.0)) / sent_s


def switch_losses(interfaces: Collection[str]) -> dict[str, int]:
    """Return the packets that this network namespace lost at these interfaces, outside the emulated queues."""
    losses = switch_side(run)
    return {place: count for place, count in losses.items() if place.rpartition(" ")[2] in interfaces}


def switch_side(run: Callable[[list[str]], str]) -> dict[str, int]:
    """Return lost packets by place in the switches' network namespace. `run` runs a command there."""
    return {
        **interface_drops("switch side", run(["ip", "-s", "-j", "link", "show"])),
        **qdisc_drops("queues of", run(["tc", "-s", "-j", "qdisc", "show"])),
        **socket_drops(run(["ss", "-0", "-H", "-n", "-m", "-O"])),
    }


def interface_drops(side: str, text: str) -> dict[str, int]:
    """Return drops by interface. A veth counts a send drop if the other end's backlog was full."""
    return {
        f"{side} of the link at {link['ifname']}": link["stats64"]["tx"]["dropped"]
        for link in json.loads(text)
        if link["ifname"] != "lo"
    }


def qdisc_drops(what: str, text: str) -> dict[str, int]:
    drops: dict[str, int] = {}
    for qdisc in json.loads(text):
        place = f"{what} {qdisc['dev']}"
        if qdisc["kind"] != "clsact":
            drops[place] = max(drops.get(place, 0), qdisc.get("drops", 0))
    return drops


def socket_drops(text: str) -> dict[str, int]:
    """Return drops of packet sockets, from `ss -0 -H -n -m -O`: the switches did not read these packets in time."""
    drops: dict[str, int] = {}
    for interface, packets in _SOCKET_DROPS.findall(text):
        place = f"receive buffer of the switch at {interface}"
        drops[place] = drops.get(place, 0) + int(packets)
    return drops
