# SPDX-License-Identifier: Apache-2.0
"""How every flow under way fares, at fixed times of the run: one line of JSON a flow and time, in `samples.jsonl`.

Only for runs that ask for it: reading a socket takes a few microseconds of the traffic's thread.
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

from hostagent.loop import Loop
from hostagent.sender import Sender
from policy.units import NS_PER_MS, NS_PER_S

log = logging.getLogger(__name__)

FILE = "samples.jsonl"


class Sampler:
    """Samples at whole multiples of the interval since the run began, so that all hosts' samples go together."""

    def __init__(self, loop: Loop, sender: Sender, folder: Path, interval_ms: int) -> None:
        self._loop = loop
        self._sender = sender
        self._interval_ns = interval_ms * NS_PER_MS
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def begin(self, epoch_ns: int) -> None:
        """`epoch_ns`: CLOCK_MONOTONIC when the run begins, or began."""
        self._epoch_ns = epoch_ns
        self._plan()

    def _plan(self) -> None:
        past = max(0, time.monotonic_ns() - self._epoch_ns)
        self._loop.call_at(self._epoch_ns + (past // self._interval_ns + 1) * self._interval_ns, self._take)

    def _take(self) -> None:
        lines = []
        for connection in self._sender.active.values():
            at_s = (time.monotonic_ns() - self._epoch_ns) / NS_PER_S
            if sample := connection.sample():
                lines.append(json.dumps({"at_s": round(at_s, 6), **sample}))
        if lines:
            self._write("\n".join(lines).encode() + b"\n")
        self._plan()

    def _write(self, data: bytes) -> None:
        try:
            os.write(self._file, data)
        except OSError as error:
            log.warning("samples are missing: %s", error.strerror)

    def close(self) -> None:
        os.close(self._file)
