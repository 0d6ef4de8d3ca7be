# SPDX-License-Identifier: Apache-2.0
"""Meters: messages that change them, and replies about them (1.3.5, sections 7.3.4.4, 7.3.5.14 and 7.3.5.15).

Open vSwitch takes no meter into a bundle. So meters are added before the bundle with the rules that name them, and
deleted after the bundle that removes these rules.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sluice.controller.conduct import MAX_METERS, METER_SPACE
from sluice.controller.openflow.entries import meter_entry_offsets
from sluice.controller.openflow.frames import MessageType, ProtocolViolation, message
from sluice.controller.rules import MeterRule

ADD, MODIFY, DELETE = 0, 1, 2
"""Commands of a meter mod."""
_MOD = struct.Struct("!HHI")
_CONFIG = struct.Struct("!HHI")
_BAND = struct.Struct("!HHII4x")
_FEATURES = struct.Struct("!IIIBBxx")
_KBPS, _BURST, _STATS = 1, 4, 8
_FLAGS = _KBPS | _BURST | _STATS
_DROP = 1


def meter_mod(command: int, meter: MeterRule, xid: int = 0) -> bytes:
    """Return the message that adds or modifies a meter."""
    band = _BAND.pack(_DROP, _BAND.size, meter.rate_kbps, meter.burst_kbits)
    return message(MessageType.METER_MOD, _MOD.pack(command, _FLAGS, meter.meter) + band, xid)


def meter_delete(number: int, xid: int = 0) -> bytes:
    """Return the message that deletes a meter. A switch ignores it if it has no such meter."""
    return message(MessageType.METER_MOD, _MOD.pack(DELETE, 0, number), xid)


def read_meters(body: bytes, first_table: int = 0) -> tuple[MeterRule, ...]:
    """Return the meters of a reply. Raises ProtocolViolation.

    If the pipeline does not begin at table 0, the meters of others are left out.
    """
    found = _meters(body)
    if not first_table:
        return tuple(found)
    return tuple(meter for meter in found if meter.meter - METER_SPACE in range(MAX_METERS))


def _meters(body: bytes) -> Iterator[MeterRule]:
    for start in meter_entry_offsets(body):
        length, flags, number = _CONFIG.unpack_from(body, start)
        rate_kbps = burst_kbits = 0  # of a meter that is none of Sluice's: it differs from all of them
        if flags == _FLAGS and length == _CONFIG.size + _BAND.size:
            kind, _, rate, burst = _BAND.unpack_from(body, start + _CONFIG.size)
            if kind == _DROP:
                rate_kbps, burst_kbits = rate, burst
        yield MeterRule(number, rate_kbps, burst_kbits)


def offers_meters(body: bytes) -> bool:
    """Whether a switch has meters that drop, by its reply. An empty reply is that of a switch that knows no meters."""
    if not body:
        return False
    if len(body) != _FEATURES.size:
        raise ProtocolViolation(
            f"a reply about the features of meters has {len(body)} bytes instead of {_FEATURES.size}"
        )
    most, bands, *_ = _FEATURES.unpack(body)
    return most > 0 and bool(bands >> _DROP & 1)
