# SPDX-License-Identifier: Apache-2.0
"""How long a run will take, before it starts.

The testbed runs in real time. On the simulator, the time is the expected number of packet hops over the hops that this
machine simulates in a second. The number of hops follows from the traffic; only a run that may be long is worth the two
seconds that measure the machine's pace.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR
from sluice.policy.units import FRAME_BYTES
from sluice.runs.files import Resolved, scenario_with
from sluice.runs.work import Work, predicted_work
from sluice.simulator import build
from sluice.simulator.taps import SimulationProgress, Taps
from sluice.terminal import about, confirmed

HOPS_PER_PACKET = 2.7
"""Packet hops for each data packet and switch port: ACKs and the links of hosts count, too. Between 2.3 and 2.9 in six
of seven measured scenarios, 4.2 in one with few large flows."""
USUAL_HOPS_PER_S = 2.2e6
"""Of one core, as measured over these scenarios (1.5 to 3.8 million)."""
PROBE_FROM_S = 600.0
"""A run that takes longer than this at the usual pace is worth a measurement."""
PROBE_S = 2.0
ASK_FROM_S = 3600.0
"""From this length on, a run asks before it starts."""


class _ProbeOver(Exception):
    pass


def predicted_s(resolved: Resolved, on: str) -> float | None:
    """Return the seconds that a run of this scenario takes; None if they are unknown.

    A simulation that may be long is tried for two seconds, if the core is compiled.
    """
    return predicted_total_s([Work("", predicted_work(resolved, on), resolved.document)], on)


def predicted_total_s(works: Sequence[Work], on: str, jobs: int = 1) -> float | None:
    """Return the seconds of several runs, `jobs` at a time. Each scheme is measured once, at its first scenario."""
    known = [
        (_scheme(work.document), work.document, work.amount) for work in works if work.amount is not None
    ]
    if not known:
        return None
    total = sum(amount for _, _, amount in known) * len(works) / len(known)
    if on != SIMULATOR:
        return total / jobs
    rough_s = _hops(total) / USUAL_HOPS_PER_S / jobs
    if rough_s < PROBE_FROM_S or not build.is_fresh():
        return rough_s
    firsts = {scheme: document for scheme, document, _ in reversed(known)}
    paces = {scheme: hops_per_s(scenario_with(document)) for scheme, document in firsts.items()}
    return sum(_hops(amount) / paces[scheme] for scheme, _, amount in known) * len(works) / len(known) / jobs


def _scheme(document: Mapping[str, Any]) -> str:
    return str(document.get("scheme", {}).get("name", ""))


def _hops(work_bytes: float) -> float:
    """Return the packet hops of so many bytes that cross ports of switches."""
    return work_bytes / FRAME_BYTES * HOPS_PER_PACKET


def hops_per_s(resolved: Resolved, probe_s: float = PROBE_S) -> float:
    """Return the packet hops that this machine simulates in a second, from the scenario's first seconds.

    Raises FieldError if the simulator cannot run the scenario.
    """
    from sluice.simulator.run import Simulation

    def report(_: SimulationProgress) -> None:
        if time.monotonic() - began_s >= probe_s:
            raise _ProbeOver

    taps = Taps(flows=lambda columns: None, report=report)
    simulation = Simulation(resolved.scenario, resolved.topology, taps)
    began_s = time.monotonic()
    with suppress(_ProbeOver):
        simulation.run()
    return max(1.0, simulation.totals()["packet_hops"] / (time.monotonic() - began_s))


def check_length(predicted: float | None, yes: bool) -> None:
    """Ask before a run that takes longer than ASK_FROM_S. Raises SluiceError if the answer is no, or without a
    terminal. `yes`: the user has confirmed it beforehand."""
    if predicted is None or predicted < ASK_FROM_S:
        return
    what = f"This takes {about(predicted)}, by the pace that this machine has now."
    if yes:
        print(what, file=sys.stderr)
    elif not confirmed(what):
        raise SluiceError(f"{what} Nothing has started; add --yes to start it, or take fewer flows (--flows)")
