# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from experiments.checks.hostile import flood
from experiments.checks.hostile.attacks import ATTACKS
from experiments.checks.hostile.run import (
    NAMED_WITHIN_S,
    SETTLE_S,
    Figures,
    Outcome,
    Phase,
    claims,
    phases_of,
    scenario_of,
    table,
)
from sluice.policy.schema.desired import Policy
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


@pytest.mark.parametrize("name", ATTACKS)
def test_attack__both_policies_are_valid_and_differ(name: str) -> None:
    plain, protected = (Policy.from_document(Phase(name, on, 0.0, 1.0).policy) for on in (False, True))
    assert plain != protected


@pytest.mark.parametrize("kind", [*flood.KINDS, *flood.FRAMES])
def test_flood__every_frame_is_full_and_goes_to_the_sink(kind: str) -> None:
    frame = flood.packet(kind, *PLACES)
    assert len(frame) == flood.FRAME_BYTES
    assert frame[:6] == (b"\xff" * 6 if kind == "broadcast" else bytes.fromhex("020000000001"))
    if kind in flood.KINDS:
        dscp, protocol, _ = flood.KINDS[kind]
        assert (frame[15] >> 2, frame[23]) == (dscp, protocol)
        words = struct.unpack("!10H", frame[14:34])
        assert sum(words) % 0xFFFF == 0, "the checksum of the header is right"


def figures(name: str, protected: bool, *times_ms: float) -> Figures:
    return Figures(Phase(name, protected, 0.0, 1.0), 10, *times_ms)


def test_claims__only_what_is_protected_is_judged_and_a_flow_that_never_ends_fails() -> None:
    alone = {
        "pias": figures("pias", True, 10.0, 20.0, 500.0),
        "aemon": figures("aemon", True, 1.0, 2.0, 500.0),
    }
    good = figures("background", True, 11.0, 25.0, 550.0)
    without = figures("background", False, np.inf, np.inf, np.inf)
    assert [claim.holds for claim in claims(Outcome(alone, [without, good]))] == [True]
    for bad in ((12.5, 25.0, 550.0), (11.0, 31.0, 550.0), (11.0, 25.0, 610.0), (np.inf, 25.0, 550.0)):
        outcome = Outcome(alone, [figures("frames", True, *bad)])
        assert [claim.holds for claim in claims(outcome)] == [False]
    assert "| background | off | – | 10 | inf ms" in table(Outcome(alone, [without]))
    unnamed = figures("urgent-aemon", True, 1.0, 2.0, 500.0)
    named = replace(unnamed, named_s=6.0)
    assert [claim.holds for claim in claims(Outcome(alone, [unnamed, named]))] == [False, True]
