# SPDX-License-Identifier: Apache-2.0
"""Room in the packet sockets of ovs-vswitchd.

The userspace datapath sends on one AF_PACKET socket for all ports: what waits in any port's queues is charged to its
send buffer (by default some 90 full packets for all switches together), and beyond it packets vanish without a
counter. The default for new sockets belongs to the whole machine; so the sockets of this one process are taken by
pidfd_getfd(2) and enlarged one by one. Receive buffers too: a late switch shall delay packets, not lose them.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from policy.errors import EnvironmentLacking

SEND_BYTES = 64 << 20
RECEIVE_BYTES = 16 << 20

_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_PIDFD_GETFD = 438
"""The same number on all architectures (it is younger than their unification)."""
_libc = ctypes.CDLL(None, use_errno=True)


def take_descriptor(pid: int, descriptor: int) -> int:
    """A duplicate of another process's file descriptor. OSError when either is gone, or when this is not allowed."""
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
    """Inode name → descriptor of every socket of a process; empty when it is gone."""
    found = {}
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = str(entry.readlink())
            if target.startswith("socket:"):
                found[target] = int(entry.name)
    except (
        FileNotFoundError,
        ProcessLookupError,
    ):  # closed between the listing and the look, or the process is gone
        return found
    return found


def packet_sockets(pid: int, known: frozenset[str] = frozenset()) -> Iterator[tuple[str, socket.socket]]:
    """Duplicates of a process's AF_PACKET sockets, by inode, but for the known inodes."""
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
    """Give a process's packet sockets room, but for the known ones; returns the inodes of those enlarged now."""
    done = set()
    for inode, packet_socket in packet_sockets(pid, known):
        packet_socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SEND_BYTES)
        packet_socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BYTES)
        done.add(inode)
    return frozenset(done)


def smallest_send_buffer(pid: int) -> int:
    """Bytes of the smallest send buffer of a process's packet sockets, twice what was asked for; 0: there are none."""
    sizes = [s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for _, s in packet_sockets(pid)]
    return min(sizes, default=0)
