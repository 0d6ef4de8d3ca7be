# SPDX-License-Identifier: Apache-2.0
"""What is wrong: what needs an operator, as GET /health lists it, and whether the live figures are valid.

Problems are those of the network, refused agents, and hosts that fall back. The figures are valid if they show the
network and not the machine, by what the port agents report of their machines.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Engine

from sluice.policy.errors import FieldError, line_of
from sluice.policy.figures.validity import CLOCK, Flaw, flaws
from sluice.policy.network.description import Sightings, discovered
from sluice.policy.network.graph import Topology
from sluice.policy.network.realised import realise
from sluice.policy.wire.agents import HostHeartbeat, PortHeartbeat, SimulatorHeartbeat, programmed_ports
from sluice.store import ages, observed
from sluice.store.desired import current_policy, current_version, policy_in_force
from sluice.store.failures import last_failure

log = logging.getLogger(__name__)

EVENT_EVERY_S = 60.0
MOST_REFUSALS = 200
"""The most events of refused agents in EVENT_EVERY_S. The log has only these, too."""

MOST_PROBLEMS = 200
"""The most problems in an answer. A last one says how many more there are."""
MOST_SHOWN = 5
"""The most agents that a problem names."""
REFUSED_S = 2 * EVENT_EVERY_S
"""How long a refused agent is a problem. While it tries again, an event follows every EVENT_EVERY_S."""

STEPPED_S = 3600.0
"""How long a step of the wall clock is a problem."""
NOT_VALID_S = 300.0
"""How long it makes figures over a window wrong: as long as the page's usual window."""

UNJUDGED = (
    "no port agent reports how busy its machine is, so nothing tells whether the figures show the network or the"
    " machine; start `sluice port-agent` on the machine of the switches"
)


class Problem(NamedTuple):
    """Something that needs an operator."""

    kind: str
    where: str
    """The switch, port, host or agent."""
    problem: str


def problems(
    engine: Engine,
    now: float,
    topology: Topology | None,
    controller: Mapping[str, Any],
    agents: Sequence[observed.AgentRow],
) -> list[dict[str, Any]]:
    """Return the problems as documents: the policy, the controller, the network, and the agents that are alive.

    `controller` is its document.
    """
    alive = [row for row in agents if row.is_alive]
    listed = (
        *_policy_problem(engine),
        *_gone(controller, topology),
        *_without_port_agent(engine, topology, programmed_ports(row.heartbeat for row in agents)),
        *network_problems(engine, topology),
        *_refused_agents(engine, now),
        *_store_problem(engine),
        *_clock_problem(engine),
        *_agents_say(alive),
        *_same_address(alive),
    )
    left_out = len(listed) - MOST_PROBLEMS
    if left_out > 0:
        listed = (*listed[:MOST_PROBLEMS], Problem("more", "all", f"{left_out} more problems are not listed"))
    return [problem._asdict() for problem in listed]


def _policy_problem(engine: Engine) -> Iterator[Problem]:
    try:
        current_policy(engine)
    except FieldError as error:
        version = current_version(engine)
        key = error.field or "document"
        text = f"this version of Sluice does not accept it ({key}), so the one before stays in force; upgrade"
        yield Problem("policy", f"policy version {version}", text)


def _gone(controller: Mapping[str, Any], topology: Topology | None) -> Iterator[Problem]:
    """Yield the controller, or switches of the network, if they have reported before and do not any more."""
    age_s = controller["age_s"]
    if age_s is not None and not controller["alive"]:
        text = f"no controller has written to the store for {age_s:.0f} s, so thresholds and rules stay as they are"
        yield Problem("controller-away", "controller", f"{text}; start `sluice controller`, or read its log")
    if not controller["alive"] or topology is None:
        return
    expected = {switch.name for switch in topology.switches}
    for switch in controller["switches"]:
        if switch["name"] in expected and not switch["connected"]:
            text = "the controller has no connection to it, so its thresholds and rules stay as they are"
            remedy = "look at its log and at its address of the controller (ovs-vsctl get-controller)"
            yield Problem("switch-away", switch["name"], f"{text}; {remedy}")


def _without_port_agent(
    engine: Engine, topology: Topology | None, programmed: frozenset[str]
) -> Iterator[Problem]:
    """Yield the switches whose rules would tag packets for a port program that is not there.

    The controller leaves these ports as they are. The ports of a testbed always have the program. `programmed`: the ids
    of the ports with the program, also those of an agent that has ended.
    """
    if topology is None or not topology.learns:
        return
    newest = policy_in_force(engine)
    if newest is None:
        return
    for switch in topology.switches:
        idle = [
            port.interface
            for port in topology.ports_of[switch.name]
            if port.managed and newest.policy.acts_at_port(port.id) and port.id not in programmed
        ]
        if idle and switch.priority_tags:
            yield Problem("port-agent-missing", switch.name, f"{_WITHOUT_AGENT}: {', '.join(idle)}")


_WITHOUT_AGENT = (
    "no port agent has reported these ports, so the policy does not act there. Start `sluice port-agent` on the"
    " machine of the switch. If it has Open vSwitch's kernel datapath and queues of your own, describe it:"
    ' datapath = "kernel"'
)


