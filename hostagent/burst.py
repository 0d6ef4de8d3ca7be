# SPDX-License-Identifier: Apache-2.0
"""How much payload can leave an interface under one tag.

The tagger sees a packet before segmentation offload cuts it, so all segments of it carry one tag. Linux builds such
packets if the interface offers segmentation (in hardware, TSO, or in software, GSO), up to gso_max_size bytes and
gso_max_segs segments. Otherwise one packet is one segment of the MTU.

    payload = min(gso_max_size, gso_max_segs * segment)   with segmentation offload
    payload = segment = MTU - 40                          without it

A program that uses UDP_SEGMENT builds such packets itself, whatever the interface offers.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import socket
import struct

from pyroute2 import IPRoute

log = logging.getLogger(__name__)

LARGEST_BYTES = 65_536
"""The answer if the interface cannot be read: the largest packet of Linux unless BIG TCP is configured."""
IP_AND_TCP_BYTES = 20 + 20
_SIOCETHTOOL = 0x8946
_GET_TSO, _GET_GSO = 0x1E, 0x23
_VALUE = struct.Struct("=II")
_REQUEST = struct.Struct("16sP")


def tag_burst_bytes(interface: str) -> int:
    """Return the most payload that can leave under one tag."""
    try:
        offload = any(_ethtool(interface, command) for command in (_GET_TSO, _GET_GSO))
        mtu, size, segments = _limits(interface)
    except OSError as error:
        log.warning("%s: cannot read its segmentation offload (%s): assuming 64 KB", interface, error)
        return LARGEST_BYTES
    return burst_of(mtu, size, segments, offload=offload)


def burst_of(mtu_bytes: int, gso_max_bytes: int, gso_max_segments: int, *, offload: bool) -> int:
    """Return the payload for these settings of an interface; gso_max_* of 0 mean no limit below 64 KB."""
    segment = mtu_bytes - IP_AND_TCP_BYTES
    if not offload:
        return segment
    return max(segment, min(gso_max_bytes or LARGEST_BYTES, (gso_max_segments or LARGEST_BYTES) * segment))


def _ethtool(interface: str, command: int) -> bool:
    """Return whether a feature is on. A driver without the question has not the feature."""
    value = bytearray(_VALUE.pack(command, 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        address = _address_of(value)
        try:
            fcntl.ioctl(any_socket, _SIOCETHTOOL, _REQUEST.pack(interface.encode(), address))
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return False
            raise
    return bool(_VALUE.unpack(value)[1])


def _address_of(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


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
