# SPDX-License-Identifier: Apache-2.0
"""Samples every active flow at fixed times of the run, into `samples.jsonl`: a line for each flow and time.

Only runs with `sample_ms` are sampled, because each sample takes a few microseconds of the traffic's thread.
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

from sluice.hostagent.loop import Loop
from sluice.hostagent.sender import Sender
from sluice.policy.units import NS_PER_MS, NS_PER_S

log = logging.getLogger(__name__)

FILE = "samples.jsonl"


class Sampler:
    """Takes samples at whole multiples of the interval since the start of the run: at the same times on all hosts."""

    def __init__(self, loop: Loop, sender: Sender, folder: Path, interval_ms: int) -> None:
        self._loop = loop
        self._sender = sender
        self._interval_ns = interval_ms * NS_PER_MS
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def begin(self, epoch_ns: int) -> None:
        """Start sampling. `epoch_ns` is the CLOCK_MONOTONIC time at which the run starts or started."""
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
            log.warning("%s: samples are lost: %s", FILE, error.strerror)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
