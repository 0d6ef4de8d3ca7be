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
PUBLIC_NAME = "#define CC_NAME CC_JOIN(sluice_, CC)\n"
PROGRAMS = sorted(name for name in build.names() if name.startswith("cc_"))


def private_name(program: str = DCTCP) -> str:
    """Return a name for the control of a program (cc_ucp). No other process uses it."""
    return f"sluice_{PROGRAMS.index(program)}_{os.getpid() % 100_000:05}"


@functools.cache
def private_build(
    program: str = DCTCP, *, name: str | None = None, change: tuple[str, str] | None = None
) -> Path:
    """Return the object file of a control under its private name or `name`. This process compiles it once.

    `change` replaces a part of cc_ops.bpf.h.
    """
    frame = (build.SOURCES / FRAME).read_text()
    for old, new in filter(
        None, (change, (PUBLIC_NAME, f"#define CC_NAME {name or private_name(program)}\n"))
    ):
        assert frame.count(old) == 1
        frame = frame.replace(old, new)
    source = (build.SOURCES / f"{program}.bpf.c").read_text()
    for header, text in ((HOOKS, (build.SOURCES / HOOKS).read_text()), (FRAME, frame)):
        source = source.replace(f'#include "{header}"', text)
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    return build.compile_source(program, source, folder)


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
