# SPDX-License-Identifier: Apache-2.0
"""The frames of hostile hosts."""

import struct

import pytest

from experiments.checks.hostile import attacker

PLACES = ("02:00:00:00:00:05,10.0.0.5", "02:00:00:00:00:01,10.0.0.1")


@pytest.mark.parametrize("kind", [*attacker.FLOODS, *attacker.FRAMES])
def test_flood__every_frame_is_full_and_goes_to_the_sink(kind: str) -> None:
    frame = attacker.packet(kind, *PLACES)
    assert len(frame) == attacker.FRAME_BYTES
    assert frame[:6] == (b"\xff" * 6 if kind == "broadcast" else bytes.fromhex("020000000001"))
    if kind in attacker.FLOODS:
        dscp, protocol, _ = attacker.FLOODS[kind]
        assert (frame[15] >> 2, frame[23]) == (dscp, protocol)
        words = struct.unpack("!10H", frame[14:34])
        assert sum(words) % 0xFFFF == 0, "the checksum of the header is right"


@pytest.mark.parametrize(("kind", "dscp"), attacker.FINS.items())
def test_fin__is_a_frame_without_payload_and_with_the_tag(kind: str, dscp: int) -> None:
    frame = attacker.fin(dscp, *PLACES, 20_000)
    assert len(frame) == 54
    assert (frame[15] >> 2, frame[23], frame[47]) == (dscp, attacker.TCP, attacker.FIN_ACK)
    words = struct.unpack("!10H", frame[14:34])
    assert sum(words) % 0xFFFF == 0, "the checksum of the header is right"
    pseudo = frame[26:34] + struct.pack("!HH", attacker.TCP, 20)
    assert sum(struct.unpack("!16H", pseudo + frame[34:])) % 0xFFFF == 0, "so is that of the segment"
    assert kind in attacker.FALSE_ENDS
