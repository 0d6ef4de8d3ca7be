# SPDX-License-Identifier: Apache-2.0
"""Whether the live figures show the network and not the machine, by what the port agents report of their machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sqlalchemy import Engine

from sluice.policy.figures.validity import CLOCK, Flaw, flaws
from sluice.policy.wire.agents import PortHeartbeat, SimulatorHeartbeat
from sluice.store.ages import last_step
from sluice.store.observed import AgentRow, all_agents
from sluice.webui.documents import is_alive

STEPPED_S = 300.0
"""How long a step of the wall clock makes figures over a window wrong: as long as the page's usual window."""
UNKNOWN = (
    "no port agent reports how busy its machine is, so nothing tells whether the figures show the network or the"
    " machine; start `sluice port-agent` on the machine of the switches"
)


def flaws_now(engine: Engine, age_s: float) -> list[Flaw]:
    """Return why the figures are not valid now. `age_s`: reading of the store's clock."""
    return [*_clock(engine), *_machines(all_agents(engine), age_s)]


def _machines(agents: Iterable[AgentRow], age_s: float) -> list[Flaw]:
    return [
        flaw
        for row in agents
        if isinstance(row.heartbeat, PortHeartbeat) and row.heartbeat.machine and is_alive(row, age_s)
        for flaw in flaws(row.heartbeat.machine, row.name)
    ]


def _clock(engine: Engine) -> list[Flaw]:
    step = last_step(engine)
    if step is None or step.ago_s >= STEPPED_S:
        return []
    way = "forward" if step.by_s > 0 else "back"
    text = f"the wall clock went {way} by {abs(step.by_s):.0f} s, so figures over a window mix two times"
    return [
        Flaw(CLOCK, "web process", text, "check the machine's time service (timedatectl), and wait 5 min")
    ]


def validity_document(engine: Engine, agents: Iterable[AgentRow], age_s: float) -> dict[str, Any]:
    """Return whether the figures are valid. `valid` is null if nothing judges the network."""
    agents = tuple(agents)
    found = [*_clock(engine), *_machines(agents, age_s)]
    beats = [row.heartbeat for row in agents if is_alive(row, age_s)]
    judged = any(
        isinstance(beat, SimulatorHeartbeat) or (isinstance(beat, PortHeartbeat) and beat.machine is not None)
        for beat in beats
    )
    return {
        "valid": False if found else (True if judged else None),
        "reasons": [asdict(flaw) for flaw in found],
        "note": "" if judged or found else UNKNOWN,
    }
