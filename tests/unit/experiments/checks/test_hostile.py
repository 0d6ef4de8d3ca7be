# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import numpy as np
import pytest

from experiments.checks.hostile import flood
from experiments.checks.hostile.run import (
    KINDS,
    Figures,
    Outcome,
    Phase,
    claims,
    phases_of,
    scenario_of,
    table,
)
from sluice.runs.files import scenario_with
from topologies import build_topology

PLACES = ("02:00:00:00:00:05,10.0.0.5", "02:00:00:00:00:01,10.0.0.1")


def test_scenario__every_phase_has_the_same_flows() -> None:
    phases = phases_of(["background", "frames"], 6.0)
    assert [(phase.kind, phase.urgent_first) for phase in phases] == [
        ("", True),
        ("background", False),
        ("background", True),
        ("frames", False),
        ("frames", True),
    ]
    scenario, _ = scenario_with(scenario_of(1, phases))
    assert len(build_topology(scenario).hosts) == 5
    flows = scenario_of(1, phases)["workload"]["flow"]
    starts = [float(flow["start"][:-2]) / 1e6 for flow in flows]
    counts = [sum(phase.begins_s <= start < phase.ends_s for start in starts) for phase in phases]
    assert len(set(counts)) == 1
    assert sum(counts) == len(flows)


@pytest.mark.parametrize("kind", KINDS)
def test_flood__every_frame_is_full_and_goes_to_the_sink(kind: str) -> None:
    frame = flood.packet(kind, *PLACES)
    assert len(frame) == flood.FRAME_BYTES
    assert frame[:6] == (b"\xff" * 6 if kind == "broadcast" else bytes.fromhex("020000000001"))
    if kind in flood.KINDS:
        dscp, protocol, _ = flood.KINDS[kind]
        assert (frame[15] >> 2, frame[23]) == (dscp, protocol)
        words = struct.unpack("!10H", frame[14:34])
        assert sum(words) % 0xFFFF == 0, "the checksum of the header is right"


def figures(kind: str, urgent_first: bool, *times_ms: float) -> Figures:
    return Figures(Phase(kind, urgent_first, 0.0, 1.0), 10, *times_ms)


def test_claims__only_the_order_of_drops_is_judged_and_a_flow_that_never_ends_fails() -> None:
    alone = figures("", True, 10.0, 20.0, 500.0)
    good = figures("background", True, 11.0, 25.0, 550.0)
    without = figures("background", False, np.inf, np.inf, np.inf)
    assert [claim.holds for claim in claims(Outcome(alone, [without, good]))] == [True]
    for bad in ((12.5, 25.0, 550.0), (11.0, 31.0, 550.0), (11.0, 25.0, 610.0), (np.inf, 25.0, 550.0)):
        outcome = Outcome(alone, [figures("frames", True, *bad)])
        assert [claim.holds for claim in claims(outcome)] == [False]
    assert "| background | off | 10 | inf ms" in table(Outcome(alone, [without]))