def network_problems(engine: Engine, topology: Topology | None) -> tuple[Problem, ...]:
    """Return where the description contradicts the switches. A testbed's network has no description."""
    if topology is not None and not topology.learns:
        return ()
    return _network_problems(engine, observed.network_version(engine), observed.sighted_at(engine))


@lru_cache(maxsize=8)
def _network_problems(engine: Engine, version: int, seen_at: float) -> tuple[Problem, ...]:
    """Do it once for each description and each report of the switches, because every dashboard asks each second."""
    newest, seen = observed.current_network(engine), observed.current_sightings(engine)
    try:
        network = newest.network if newest is not None else None
    except FieldError as error:
        text = f"this version of Sluice does not accept the description in the store: {error}; upgrade it"
        return (Problem("description", "network", text),)
    if newest is not None and network is None:
        return ()  # withdrawn
    if network is None and seen is None:
        return ()
    seen = seen or Sightings()
    errors = (each for each in realise(network or discovered(seen), seen).findings if each.is_error)
    return tuple(Problem(error.kind, error.where, error.problem) for error in errors)


def _refused_agents(engine: Engine, now: float) -> Iterator[Problem]:
    """Yield the latest reason of each agent that was refused lately."""
    latest = {
        str(event["document"].get("agent")): str(event["document"].get("reason"))
        for event in observed.events_of(engine, "agent-refused", now - REFUSED_S)
    }
    for agent, reason in latest.items():
        yield Problem("agent-refused", agent, reason)


def _store_problem(engine: Engine) -> Iterator[Problem]:
    failure = last_failure(engine)
    if failure is not None:
        yield Problem(failure.code, "store", failure.problem)


def _clock_problem(engine: Engine) -> Iterator[Problem]:
    """Yield a step of the wall clock, as long as it may confuse the figures of time windows."""
    step = ages.last_step(engine)
    if step is not None and step.ago_s < STEPPED_S:
        yield Problem(
            "clock-stepped",
            "web process",
            f"the wall clock went {'forward' if step.by_s > 0 else 'back'} by {abs(step.by_s):.0f} s,"
            f" {step.ago_s:.0f} s ago. Nothing was deleted for it, and who is alive does not depend on it. Figures over"
            " a time window mix both times. Check the machine's time service (timedatectl)",
        )


def _agents_say(agents: Iterable[observed.AgentRow]) -> Iterator[Problem]:
    """Yield what agents report of themselves."""
    for row in agents:
        match row.heartbeat:
            case HostHeartbeat() as beat:
                if beat.fallback:
                    yield Problem("agent-fallback", row.name, beat.fallback_reason)
                if beat.link_problem:
                    yield Problem("agent-link", row.name, beat.link_problem)
                if beat.disk_problem:
                    yield Problem("agent-disk", row.name, beat.disk_problem)
            case PortHeartbeat() as beat:
                for text in beat.problems:
                    yield Problem("port", row.name, text)


def _same_address(agents: Iterable[observed.AgentRow]) -> Iterator[Problem]:
    """Yield the MAC addresses that several agents report. None of them gives its host a name."""
    names: dict[str, list[str]] = {}
    for row in agents:
        if isinstance(row.heartbeat, HostHeartbeat) and row.heartbeat.mac.strip("0:"):
            names.setdefault(row.heartbeat.mac, []).append(row.name)
    for mac, those in names.items():
        if len(those) > 1:
            text = f"these agents report the MAC address {mac}, so none of them names its host; stop the wrong one"
            yield Problem("same-address", ", ".join(those[:MOST_SHOWN]), text)


def validity_document(engine: Engine, agents: Iterable[observed.AgentRow]) -> dict[str, Any]:
    """Return whether the figures are valid now. `valid` is null if nothing judges the network."""
    judged, reasons = False, _stepped_clock(engine)
    for row in (row for row in agents if row.is_alive):
        match row.heartbeat:
            case SimulatorHeartbeat():
                judged = True
            case PortHeartbeat(machine=machine) if machine is not None:
                judged = True
                reasons += flaws(machine, row.name)
    return {
        "valid": False if reasons else (True if judged else None),
        "reasons": [asdict(flaw) for flaw in reasons],
        "note": "" if judged or reasons else UNJUDGED,
    }


def _stepped_clock(engine: Engine) -> list[Flaw]:
    step = ages.last_step(engine)
    if step is None or step.ago_s >= NOT_VALID_S:
        return []
    way = "forward" if step.by_s > 0 else "back"
    text = f"the wall clock went {way} by {abs(step.by_s):.0f} s, so figures over a window mix two times"
    return [
        Flaw(CLOCK, "web process", text, "check the machine's time service (timedatectl), and wait 5 min")
    ]


# ── Events of refused agents ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Refusals:
    """Writes an event for each refused agent, but not for each of its requests."""

    engine: Engine
    _told: dict[tuple[str, str], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, who: str, reason: str) -> None:
        who, reason = line_of(who), line_of(reason)
        now = time.monotonic()
        with self._lock:
            self._told = {key: at for key, at in self._told.items() if now - at < EVENT_EVERY_S}
            if (who, reason) in self._told or len(self._told) >= MOST_REFUSALS:
                return
            self._told[who, reason] = now
        log.warning("refused %s: %s", who, reason)
        observed.add_event(self.engine, "agent-refused", agent=who, reason=reason)
