# SPDX-License-Identifier: Apache-2.0
"""The host's own link: its interface, its queues and its counters.

Without queues, the host's packets wait in one queue, whatever their tag.
"""

import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sluice.dataplane import link_queues, rtnetlink
from sluice.dataplane.link_queues import CLASSES, queue_counters
from sluice.dataplane.rtnetlink import Kind
from sluice.policy.errors import SluiceError
from sluice.policy.tags import BURST_BYTES, UNTAGGED
from sluice.policy.units import BITS_PER_BYTE
from sluice.policy.wire.agents import LinkCounters, LinkQueue
from sluice.runtime.command import CommandFailed

log = logging.getLogger(__name__)

IP_AND_TCP_BYTES = 20 + 20
_ETHERNET = 1
_DSCPS = 64
_ROOT = 0xFFFFFFFF
_DEVICES = Path("/proc/thread-self/net/dev")
_HEAD_LINES = 2


def mac_address(interface: str) -> str:
    """Return the MAC address of an interface of this network namespace; empty if there is none.

    The network knows the host by it.
    """
    try:
        kind, said = rtnetlink.interface(interface)
    except OSError:
        return ""
    return said[rtnetlink.ADDRESS].hex(":") if kind == _ETHERNET else ""


def tag_burst_bytes(interface: str) -> int:
    """Return the most payload of a flow that can leave an interface beyond the edge of its tag.

    The tagger sees a packet before segmentation offload cuts it, so all segments of it carry one tag. TCP builds such
    packets for every interface, up to gso_max_size bytes and gso_max_segs segments. If the interface offers no
    segmentation, or has it turned off, the kernel cuts them, but later than the tagger. A long packet has the tag of
    its last segments (dataplane/laws/tag.h), so the answer is at most BURST_BYTES. A program that uses UDP_SEGMENT
    builds such packets itself.
    """
    try:
        _, said = rtnetlink.interface(interface)
    except OSError as error:
        log.warning("%s: cannot read its longest packets (%s): assuming long ones", interface, error)
        return BURST_BYTES
    kinds = rtnetlink.MTU, rtnetlink.GSO_MAX_BYTES, rtnetlink.GSO_MAX_SEGMENTS
    return burst_of(*(int.from_bytes(said.get(kind, b""), sys.byteorder) for kind in kinds))


def burst_of(mtu_bytes: int, gso_max_bytes: int, gso_max_segments: int) -> int:
    """Return the payload for these settings of an interface; gso_max_* of 0 mean no limit.

    payload = min(gso_max_size, gso_max_segs * segment, BURST_BYTES)     segment = MTU - 40
    """
    segment = mtu_bytes - IP_AND_TCP_BYTES
    longest = min(gso_max_bytes or BURST_BYTES, (gso_max_segments or BURST_BYTES) * segment)
    return min(max(segment, longest), BURST_BYTES)


