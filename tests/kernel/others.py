# SPDX-License-Identifier: Apache-2.0
"""A program of somebody else at an interface, which lets each packet pass and ends the chain."""

import ctypes
import os
import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyroute2 import IPRoute

from sluice.dataplane import build
from sluice.dataplane.loader import Program, open_object
from tests.kernel.lab import Namespace

SOURCE = """
#include "packet.bpf.h"
SEC("tc") int others(struct __sk_buff *skb) { return 0; }
char LICENSE[] SEC("license") = "GPL";
"""
EGRESS, ALL = 0xFFFFFFF3, 3
SYS_BPF, BPF_PROG_ATTACH, BPF_PROG_DETACH, BPF_TCX_EGRESS = 321, 8, 9, 47
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def ending_program() -> Iterator[Program]:
    with tempfile.TemporaryDirectory() as folder:
        path = build.compile_source("others", SOURCE, Path(folder))
        with open_object(path) as loaded:
            yield loaded.program("others")


def add_filter(ns: Namespace, ifname: str, program: Program, priority: int, name: str = "others") -> None:
    """Add a filter of tc, as Cilium does."""
    with ns, IPRoute() as routes:
        routes.tc(
            "add-filter", "bpf", socket.if_nametoindex(ifname), 1, fd=program.fd, name=name, parent=EGRESS,
            prio=priority, protocol=ALL, direct_action=True,
        )  # fmt: skip


def tcx(command: int, ns: Namespace, ifname: str, program: Program) -> None:
    """Attach or detach a program at TCX, which the kernel runs before all filters. Raises OSError before Linux 6.6."""
    with ns:
        index = socket.if_nametoindex(ifname)
        attributes = struct.pack("=IIIIIIQ", index, program.fd, BPF_TCX_EGRESS, 0, 0, 0, 0)
        if _libc.syscall(SYS_BPF, command, attributes, len(attributes)) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
