# SPDX-License-Identifier: Apache-2.0
"""What agents send, from its arrival to the store: heartbeats, and batches of flow records.

Heartbeats that arrive at the same moment share one transaction, and the settings that answer them stay in memory. One
thread writes at a time. The next one then writes all that arrived in the meantime. So a thousand agents lead to larger
transactions, not to a longer queue.
"""

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Engine

from sluice.policy.figures.metrics import IdealTimes
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import dscp_queue_map
from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import NO_SETTINGS, AgentSettings, Heartbeat, HostHeartbeat
from sluice.policy.wire.records import WATCHED, FlowRecord
from sluice.store.desired import PolicyVersion, current_topology, policy_in_force
from sluice.store.flows import Added, add_batch
from sluice.store.heartbeats import MOST_AGENTS, put_heartbeats
from sluice.store.observed import all_agents, latest_thresholds

MOST_TOGETHER = 64
"""The most heartbeats in one transaction."""


class Outcome(NamedTuple):
    """What became of a heartbeat."""

    is_kept: bool
    """False if there is no room for one more agent."""
    policy_version: int
    """Version of the newest policy; 0 before the first."""


def _documents(current: PolicyVersion | None) -> Callable[[str], dict[str, Any]]:
    """Return a function from an agent's name to the document of its settings. There are two documents at most."""
    if current is None:
        nothing = _document(NO_SETTINGS)
        return lambda name: nothing
    version, policy = current.version, current.policy
    watches, acts = (_document(AgentSettings.of(version, policy, acts=acts)) for acts in (False, True))
    return lambda name: acts if policy.acts_on_host(name) else watches


def _document(settings: AgentSettings) -> dict[str, Any]:
    """Return the keys that all agents know: those of an earlier version refuse the time of the answer."""
    return {key: value for key, value in write(settings).items() if key != "answered_s"}


class Heartbeats:
    """Writes heartbeats into the store, one transaction at a time."""

    def __init__(self, engine: Engine, most: int = MOST_AGENTS) -> None:
        """`most`: how many agents may report."""
        self._engine, self.most = engine, most
        self._writing = threading.Lock()
        self._waiting: deque[tuple[str, Heartbeat, Future[Outcome]]] = deque()
        """Every thread appends to it; the thread that writes takes from it."""
        self._settings = 0, _documents(None)
        """The newest policy's version, and what `_documents` made of the policy that was in force then."""

    def add(self, name: str, beat: Heartbeat) -> Outcome:
        """Store an agent's heartbeat. Raises the store's error, which holds for all that were written together."""
        mine: Future[Outcome] = Future()
        self._waiting.append((name, beat, mine))
        with self._writing:
            while not mine.done():
                self._write([self._waiting.popleft() for _ in range(min(MOST_TOGETHER, len(self._waiting)))])
        return mine.result()

    def settings(self, name: str, policy_version: int) -> dict[str, Any]:
        """Return the document of an agent's settings. It reads the store if this version is not the last one's."""
        version, document_of = self._settings
        if version != policy_version:
            document_of = _documents(policy_in_force(self._engine))
            self._settings = policy_version, document_of
        return document_of(name)

    def queues(self, ports: Iterable[str]) -> dict[str, list[int]]:
        """Return the queue of each DSCP, by the thresholds in force, at these ports if the policy acts there."""
        current = policy_in_force(self._engine)
        if current is None:
            return {}
        latest = latest_thresholds(self._engine)
        return {
            port: list(dscp_queue_map(current.policy, latest[port].thresholds_bytes))
            for port in ports
            if port in latest
            and latest[port].policy_version == current.version
            and current.policy.acts_at_port(port)
        }

    def _write(self, taken: Sequence[tuple[str, Heartbeat, Future[Outcome]]]) -> None:
        try:
            kept = put_heartbeats(self._engine, {name: beat for name, beat, _ in taken}, self.most)
        except Exception as error:
            for _, _, outcome in taken:
                outcome.set_exception(error)
            return
        for name, _, outcome in taken:
            outcome.set_result(Outcome(name in kept.names, kept.policy_version))


