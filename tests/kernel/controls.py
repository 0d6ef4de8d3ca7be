# SPDX-License-Identifier: Apache-2.0
"""Congestion controls under names of this process.

The kernel has one list of controls for the whole machine. Under its public name, a test could get the control of
another process, which removes it when it ends.
"""

import atexit
import contextlib
import functools
import os
import shutil
import socket
import string
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sluice.dataplane import build
from sluice.dataplane.sockopt import SLUICE_FLOW, SLUICE_STATE, SOL_SLUICE

DCTCP = "cc_dctcp"
FRAME = "cc_ops.bpf.h"
HOOKS = "cc_file.bpf.h"
DIGITS = string.digits + string.ascii_lowercase
PROGRAMS = sorted(name for name in build.names() if name.startswith("cc_"))


def private_name(program: str = DCTCP, *, changed: bool = False) -> str:
    """Return a name for the control of a program (cc_ucp), as long as the public one. No other process uses it."""
    public = program.removeprefix("cc_")
    number = (os.getpid() * len(PROGRAMS) + PROGRAMS.index(program)) * 2 + changed
    digits = (DIGITS[number // len(DIGITS) ** place % len(DIGITS)] for place in range(len(public)))
    return f"sluice_{''.join(digits)}"


@functools.cache
def private_build(program: str = DCTCP, *, change: tuple[str, str] | None = None) -> Path:
    """Return the object file of a control, with its private name in place of the public one.

    `change` replaces a part of cc_ops.bpf.h. Its result has another private name.
    """
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    path = build.ensure(program)
    if change:
        frame = (build.SOURCES / FRAME).read_text()
        assert frame.count(change[0]) == 1
        source = (build.SOURCES / f"{program}.bpf.c").read_text()
        for header, text in ((HOOKS, (build.SOURCES / HOOKS).read_text()), (FRAME, frame.replace(*change))):
            source = source.replace(f'#include "{header}"', text)
        path = build.compile_source(program, source, folder)
    public, name = f"sluice_{program.removeprefix('cc_')}", private_name(program, changed=bool(change))
    private = folder / f"{name}.bpf.o"
    private.write_bytes(path.read_bytes().replace(public.encode(), name.encode()))
    return private


FLOW = struct.Struct("=IIQqQII16s")  # include/sluice.h
STATE = struct.Struct("=IIQQQIIIIIIII")
SIZE, DEADLINE, IMPORTANCE, QUENCH, CONTROL = 1, 2, 4, 8, 16
FULL = (SIZE | DEADLINE | IMPORTANCE | QUENCH, 2, 200_000, 25_000_000_000, 3_000_000, 2500, 250, b"")


def declare(sock: socket.socket, *values: int | bytes) -> None:
    sock.setsockopt(SOL_SLUICE, SLUICE_FLOW, FLOW.pack(*values))


def declare_size(sock: socket.socket, size_bytes: int) -> None:
    declare(sock, SIZE, 0, size_bytes, 0, 0, 0, 0, b"")


def declared(sock: socket.socket) -> tuple[Any, ...]:
    """Return the fields of the flow, in the order of the header. The last one is bytes, the others are numbers."""
    return FLOW.unpack(sock.getsockopt(SOL_SLUICE, SLUICE_FLOW, FLOW.size))


def acked_bytes(sock: socket.socket) -> int:
    return int(STATE.unpack(sock.getsockopt(SOL_SLUICE, SLUICE_STATE, STATE.size))[2])


def has_acked(sock: socket.socket, size_bytes: int) -> bool:
    return acked_bytes(sock) == size_bytes


def control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def tcp_state(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[0]


def refusal(action: Callable[[], object]) -> int:
    """Return the errno of an action, 0 if it succeeds."""
    try:
        action()
    except OSError as error:
        return error.errno or 0
    return 0


def fill(sock: socket.socket) -> int:
    """Write until the buffers are full, because no one reads. Returns the number of bytes."""
    timeout_s, written = sock.gettimeout(), 0
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            written += sock.send(bytes(65536))
    sock.settimeout(timeout_s)
    return written


@contextlib.contextmanager
def later(*actions: Callable[[], object], every_s: float = 0.2) -> Iterator[None]:
    """Run actions in another thread, one after the other."""

    def run() -> None:
        for action in actions:
            time.sleep(every_s)
            action()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@contextlib.contextmanager
def reading(sock: socket.socket) -> Iterator[list[int]]:
    """Read all data in another thread. Yields a list that holds the number of bytes after the end."""
    counts: list[int] = []

    def run() -> None:
        sock.settimeout(200)
        total = 0
        while data := sock.recv(1 << 18):
            total += len(data)
        counts.append(total)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield counts
    finally:
        thread.join()
