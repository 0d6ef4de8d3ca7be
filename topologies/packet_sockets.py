# SPDX-License-Identifier: Apache-2.0
"""Larger buffers for the packet sockets of ovs-vswitchd.

The userspace datapath sends on one AF_PACKET socket for all ports. The kernel charges packets in any port's queue to
that socket's send buffer. The default buffer holds about 90 full packets for all switches together. Beyond it, packets
are lost without a counter.

The default for new sockets belongs to the whole machine. So the testbed takes the sockets of this one process by
pidfd_getfd(2) and enlarges each. It enlarges receive buffers, too, so that a late switch delays packets and does not
lose them.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from sluice.policy.errors import EnvironmentLacking

SEND_BYTES = 64 << 20
RECEIVE_BYTES = 16 << 20

_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_PIDFD_GETFD = 438
"""The system call has the same number on all architectures."""
_libc = ctypes.CDLL(None, use_errno=True)


def take_descriptor(pid: int, descriptor: int) -> int:
    """Return a duplicate of another process's file descriptor. OSError: either is gone, or this is not allowed."""
    pidfd = os.pidfd_open(pid)
    try:
        taken = int(_libc.syscall(_PIDFD_GETFD, pidfd, descriptor, 0))
        if taken < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"pidfd_getfd: {os.strerror(code)}")
        return taken
    finally:
        os.close(pidfd)


def socket_descriptors(pid: int) -> dict[str, int]:
    """Return inode name → descriptor of every socket of a process, nothing if the process is gone."""
    found = {}
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = str(entry.readlink())
            if target.startswith("socket:"):
                found[target] = int(entry.name)
    except (
        FileNotFoundError,
        ProcessLookupError,
    ):  # the socket was closed since the listing, or the process is gone
        return found
    return found


def packet_sockets(pid: int, known: frozenset[str] = frozenset()) -> Iterator[tuple[str, socket.socket]]:
    """Yield (inode, duplicate) of a process's AF_PACKET sockets, without the known inodes."""
    for inode, descriptor in socket_descriptors(pid).items():
        if inode in known:
            continue
        try:
            duplicate = socket.socket(fileno=take_descriptor(pid, descriptor))
        except OSError as error:
            if error.errno in (1, 38):  # EPERM, ENOSYS
                raise EnvironmentLacking(
                    f"cannot enlarge the switch's packet sockets ({error.strerror}): needs root and Linux 5.6"
                ) from error
            continue
        with duplicate:
            if duplicate.family == socket.AF_PACKET:
                yield inode, duplicate


def enlarge(pid: int, known: frozenset[str] = frozenset()) -> frozenset[str]:
    """Enlarge the buffers of a process's packet sockets, except known ones. Returns the inodes of the enlarged."""
    done = set()
    for inode, packet_socket in packet_sockets(pid, known):
        packet_socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SEND_BYTES)
        packet_socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BYTES)
        done.add(inode)
    return frozenset(done)


def smallest_send_buffer(pid: int) -> int:
    """Return the smallest send buffer in bytes of a process's packet sockets, 0 if it has none.

    The kernel reports twice the size that was set.
    """
    sizes = [s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for _, s in packet_sockets(pid)]
    return min(sizes, default=0)
