# SPDX-License-Identifier: Apache-2.0
"""Checks with hostile hosts and of declared sizes: their frames, phases and claims."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from experiments.checks.hostile import attacker
from experiments.checks.hostile.run import (
    NAMED_WITHIN_S,
    SETTLE_S,
    Figures,
    Outcome,
    Phase,
    claims,
    phases_of,
    scenario_of,
)
from experiments.checks.http_sizes import web
from sluice.hostagent.sockets import http
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
    unnamed = figures("urgent-aemon", True, 1.0, 2.0, 500.0)
    named = replace(unnamed, named_s=6.0)
    assert [claim.holds for claim in claims(Outcome(alone, [unnamed, named]))] == [False, True]


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


@pytest.mark.parametrize("declares", [True, False])
def test_client__takes_the_whole_of_each_response(declares: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch() -> list[float]:
        start = http.start_server if declares else asyncio.start_server
        async with await start(web.serve, "127.0.0.1", 0) as made:
            monkeypatch.setattr(web, "PORT", made.sockets[0].getsockname()[1])
            return await web.fetch_all(
                [(0.05 * n, "127.0.0.1", size) for n, size in enumerate((1, 70_000, 0))]
            )

    times_s = asyncio.run(fetch())
    assert len(times_s) == 3
    assert all(0 < time_s < 5 for time_s in times_s)
