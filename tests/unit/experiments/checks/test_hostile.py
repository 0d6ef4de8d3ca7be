# SPDX-License-Identifier: Apache-2.0
"""Checks with hostile hosts and of declared sizes: their frames, phases and claims."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest

from experiments.checks.hostile import attacker
from experiments.checks.hostile.run import (
    NAMED_WITHIN_S,
    SETTLE_S,
    phases_of,
    scenario_of,
)
from sluice.runs.files import scenario_with
from sluice.topologies import build_topology

PLACES = ("02:00:00:00:00:05,10.0.0.5", "02:00:00:00:00:01,10.0.0.1")


def test_scenario__every_phase_has_the_same_flows() -> None:
    phases = phases_of(["background", "urgent-aemon"], 6.0)
    assert [(phase.attack, phase.protected) for phase in phases] == [
        ("pias", True),
        ("aemon", True),
        ("background", False),
        ("background", True),
        ("urgent-aemon", False),
        ("urgent-aemon", True),
    ]
    assert [phase.lead_s for phase in phases] == [0.0] * 4 + [NAMED_WITHIN_S] * 2
    assert all(a.ends_s + SETTLE_S <= b.begins_s - b.lead_s for a, b in pairwise(phases))
    scenario, *_ = scenario_with(scenario_of(1, phases))
    assert len(build_topology(scenario).hosts) == 5
    flows = scenario_of(1, phases)["workload"]["flow"]
    starts = [float(flow["start"][:-2]) / 1e6 for flow in flows]
    counts = [sum(phase.begins_s <= start < phase.ends_s for start in starts) for phase in phases]
    assert len(set(counts)) == 1
    assert sum(counts) == len(flows)


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
