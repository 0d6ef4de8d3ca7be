# SPDX-License-Identifier: Apache-2.0
"""A bounded capture of a port's packets: what a client asks for, what the port agent gets, and what it delivers."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.policy.schema import entries
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Flag, Line, Number, Text, Whole

MOST_S = 60.0
MOST_BYTES = 4_000_000
"""The most bytes of a pcap file."""
SNAP_BYTES = 128
"""How much of each packet a capture keeps: its headers, and at most some bytes of payload."""
MAX_RESULT_BYTES = 4 * MOST_BYTES // 3 + 10_000
"""Maximum length of a result's JSON: base64 makes four characters of three bytes."""

_SECONDS = Number(0.1, MOST_S, "s")
_BYTES = Whole(1_000, MOST_BYTES, "bytes")
_COUNT = Whole(0, 2**53)
CAPTURE_ID = Text(r"[0-9a-f]{16}", what="16 hexadecimal digits")


@dataclass(frozen=True)
class NewCapture:
    """What a client asks for."""

    port: str = entry(entries.PORT, "Port whose packets to capture.")
    seconds: float = entry(_SECONDS, "The capture ends after this time.", default=5.0)
    bytes: int = entry(_BYTES, "It also ends when the file has this size.", default=1_000_000)


@dataclass(frozen=True)
class CaptureOrder:
    """What a port agent must capture now."""

    id: str = entry(CAPTURE_ID, "Id of the capture.")
    port: str = entry(entries.PORT, "Port whose packets to capture.")
    seconds: float = entry(_SECONDS, "The capture ends after this time.")
    bytes: int = entry(_BYTES, "It also ends when the file has this size.")


@dataclass(frozen=True)
class CaptureResult:
    """What a port agent delivers."""

    problem: str = entry(Line(longest=300), "Why there are no packets; empty if there are.", default="")
    packets: int = entry(_COUNT, "Packets in the file.", default=0)
    lost: int = entry(_COUNT, "Packets that the kernel could not give to the capture in time.", default=0)
    full: bool = entry(Flag(), "Whether the size ended the capture before its time.", default=False)
    pcap: str = entry(
        Text(r"[A-Za-z0-9+/]*={0,2}", longest=4 * MOST_BYTES // 3 + 4, what="base64"),
        "The pcap file in base64.",
        default="",
    )
