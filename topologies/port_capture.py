# SPDX-License-Identifier: Apache-2.0
"""The port agent's captures: tcpdump writes a pcap file into a pipe, and the agent ends it by time and by size."""

from __future__ import annotations

import base64
import logging
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO

from sluice.policy.captures import SNAP_BYTES, CaptureOrder, CaptureResult
from sluice.policy.network.graph import Port
from sluice.runtime.process import obey_parent

log = logging.getLogger(__name__)

START_S = 10.0
"""The most time until tcpdump captures."""
END_S = 5.0
REMEMBERED = 16
_HEADER_BYTES, _RECORD_BYTES = 24, 16
_LOST = re.compile(rb"^(\d+) packets? dropped by (?:kernel|interface)", re.MULTILINE)
_READ_BYTES = 65_536


@dataclass
class Captures:
    """Makes each capture once, in a thread, while the agent continues."""

    deliver: Callable[[str, CaptureResult], None]
    made: Callable[[str, CaptureOrder], CaptureResult] = field(
        default=lambda interface, order: captured(interface, order)
    )
    """Captures an interface."""
    _begun: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def follow(self, order: CaptureOrder, port: Port | None) -> None:
        """Begin the capture unless it has begun. Each answer of the web process asks for it until its end."""
        if order.id in self._begun:
            return
        self._begun.append(order.id)
        threading.Thread(target=self._make, args=(order, port), name="capture", daemon=True).start()

    def _make(self, order: CaptureOrder, port: Port | None) -> None:
        if port is None:
            result = CaptureResult(f"this agent does not have the port {order.port} any more")
        else:
            result = self.made(port.interface, order)
        log.info("capture of %s: %s", order.port, result.problem or f"{result.packets} packets")
        self.deliver(order.id, result)


def captured(interface: str, order: CaptureOrder) -> CaptureResult:
    """Capture an interface of this network namespace for the time of the order, or up to its size."""
    if shutil.which("tcpdump") is None:
        return CaptureResult("tcpdump is missing on the agent's machine; on Debian: apt-get install tcpdump")
    argv = ["tcpdump", "-i", interface, "-s", str(SNAP_BYTES), "--immediate-mode", "-U", "-w", "-"]
    return captured_by([*argv, "-Z", "root"] if os.geteuid() == 0 else argv, order)


def captured_by(argv: Sequence[str], order: CaptureOrder) -> CaptureResult:
    """Do `captured` with this command, which writes a pcap file to its standard output."""
    with TemporaryFile() as said:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, preexec_fn=obey_parent
        )
        assert process.stdout is not None
        try:
            data, full = _read(process, process.stdout, order)
        finally:
            process.stdout.close()  # if tcpdump waits to write, it ends now
            _end(process)
        said.seek(0)
        words = said.read()
    if len(data) < _HEADER_BYTES or (process.returncode and not full):
        return CaptureResult(f"tcpdump failed: {_last_words(words)}"[:300])
    pcap, packets = whole_packets(data[: order.bytes])
    lost = sum(int(count) for count in _LOST.findall(words))
    return CaptureResult("", packets, lost, full, base64.b64encode(pcap).decode())


def _read(process: subprocess.Popen[bytes], pipe: IO[bytes], order: CaptureOrder) -> tuple[bytes, bool]:
    """Return what tcpdump writes, and whether the size ended it. The time begins with the file's header."""
    data = bytearray()
    deadline, has_begun, has_asked = time.monotonic() + START_S, False, False
    while len(data) < order.bytes:
        if not has_begun and len(data) >= _HEADER_BYTES:
            deadline, has_begun = time.monotonic() + order.seconds, True
        readable, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if readable:
            piece = os.read(pipe.fileno(), _READ_BYTES)
            if not piece:
                return bytes(data), False
            data += piece
        if time.monotonic() < deadline:
            continue
        if has_asked:
            return bytes(data), False
        process.send_signal(signal.SIGINT)  # tcpdump writes what it has, and ends
        deadline, has_begun, has_asked = time.monotonic() + END_S, True, True
    return bytes(data), True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End tcpdump, which then says how many packets the kernel dropped."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def whole_packets(data: bytes) -> tuple[bytes, int]:
    """Return a pcap file of this machine without an incomplete last packet, and the number of its packets."""
    at, packets = _HEADER_BYTES, 0
    order = "<" if sys.byteorder == "little" else ">"
    while at + _RECORD_BYTES <= len(data):
        (kept,) = struct.unpack_from(f"{order}I", data, at + 8)
        if at + _RECORD_BYTES + kept > len(data):
            break
        at += _RECORD_BYTES + kept
        packets += 1
    return data[:at], packets


def _last_words(words: bytes) -> str:
    """Return the last two lines, because tcpdump writes the cause of an error into a line of its own."""
    lines = words.decode(errors="replace").strip().splitlines()
    return " ".join(lines[-2:]) if lines else "it says nothing"
