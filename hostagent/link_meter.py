# SPDX-License-Identifier: Apache-2.0
"""Reads how much the host's own link carries, what waits for it, and what it drops."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyroute2.netlink.exceptions import NetlinkError

from dataplane.clsact import Netlink
from dataplane.link_queues import link_classes
from policy.host_state import LinkCounters, LinkQueue
from policy.units import BITS_PER_BYTE

log = logging.getLogger(__name__)

_ROOT = 0xFFFFFFFF
_DEVICES = Path("/proc/thread-self/net/dev")


class LinkMeter:
    """The counters of one interface of the current network namespace. One thread uses it."""

    def __init__(self, interface: str) -> None:
        self._interface = interface
        self._netlink = Netlink()
        self._before: LinkCounters | None = None
        self._failed = False

    def read(self) -> LinkCounters | None:
        """Return the counters, with the rates since the last call; None if the kernel does not answer."""
        try:
            now = self._counters()
        except (OSError, NetlinkError) as error:
            if not self._failed:
                log.warning("cannot read the counters of %s: %s", self._interface, error)
            self._failed, self._before = True, None
            return None
        self._failed = False
        found, self._before = with_rates(now, self._before), now
        return found

    def close(self) -> None:
        """End the connection to the kernel. Idempotent."""
        self._netlink.close()

    def _counters(self) -> LinkCounters:
        index = socket.if_nametoindex(self._interface)
        traffic, kernel = _traffic(self._interface), self._netlink.connected()
        qdiscs = [one for one in kernel.get_qdiscs(index=index) if one["parent"] == _ROOT]
        classes = link_classes(kernel, index) if qdiscs else []
        _, dropped, waiting = _queue_statistics(qdiscs)
        return LinkCounters(
            at=time.monotonic(),
            sent_bytes=traffic.sent_bytes,
            received_bytes=traffic.received_bytes,
            dropped=dropped + traffic.dropped,
            waiting_bytes=waiting,
            queues=tuple(LinkQueue(*_queue_statistics([one])) for one in classes),
        )


class _Traffic(NamedTuple):
    received_bytes: int
    sent_bytes: int
    dropped: int
    """Packets that the driver did not send."""


def _traffic(interface: str) -> _Traffic:
    """Return the counters of an interface of the current network namespace. Raises OSError if it has gone.

    They could come from netlink, but each such question would leave memory in the process, because pyroute2 0.9.7 keeps
    the kernel's acknowledgement.
    """
    for line in _DEVICES.read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == interface:
            columns = [int(one) for one in counters.split()]
            return _Traffic(columns[0], columns[8], columns[11])
    raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))


def _queue_statistics(found: Sequence[Any]) -> tuple[int, int, int]:
    """Return sent bytes, dropped packets and waiting bytes of these qdiscs or classes."""
    sent = dropped = waiting = 0
    for one in found:
        statistics = one.get_attr("TCA_STATS2")
        queue: Mapping[str, int] = statistics.get_attr("TCA_STATS_QUEUE") or {}
        sent += (statistics.get_attr("TCA_STATS_BASIC") or {}).get("bytes", 0)
        dropped += queue.get("drops", 0)
        waiting += queue.get("backlog", 0)
    return sent, dropped, waiting


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