class HostLink:
    """The qdiscs of a host's interfaces in the current network namespace.

    Without a place for them, the agent changes no qdisc. It only removes the queues of a killed agent that had a place.
    """

    def __init__(self, interfaces: Sequence[str], at: str | None) -> None:
        """`at`: "root", or a class of a qdisc that exists. None: the links stay as they are."""
        self._interfaces, self._at = interfaces, at
        self.name = ""
        """The kind of the qdiscs; empty if there is none."""
        self.problem = ""
        """Why there are no queues although the agent should make them; empty if there are."""
        self._limits: tuple[Sequence[int], Sequence[int]] = (), ()
        """Rates in bits per second and bursts in bytes of the first queues."""

    def ensure(self, new_limits: bool = False) -> None:
        """Make the queues if they are not there. A problem is noted, because packets leave all the same."""
        limited = any(self._limits)
        if self._at is None:
            if limited:
                self._note("the scheme limits what hosts send at each level: set queues_at")
            return
        kinds, problems = [], []
        for interface in self._interfaces:
            try:
                kinds.append(
                    link_queues.make(interface, self._at, ("htb",) if limited else link_queues.KINDS)
                )
                if limited or (new_limits and kinds[-1] == "htb"):
                    link_queues.limit(interface, *self._limits)
            except (SluiceError, CommandFailed) as error:
                problems.append(str(error))
        self.name = kinds[0] if kinds else ""
        self._note("; ".join(problems))

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem

    def limit(self, rates_bps: Sequence[int], bursts_bytes: Sequence[int]) -> None:
        """Limit what the first queues send, and no others. Only HTB can."""
        if self._limits != (rates_bps, bursts_bytes):
            self._limits = rates_bps, bursts_bytes
            self.ensure(new_limits=True)

    def begin(self) -> None:
        """Make the queues, or remove those that a killed agent has left."""
        if self._at is not None:
            self.ensure()
            return
        for interface in self._remove():
            log.warning("removed the queues that an earlier agent left on %s", interface)

    def priorities(self, queue_of_tag: Sequence[int]) -> tuple[int, ...]:
        """Return the priority of a packet by DSCP; empty if the link is one queue."""
        if not self.name or not queue_of_tag:
            return ()
        tagged = [CLASSES[queue] for queue in queue_of_tag]
        return (*tagged, *[tagged[UNTAGGED]] * (_DSCPS - len(tagged)))

    def end(self) -> None:
        """Remove the queues. A second call does nothing."""
        if self.name:
            self.name = ""
            self._remove()

    def _remove(self) -> list[str]:
        """Remove the queues, and return the interfaces that had some."""
        removed = []
        for interface in self._interfaces:
            try:
                if link_queues.remove(interface):
                    removed.append(interface)
            except (SluiceError, CommandFailed) as error:
                log.warning("%s", error)
        return removed


class LinkMeter:
    """The counters of one interface of the current network namespace."""

    def __init__(self, interface: str) -> None:
        self._interface = interface
        self._before: LinkCounters | None = None
        self._failed = False

    def read(self) -> LinkCounters | None:
        """Return the counters, with the rates since the last call; None if the kernel does not answer."""
        try:
            now = self._counters()
        except OSError as error:
            if not self._failed:
                log.warning("cannot read the counters of %s: %s", self._interface, error)
            self._failed, self._before = True, None
            return None
        self._failed = False
        counters, self._before = with_rates(now, self._before), now
        return counters

    def _counters(self) -> LinkCounters:
        index, counted = socket.if_nametoindex(self._interface), traffic().get(self._interface)
        if counted is None:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        roots = [qdisc for qdisc in queue_counters(Kind.QDISCS, index) if qdisc.parent == _ROOT]
        classes = {each.handle: each for each in queue_counters(Kind.CLASSES, index)} if roots else {}
        queues = (classes[handle] for handle in CLASSES if handle in classes)
        return LinkCounters(
            at=time.monotonic(),
            sent_bytes=counted.sent_bytes,
            received_bytes=counted.received_bytes,
            dropped=sum(qdisc.dropped for qdisc in roots) + counted.dropped,
            waiting_bytes=sum(qdisc.waiting_bytes for qdisc in roots),
            queues=tuple(LinkQueue(queue.sent_bytes, queue.dropped, queue.waiting_bytes) for queue in queues),
        )


class Traffic(NamedTuple):
    """The counters of an interface."""

    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int
    dropped: int
    """Packets that the driver did not send."""


def traffic() -> dict[str, Traffic]:
    """Return the counters of each interface of the current network namespace. Raises OSError."""
    found = {}
    for line in _DEVICES.read_text().splitlines()[_HEAD_LINES:]:
        name, _, counters = line.partition(":")
        columns = [int(column) for column in counters.split()]
        found[name.strip()] = Traffic(columns[0], columns[1], columns[8], columns[9], columns[11])
    return found


def with_rates(now: LinkCounters, before: LinkCounters | None) -> LinkCounters:
    """Return the counters with the rates since `before`. Without it, or if a counter went back, there are none."""
    if before is None or now.at <= before.at:
        return now
    sent, received = now.sent_bytes - before.sent_bytes, now.received_bytes - before.received_bytes
    if sent < 0 or received < 0:
        return now
    per_s = BITS_PER_BYTE / (now.at - before.at)
    return replace(now, sent_bps=round(sent * per_s), received_bps=round(received * per_s))
