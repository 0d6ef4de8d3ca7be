# SPDX-License-Identifier: Apache-2.0
"""Quantities with units, written as in scenarios: "10Gbit", "360KB", "0.2us", "65pkt".

All prefixes are decimal (1 KB = 1000 B, 1 Mbit = 10^6 bit), because link rates and the papers use them.
Sizes of TCP segments and Ethernet frames are here, too, as shapers and the simulator count them.
"""

import re
from collections.abc import Mapping
from decimal import Decimal

from sluice.policy.errors import FieldError, shortened

US_PER_S = 10**6
NS_PER_US = 10**3
NS_PER_MS = 10**6
NS_PER_S = 10**9
PS_PER_NS = 10**3
PS_PER_US = 10**6
PS_PER_MS = 10**9
PS_PER_S = 10**12
BITS_PER_BYTE = 8

PACKET_BYTES = 1500
"""The unit "pkt": one full Ethernet payload. Papers count buffers and marking thresholds in such packets."""

RATE_BPS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
SIZE_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "pkt": PACKET_BYTES}
TIME_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}

_QUANTITY = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-z]+)\s*")


def parse(field: str, text: object, units: Mapping[str, int], example: str) -> int:
    """The quantity in the base unit. `units`: their names in small letters. Raises FieldError that names `field`."""
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    scale = units.get(match.group(2).lower()) if match else None
    if match is None or scale is None:
        raise FieldError(
            field,
            f"{shortened(text)} is not a quantity: write a number and a unit ({', '.join(units)}), "
            f'for example "{example}"',
        )
    return int((Decimal(match.group(1)) * scale).to_integral_value())


def rate_bps(field: str, text: object) -> int:
    """Bits per second of a rate such as "10Gbit"."""
    return parse(field, text, RATE_BPS, "10Gbit")


def size_bytes(field: str, text: object) -> int:
    """Bytes of a size such as "360KB" or "65pkt"; a packet has PACKET_BYTES."""
    return parse(field, text, SIZE_BYTES, "360KB")


def time_ns(field: str, text: object) -> int:
    """Nanoseconds of a time such as "0.2us"."""
    return parse(field, text, TIME_NS, "20us")


def format_bytes(count: float) -> str:
    """A size for display: 10 KB, 1.33 KB, 1 MB."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def format_rate(bps: float) -> str:
    """A rate for display: 100 Mb/s."""
    for unit, scale in (("Gb/s", 10**9), ("Mb/s", 10**6), ("kb/s", 10**3)):
        if bps >= scale:
            return f"{bps / scale:.3g} {unit}"
    return f"{bps:.0f} b/s"


MSS_BYTES = 1448
"""TCP payload of a full segment, with time stamps and an MTU of 1500 bytes."""
FRAME_BYTES = 1514
"""The same segment on the link, as a shaper counts it."""
HEADER_BYTES = FRAME_BYTES - MSS_BYTES
"""Bytes of a frame in addition to the segment's payload."""
WIRE_PER_PAYLOAD = FRAME_BYTES / MSS_BYTES

MIN_FLOW_BYTES = 64
"""Size of the smallest flow: its payload has room for the header of hostagent/wire.py."""
MAX_FLOW_BYTES = 10**13
"""Size of the largest flow."""
