# SPDX-License-Identifier: Apache-2.0
"""How much work a run is, and how long it will take, before it starts.

On the simulator, the work is the number of bytes that cross ports. On the testbed, which runs in real time, it is the
time in which flows start. On the simulator, the time is the expected number of packet hops over the hops that this
machine simulates in a second. The number of hops follows from the traffic; only a run that may be long is worth the two
seconds that measure the machine's pace.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.network.graph import Topology
from sluice.policy.units import BITS_PER_BYTE, FRAME_BYTES
from sluice.policy.workload.flows import Workload
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.random_flows import arrival_rate_per_s
from sluice.policy.workload.scenario import Scenario
from sluice.policy.workload.sizes import Sizes, mean_wire_bytes
from sluice.runs.files import Resolved, scenario_with
from sluice.simulator import build
from sluice.simulator.taps import SimulationProgress, Taps
from sluice.terminal import about, confirmed


@dataclass(frozen=True)
class Work:
    """The work of one point."""

    scheme: str
    """Points of one scheme take a similar time for the same work."""
    amount: float | None
    """In any unit that all points of a sweep share; None if it is unknown."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """The resolved scenario."""


def predicted_work(resolved: Resolved, on: str) -> float | None:
    """Return the work of a scenario on a fabric; None if it is unknown."""
    scenario, _, topology = resolved
    if on == TESTBED:
        return _starting_s(scenario, topology) or None
    first, *others = [host.name for host in topology.hosts]
    # The mean number of ports on the paths from the first host.
    mean_ports = float(np.mean([len(topology.one_path(first, name)) for name in others]))
    return _wire_bytes(scenario, topology) * mean_ports or None


def _wire_bytes(scenario: Scenario, topology: Topology) -> float:
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        rate_bytes_per_s = topology.ports[0].rate_bps / BITS_PER_BYTE
        return sum(
            flow.bytes or ((flow.until_s or 0.0) - flow.start_s) * rate_bytes_per_s for flow in workload.flows
        )
    return sum(
        flows * float(mean_wire_bytes(sizes, workload.scale).sum()) for flows, sizes in _phases(workload)
    )


def _starting_s(scenario: Scenario, topology: Topology) -> float:
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        return max(flow.until_s or flow.start_s for flow in workload.flows)
    return sum(
        flows / workload.fanin / arrival_rate_per_s(workload, topology, sizes)
        for flows, sizes in _phases(workload)
    )


def _phases(workload: Workload) -> list[tuple[float, Sizes]]:
    """Return the numbers of flows with the sizes before, between and after the shifts."""
    begins = [0.0, *(shift.at for shift in workload.shifts)]
    ends = [*begins[1:], 1.0]
    parts = zip(begins, ends, workload.all_sizes, strict=True)
    return [((end - begin) * workload.flows, sizes) for begin, end, sizes in parts]


# ── Seconds ──────────────────────────────────────────────────────────────────────────────────────────


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
    counted = [
        (str(work.document.get("scheme", {}).get("name", "")), work.document, work.amount)
        for work in works
        if work.amount is not None
    ]
    if not counted:
        return None
    total = sum(amount for _, _, amount in counted) * len(works) / len(counted)
    if on != SIMULATOR:
        return total / jobs
    rough_s = _hops(total) / USUAL_HOPS_PER_S / jobs
    if rough_s < PROBE_FROM_S or not build.is_fresh():
        return rough_s
    firsts = {scheme: document for scheme, document, _ in reversed(counted)}
    paces = {scheme: hops_per_s(scenario_with(document)) for scheme, document in firsts.items()}
    return (
        sum(_hops(amount) / paces[scheme] for scheme, _, amount in counted) * len(works) / len(counted) / jobs
    )


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
