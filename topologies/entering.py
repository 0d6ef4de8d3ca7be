# SPDX-License-Identifier: Apache-2.0
"""Moves this process into a host of a testbed, just before it becomes the command of a user.

The process keeps its terminal, its process group and its process id. So signals, job control and the exit status need
no help.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import Iterable
from pathlib import Path

from sluice.policy.network.graph import Host

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x0002_0000, 0x0400_0000, 0x4000_0000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000
NAMES = Path("/etc/hosts")

_libc = ctypes.CDLL(None, use_errno=True)


def names_of(hosts: Iterable[Host]) -> str:
    """Return the text of /etc/hosts inside. A plain name is the IPv4 address, ip6-NAME the IPv6 address.

    Many servers listen for IPv4 only, but most clients would try the IPv6 address of a name first.
    """
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    for host in hosts:
        lines += [f"{host.ipv4} {host.name}", f"{host.ipv6} ip6-{host.name}"]
    return "".join(f"{line}\n" for line in lines)


def enter_host(name: str, pid: int, names: Path) -> None:
    """Move this process into the network namespace that `pid` holds, with the host's name and its /etc/hosts.

    `names` is the file that becomes /etc/hosts, for this process and its children only. Raises OSError.
    """
    netns = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    _call("setns", netns, CLONE_NEWNET)
    os.close(netns)
    _call("unshare", CLONE_NEWNS | CLONE_NEWUTS)
    _call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    _call("mount", os.fsencode(names), os.fsencode(NAMES), None, ctypes.c_ulong(MS_BIND), None)
    socket.sethostname(name)


def default_signals() -> None:
    """Let signals that Python ignores end the process again. A command would inherit that they are ignored."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
