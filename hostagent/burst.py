# SPDX-License-Identifier: Apache-2.0
"""How much payload can leave an interface under one tag.

The tagger sees a packet before segmentation offload cuts it, so all segments of it carry one tag. TCP builds such
packets for every interface, up to gso_max_size bytes and gso_max_segs segments. If the interface offers no
segmentation, or has it turned off, the kernel cuts them, but later than the tagger.

    payload = min(gso_max_size, gso_max_segs * segment)     segment = MTU - 40

A program that uses UDP_SEGMENT builds such packets itself.
"""

from __future__ import annotations

import errno
import logging

from pyroute2 import IPRoute

log = logging.getLogger(__name__)

LARGEST_BYTES = 65_536
"""The answer if the interface cannot be read: the largest packet of Linux unless BIG TCP is configured."""
IP_AND_TCP_BYTES = 20 + 20


def tag_burst_bytes(interface: str) -> int:
    """Return the most payload that can leave under one tag."""
    try:
        mtu, size, segments = _limits(interface)
    except OSError as error:
        log.warning("%s: cannot read its longest packets (%s): assuming 64 KB", interface, error)
        return LARGEST_BYTES
    return burst_of(mtu, size, segments)


def burst_of(mtu_bytes: int, gso_max_bytes: int, gso_max_segments: int) -> int:
    """Return the payload for these settings of an interface; gso_max_* of 0 mean no limit below 64 KB."""
    segment = mtu_bytes - IP_AND_TCP_BYTES
    return max(segment, min(gso_max_bytes or LARGEST_BYTES, (gso_max_segments or LARGEST_BYTES) * segment))


def _limits(interface: str) -> tuple[int, int, int]:
    """Return MTU, gso_max_size and gso_max_segs. Raises OSError without the interface."""
    with IPRoute() as routes:
        found = routes.link_lookup(ifname=interface)
        if not found:
            raise OSError(errno.ENODEV, "no such interface")
        (link,) = routes.get_links(found[0])
    mtu, size, segments = (
        link.get_attr(name) for name in ("IFLA_MTU", "IFLA_GSO_MAX_SIZE", "IFLA_GSO_MAX_SEGS")
    )
    return int(mtu), int(size or 0), int(segments or 0)