VALID_S = 2.0
"""How long the network and the list of agents are used before they are read again."""


def names_of_addresses(
    topology: Topology | None, watching: Mapping[str, Collection[str]]
) -> Mapping[str, str]:
    """Return the hosts by their addresses and those of their containers. `watching`: as in Network."""
    used = Counter(address for addresses in watching.values() for address in addresses)
    names = {a: name for name, addresses in watching.items() for a in addresses if used[a] == 1}
    hosts = topology.hosts if topology else ()
    return names | {address: host.name for host in hosts for address in (host.ipv4, host.ipv6) if address}


class Network:
    """The network and the hosts whose connections are watched."""

    def __init__(self, topology: Topology | None, watching: Mapping[str, Collection[str]]) -> None:
        """`watching`: the hosts whose agents watch connections now, with the addresses of their containers.

        An address of containers on several hosts, as behind translated addresses, names none of them.
        """
        hosts = topology.hosts if topology else ()
        self._watching = watching
        self._place = {host.name: place for place, host in enumerate(hosts)}
        self._names = names_of_addresses(topology, watching)
        self._ideal = IdealTimes(topology) if topology and hosts else None

    def completed(self, record: FlowRecord) -> FlowRecord:
        """Return a watched flow with names for the addresses of hosts and, if its path is known, its ideal FCT."""
        named = replace(
            record, src=self._names.get(record.src, record.src), dst=self._names.get(record.dst, record.dst)
        )
        src, dst = self._place.get(named.src), self._place.get(named.dst)
        if named.ideal_us is not None or self._ideal is None or src is None or dst is None or src == dst:
            return named
        ideal_us = float(self._ideal.of(np.array([src]), np.array([dst]), np.array([named.bytes]))[0])
        return replace(named, ideal_us=ideal_us) if math.isfinite(ideal_us) else named

    def is_reported_by_its_sender(self, record: FlowRecord) -> bool:
        """Whether this is the receiver's record of a flow whose sender reports it, too.

        Only a receiver's record lacks the retransmissions. An agent that does not know that the other
        end is watched sends one.
        """
        return record.retransmissions is None and record.src in self._watching


def _watching(engine: Engine) -> dict[str, Collection[str]]:
    return {
        row.name: row.heartbeat.watch.addresses
        for row in all_agents(engine)
        if row.is_alive and isinstance(row.heartbeat, HostHeartbeat) and row.heartbeat.watch.watching
    }


class Ingestion:
    """Writes flow records into the store, a transaction for each delivery."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writer = threading.Lock()
        self._reading = threading.Lock()
        self._network = Network(None, {})
        self._until = -math.inf
        """When the network must be read again, in monotonic seconds."""

    def add(self, records: Sequence[FlowRecord]) -> Added:
        """Store the records and return what became of them. Raises the store's error.

        Watched flows get the names and the ideal FCT that the network gives them.
        """
        completed = self._completed(records)
        with self.alone():
            return add_batch(self._engine, completed)

    def _completed(self, records: Sequence[FlowRecord]) -> Sequence[FlowRecord]:
        """Return the records to store: watched ones completed, and none twice though both ends report it."""
        if not any(record.source == WATCHED for record in records):
            return records
        with self._reading:
            if time.monotonic() >= self._until:
                self._network = Network(current_topology(self._engine), _watching(self._engine))
                self._until = time.monotonic() + VALID_S
            network = self._network
        completed = [network.completed(r) if r.source == WATCHED else r for r in records]
        return [r for r in completed if r.source != WATCHED or not network.is_reported_by_its_sender(r)]

    def alone(self) -> AbstractContextManager[object]:
        """Return a context manager: while it is held, no delivery of this process competes for SQLite's one writer.

        PostgreSQL has many writers, so there a delivery waits for no other task of this process.
        """
        return self._writer if self._engine.dialect.name == "sqlite" else nullcontext()
