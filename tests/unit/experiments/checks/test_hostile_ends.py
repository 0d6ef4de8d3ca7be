# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from itertools import pairwise

import pytest

from experiments.checks.hostile import false_ends
from experiments.checks.hostile.ends import (
    BEFORE_S,
    POLICIES,
    PORT,
    Moves,
    Phase,
    claims,
    moves,
    phases_of,
    scenario_of,
    table,
)
from sluice.policy import tags
from sluice.policy.schema.desired import Policy
from sluice.runs.files import scenario_with
from sluice.store.observed import ThresholdChange
from sluice.topologies import build_topology

PLACES = ("02:00:00:00:00:05,10.0.0.5", "02:00:00:00:00:01,10.0.0.1")


def test_phases__each_attack_comes_without_and_with_robust_ends() -> None:
    phases = phases_of(list(POLICIES), ["small-fins", "large-fins"], 6.0)
    assert [(phase.kind, phase.robust) for phase in phases[:4]] == [
        ("small-fins", False),
        ("small-fins", True),
        ("large-fins", False),
        ("large-fins", True),
    ]
    assert all(later.begins_s == earlier.ends_s for earlier, later in pairwise(phases))
    for phase in phases:
        assert Policy.from_document(phase.policy).robust_ends is phase.robust
    scenario, *_ = scenario_with(scenario_of(1, phases))
    assert build_topology(scenario).port_by_id[PORT].peer == "h1"


@pytest.mark.parametrize(("kind", "dscp"), false_ends.FINS.items())
def test_fin__is_a_frame_without_payload_and_with_the_tag(kind: str, dscp: int) -> None:
    frame = false_ends.fin(dscp, *PLACES, 20_000)
    assert len(frame) == 54
    assert (frame[15] >> 2, frame[23], frame[47]) == (dscp, false_ends.TCP, false_ends.FIN_ACK)
    words = struct.unpack("!10H", frame[14:34])
    assert sum(words) % 0xFFFF == 0, "the checksum of the header is right"
    pseudo = frame[26:34] + struct.pack("!HH", false_ends.TCP, 20)
    assert sum(struct.unpack("!16H", pseudo + frame[34:])) % 0xFFFF == 0, "so is that of the segment"
    assert kind in false_ends.KINDS


def change(at: float, size_bytes: int) -> ThresholdChange:
    return ThresholdChange(at, PORT, 1, (size_bytes,), 20)


def test_moves__the_threshold_of_the_attack_is_the_farthest_one() -> None:
    phase = Phase("mlfq-adaptive", "large-fins", False, 10.0, 6.0)
    start_at, begin_s = 1000.0, 10.0 + BEFORE_S
    largest = tags.EDGES_BYTES[-1]
    history = [
        change(start_at + 1, 10_000),
        change(start_at + begin_s + 1, largest),
        change(start_at + begin_s + 2, 13_335),
        change(start_at + phase.ends_s - 0.5, 10_000),
        change(start_at + phase.ends_s + 1, 5_623),
    ]
    found = moves(phase, history, start_at)
    assert (found.before, found.during, found.after, found.edges) == (10_000, largest, 10_000, 31)
    assert moves(phase, history[:1], start_at).edges == 0


def test_claims__only_robust_ends_are_judged() -> None:
    def moved(robust: bool, during: int) -> Moves:
        return Moves(Phase("sluice", "small-fins", robust, 0.0, 6.0), 10_000, during, 10_000)

    outcome = [moved(False, 1_000), moved(True, 13_335), moved(True, 17_783)]
    assert [claim.holds for claim in claims(outcome)] == [True, False]
    assert "| sluice | small-fins | off | 10 KB | 1 KB | 10 KB |" in table(outcome)
