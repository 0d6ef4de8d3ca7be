# SPDX-License-Identifier: Apache-2.0
"""What is wrong and needs an operator, as GET /health lists it: the network, refused agents, hosts that fall back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Engine

from sluice.policy.errors import FieldError
from sluice.policy.network.description import Sightings, discovered
from sluice.policy.network.graph import Topology
from sluice.policy.network.realised import Finding, realise
from sluice.policy.wire.agents import HostHeartbeat, PortHeartbeat
from sluice.store.ages import last_step
from sluice.store.desired import current_policy, current_version, policy_in_force
from sluice.store.failures import last_failure
from sluice.store.networks import current_network, current_sightings, network_version, sighted_at
from sluice.store.observed import AgentRow, events_of
from sluice.webui.identity import EVENT_EVERY_S

MOST_PROBLEMS = 200
"""The most problems in an answer. A last one says how many more there are."""
MOST_SHOWN = 5
"""The most agents that a problem names."""
REFUSED_S = 2 * EVENT_EVERY_S
"""How long a refused agent is a problem. While it tries again, an event follows every EVENT_EVERY_S."""


STEPPED_S = 3600.0
"""How long a step of the wall clock is a problem."""


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
    alive: Iterable[AgentRow],
    programmed: frozenset[str],
) -> list[dict[str, Any]]:
    """Return the problems as documents: the policy, the network, and the agents that are alive.

    `programmed`: the ids of the ports with the port program, also those of an agent that has ended.
    """
    alive = tuple(alive)
    found = (
        *_policy_problem(engine),
        *_without_port_agent(engine, topology, programmed),
        *network_problems(engine, topology),
        *_refused_agents(engine, now),
        *_store_problem(engine),
        *_clock_problem(engine),
        *_agents_say(alive),
        *_same_address(alive),
    )
    left_out = len(found) - MOST_PROBLEMS
    if left_out > 0:
        found = (*found[:MOST_PROBLEMS], Problem("more", "all", f"{left_out} more problems are not listed"))
    return [problem._asdict() for problem in found]


def _policy_problem(engine: Engine) -> Iterator[Problem]:
    try:
        current_policy(engine)
    except FieldError as error:
        version = current_version(engine)
        key = error.field or "document"
        text = f"this version of Sluice does not accept it ({key}), so the one before stays in force; upgrade"
        yield Problem("policy", f"policy version {version}", text)


def _without_port_agent(
    engine: Engine, topology: Topology | None, programmed: frozenset[str]
) -> Iterator[Problem]:
    """Yield the switches whose rules would tag packets for a port program that is not there.

    The controller leaves these ports as they are. The ports of a testbed always have the program.
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
    return _network_problems(engine, network_version(engine), sighted_at(engine))


@lru_cache(maxsize=8)
def _network_problems(engine: Engine, version: int, seen_at: float) -> tuple[Problem, ...]:
    """Do it once for each description and each report of the switches, because every dashboard asks each second."""
    newest, seen = current_network(engine), current_sightings(engine)
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
    findings = realise(network or discovered(seen), seen).findings
    return tuple(_of_finding(finding) for finding in findings if finding.is_error)


def _of_finding(finding: Finding) -> Problem:
    return Problem(finding.kind, finding.where, finding.problem)


def _refused_agents(engine: Engine, now: float) -> Iterator[Problem]:
    """Yield the latest reason of each agent that was refused lately."""
    latest = {
        str(event["document"].get("agent")): str(event["document"].get("reason"))
        for event in events_of(engine, "agent-refused", now - REFUSED_S)
    }
    for agent, reason in latest.items():
        yield Problem("agent-refused", agent, reason)


def _store_problem(engine: Engine) -> Iterator[Problem]:
    failure = last_failure(engine)
    if failure is not None:
        yield Problem(failure.code, "store", failure.problem)


def _clock_problem(engine: Engine) -> Iterator[Problem]:
    """Yield a step of the wall clock, as long as it may confuse the figures of time windows."""
    step = last_step(engine)
    if step is not None and step.ago_s < STEPPED_S:
        yield Problem(
            "clock-stepped",
            "web process",
            f"the wall clock went {'forward' if step.by_s > 0 else 'back'} by {abs(step.by_s):.0f} s,"
            f" {step.ago_s:.0f} s ago. Nothing was deleted for it, and who is alive does not depend on it. Figures over"
            " a time window mix both times. Check the machine's time service (timedatectl)",
        )


def _agents_say(agents: Iterable[AgentRow]) -> Iterator[Problem]:
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


def _same_address(agents: Iterable[AgentRow]) -> Iterator[Problem]:
    """Yield the MAC addresses that several agents report. None of them gives its host a name."""
    names: dict[str, list[str]] = {}
    for row in agents:
        if isinstance(row.heartbeat, HostHeartbeat) and row.heartbeat.mac.strip("0:"):
            names.setdefault(row.heartbeat.mac, []).append(row.name)
    for mac, those in names.items():
        if len(those) > 1:
            text = f"these agents report the MAC address {mac}, so none of them names its host; stop the wrong one"
            yield Problem("same-address", ", ".join(those[:MOST_SHOWN]), text)
