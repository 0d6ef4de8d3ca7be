# SPDX-License-Identifier: Apache-2.0
"""Traces of flows: "ms KB sender" lines, the format of PIAS's testbed (Bai et al., NSDI 2015;
github baiwei0427/PIAS).

ms: time since the previous flow; for the first flow, since the start of the run. KB: units of 1024
bytes, as in PIAS's programs. sender: 0 is the first host that is not the receiver, 1 the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluice.policy.errors import FieldError
from sluice.policy.framing import MAX_FLOW_BYTES

KB_BYTES = 1024
MAX_SENDER = 65_534
MAX_GAP_MS = 3_600_000.0
"""One hour."""


@dataclass(frozen=True)
class Trace:
    """Columns of equal length."""

    name: str
    gap_s: npt.NDArray[np.float64]
    size_bytes: npt.NDArray[np.float64]
    sender: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.gap_s)


def parse_trace(name: str, text: str) -> Trace:
    """Read the lines. "#" starts a comment. FieldError names the line."""
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#")[0].split()
        if words:
            rows.append(_row(name, number, words))
    if not rows:
        raise FieldError(name, 'has no flow; write "ms KB sender" lines')
    gap_ms, size_kb, sender = zip(*rows, strict=True)
    return Trace(
        name, np.asarray(gap_ms) / 1000, np.asarray(size_kb) * KB_BYTES, np.asarray(sender, np.int64)
    )


def _row(name: str, number: int, words: list[str]) -> tuple[float, float, int]:
    try:
        gap_ms, size_kb, sender = float(words[0]), float(words[1]), int(words[2])
    except (ValueError, IndexError):
        gap_ms = math.nan
    if len(words) != 3 or not math.isfinite(gap_ms):
        found = " ".join(words)
        raise FieldError(name, f'line {number}: write "ms KB sender", for example "12.5 30 4", not {found!r}')
    if (
        not 0 <= gap_ms <= MAX_GAP_MS
        or not 0 < size_kb <= MAX_FLOW_BYTES / KB_BYTES
        or not 0 <= sender <= MAX_SENDER
    ):
        raise FieldError(
            name,
            f"line {number}: ms must be 0 to {MAX_GAP_MS:g}, KB above 0 and at most {MAX_FLOW_BYTES / KB_BYTES:g}, "
            f"and the sender 0 to {MAX_SENDER}",
        )
    return gap_ms, size_kb, sender
