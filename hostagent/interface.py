# SPDX-License-Identifier: Apache-2.0
"""The address of the host's interface, by which the network knows the host."""

from __future__ import annotations

import fcntl
import socket
import struct

_SIOCGIFHWADDR = 0x8927
_ETHERNET = 1
_REQUEST = struct.Struct("=16sH6s16x")
"""struct ifreq: name, then the family and the bytes of the address."""


def mac_address(interface: str) -> str:
    """Return the MAC address of an interface of this network namespace; empty if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, _SIOCGIFHWADDR, _REQUEST.pack(interface.encode(), 0, bytes(6)))
        except OSError:
            return ""
    _, family, address = _REQUEST.unpack(answer)
    return str(address.hex(":")) if family == _ETHERNET else ""
