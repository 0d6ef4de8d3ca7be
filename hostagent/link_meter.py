# SPDX-License-Identifier: Apache-2.0
"""Reads how much the host's own link carries, what waits for it, and what it drops."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from pathlib import Path
from typing import NamedTuple

from sluice.dataplane.link_queues import CLASSES
from sluice.dataplane.queue_counters import Kind, queue_counters
from sluice.policy.units import BITS_PER_BYTE
from sluice.policy.wire.agents import LinkCounters, LinkQueue

log = logging.getLogger(__name__)

_ROOT = 0xFFFFFFFF
_DEVICES = Path("/proc/thread-self/net/dev")


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
        found, self._before = with_rates(now, self._before), now
        return found

    def _counters(self) -> LinkCounters:
        index, traffic = socket.if_nametoindex(self._interface), _traffic(self._interface)
        roots = [one for one in queue_counters(Kind.QDISCS, index) if one.parent == _ROOT]
        classes = {one.handle: one for one in queue_counters(Kind.CLASSES, index)} if roots else {}
        queues = (classes[handle] for handle in CLASSES if handle in classes)
        return LinkCounters(
            at=time.monotonic(),
            sent_bytes=traffic.sent_bytes,
            received_bytes=traffic.received_bytes,
            dropped=sum(one.dropped for one in roots) + traffic.dropped,
            waiting_bytes=sum(one.waiting_bytes for one in roots),
            queues=tuple(LinkQueue(one.sent_bytes, one.dropped, one.waiting_bytes) for one in queues),
        )


class _Traffic(NamedTuple):
    received_bytes: int
    sent_bytes: int
    dropped: int
    """Packets that the driver did not send."""


def _traffic(interface: str) -> _Traffic:
    """Return the counters of an interface of the current network namespace. Raises OSError if it has gone."""
    for line in _DEVICES.read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == interface:
            columns = [int(one) for one in counters.split()]
            return _Traffic(columns[0], columns[8], columns[11])
    raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))


def with_rates(now: LinkCounters, before: LinkCounters | None) -> LinkCounters:
    """Return the counters with the rates since `before`. Without it, or if a counter went back, there are none."""
    if before is None or now.at <= before.at:
        return now
    sent, received = now.sent_bytes - before.sent_bytes, now.received_bytes - before.received_bytes
    if sent < 0 or received < 0:
        return now
    per_s = BITS_PER_BYTE / (now.at - before.at)
    return LinkCounters(
        **{**vars(now), "sent_bps": round(sent * per_s), "received_bps": round(received * per_s)}
    )
