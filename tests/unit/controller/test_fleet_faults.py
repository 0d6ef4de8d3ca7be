# SPDX-License-Identifier: Apache-2.0
"""Three controllers share six switches, and random faults hit one of them after the other."""

from __future__ import annotations

import os
import random
import signal

import pytest

from tests.unit.controller.fleet import Fleet, fleet, store_url
from tests.unit.controller.processes import Process

__all__ = ["fleet", "store_url"]

pytestmark = [pytest.mark.slow, pytest.mark.timing]  # several controllers and real leases

ROUNDS = 6
KINDS = ("kill", "stop", "end")
SCHEMES = ("tcp", "pias")


@pytest.mark.parametrize(
    ("store_url", "seed"),
    [("sqlite", 1), pytest.param("postgresql", 2, marks=pytest.mark.pg)],
    indirect=["store_url"],
)
def test_random_faults__the_others_lead_all_switches_and_no_late_write_counts(
    fleet: Fleet, seed: int
) -> None:
    """A policy may change during a fault. Afterwards it stands everywhere, and the parts are fair again."""
    rng = random.Random(seed)
    living = [fleet.start() for _ in range(3)]
    fleet.wait_shared(*living)
    fleet.apply({"scheme": "pias"})
    kinds = [*KINDS, *rng.choices(KINDS, k=ROUNDS - len(KINDS))]
    rng.shuffle(kinds)
    for turn, kind in enumerate(kinds):
        victim = living.pop(rng.randrange(len(living)))
        _begin(fleet, victim, kind)
        version = fleet.first.put_policy({"scheme": SCHEMES[turn % 2]})
        fleet.wait_shared(*living)
        fleet.wait_rows(version)
        if kind == "stop":
            os.kill(victim.process.pid, signal.SIGCONT)
        living.append(victim if kind == "stop" else fleet.start())
        fleet.wait_shared(*living)
        fleet.wait_rows(version)
        fleet.check()


def _begin(fleet: Fleet, victim: Process, kind: str) -> None:
    if kind == "stop":
        fleet.pause(victim)
    else:
        os.kill(victim.process.pid, signal.SIGKILL if kind == "kill" else signal.SIGTERM)
        victim.process.wait()
