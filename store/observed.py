# SPDX-License-Identifier: Apache-2.0
"""Observed state: switches, agents, thresholds, port samples, events. Writers never overwrite each other's rows.

Beside it are the operator's description of the network, and what the switches report of that network.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, Engine, Select, Table, cast, delete, desc, func, select

from sluice.policy.errors import FieldError
from sluice.policy.network.description import Network, Sightings, read_network
from sluice.policy.policing.limits import Demoted
from sluice.policy.policing.urgency import CLOCKS_S, UrgencyReport
from sluice.policy.units import NS_PER_S
from sluice.policy.wire.agents import (
    STORED_HEARTBEATS,
    Heartbeat,
    HostHeartbeat,
    PortHeartbeat,
    SimulatorHeartbeat,
    heartbeat_from,
)
from sluice.store import schema
from sluice.store.ages import age_s
from sluice.store.connections import first, one_after_another, put_row, reading, scalar
from sluice.store.heartbeats import agent_row
from sluice.store.schema import agents, events, port_samples, sanctions, sightings, switches, thresholds


@dataclass(frozen=True)
class NetworkVersion:
    """A description as it was stored."""

    version: int
    document: Mapping[str, Any] | None
    """None if it withdraws the description before it."""
    author: str
    created_at: float

    @property
    def network(self) -> Network | None:
        """The description. Raises FieldError if this version of Sluice does not accept it."""
        return None if self.document is None else read_network(self.document)


def put_network(engine: Engine, document: Mapping[str, Any] | None, author: str) -> int:
    """Store a description as the one in force, or withdraw it. Returns its version."""
    row = {"document": document, "author": author, "created_at": time.time()}
    with engine.begin() as connection:
        statement = schema.networks.insert().values(**row).returning(schema.networks.c.version)
        return int(connection.execute(statement).scalar_one())


def current_network(engine: Engine) -> NetworkVersion | None:
    """Return the newest description, or None before the first."""
    row = first(engine, select(schema.networks).order_by(desc(schema.networks.c.version)).limit(1))
    return NetworkVersion(**row._mapping) if row else None


def network_version(engine: Engine) -> int:
    """Return the version of the newest description, 0 before the first."""
    return scalar(engine, select(func.max(schema.networks.c.version))) or 0


def put_sightings(engine: Engine, seen: Sightings) -> None:
    """Store what the switches report, in place of the earlier report."""
    values = {"id": 1, "document": seen.to_document(), "updated_at": time.time()}
    with engine.begin() as connection:
        put_row(connection, sightings, values)


def current_sightings(engine: Engine) -> Sightings | None:
    """Return what the switches have reported; None before the first report."""
    document = scalar(engine, select(sightings.c.document))
    return Sightings.from_document(document) if document else None


def sighted_at(engine: Engine) -> float:
    """Return when the switches' report was stored, 0 before the first."""
    return scalar(engine, select(sightings.c.updated_at)) or 0.0


CONTROLLER = "controller"

CONTEST_S = 10.0
"""Two agents that both report within this time live at the same time. A renamed agent waits that long for its name."""

_FRESH_S = 3.0
"""A port agent whose last heartbeat is older counts nothing for the ports."""


@dataclass(frozen=True)
class ThresholdChange:
    at: float
    port: str
    policy_version: int
    thresholds_bytes: tuple[int, ...]
    flows: int = field(metadata={"help": "flows from which the port computed the thresholds"})


@dataclass(frozen=True)
class PortSample:
    at: float
    port: str
    queue_bytes: tuple[int, ...]
    queue_packets: tuple[int, ...]


def put_switch(engine: Engine, dpid: int, name: str, *, connected: bool, policy_version: int | None) -> None:
    """Store the state of a switch's connection, and the policy version that its rules implement."""
    seen_s = age_s(engine)
    values = {
        "dpid": dpid,
        "name": name,
        "connected": connected,
        "policy_version": policy_version,
        "seen_at": time.time(),
        "seen_s": seen_s,
    }
    with engine.begin() as connection:
        put_row(connection, switches, values)
        put_row(connection, schema.signs, {"name": CONTROLLER, "seen_s": seen_s})


AGENT_LATE_S = 5.0
"""An agent without a heartbeat for this long counts as away. Agents report about every second."""


@dataclass(frozen=True)
class AgentRow:
    """An agent with its newest heartbeat."""

    name: str
    seen_s: float
    """Reading of the store's clock at the newest heartbeat."""
    age_s: float
    """Seconds since then by the store's clock, when the row was read."""
    heartbeat: Heartbeat

    @property
    def kind(self) -> str:
        return self.heartbeat.KIND

    @property
    def is_alive(self) -> bool:
        """Whether the agent has reported lately."""
        return self.age_s < AGENT_LATE_S


def find_agent(engine: Engine, name: str) -> Heartbeat | None:
    """Return the newest heartbeat of an agent; None if there is none of this version."""
    rows = _all(engine, select(agents).where(agents.c.name == name))
    return _heartbeat(rows[0]) if rows else None


def put_agent(engine: Engine, name: str, heartbeat: Heartbeat) -> None:
    """Store an agent's heartbeat in place of the previous one."""
    put_agents(engine, {name: heartbeat})


def put_agents(engine: Engine, heartbeats: Mapping[str, Heartbeat]) -> None:
    """Do `put_agent` for several agents, by name, in one transaction."""
    seen_s = age_s(engine)
    with engine.begin() as connection:
        for name, beat in heartbeats.items():
            put_row(connection, agents, agent_row(name, beat, seen_s))


def add_thresholds(engine: Engine, changes: Iterable[ThresholdChange]) -> None:
    rows = [{**vars(change), "thresholds_bytes": list(change.thresholds_bytes)} for change in changes]
    if rows:
        with engine.begin() as connection:
            connection.execute(thresholds.insert(), rows)


def add_port_samples(engine: Engine, samples: Iterable[PortSample]) -> None:
    rows = [
        {**vars(s), "queue_bytes": list(s.queue_bytes), "queue_packets": list(s.queue_packets)}
        for s in samples
    ]
    if rows:
        seen_s = age_s(engine)
        with engine.begin() as connection:
            connection.execute(port_samples.insert(), rows)
            put_row(connection, schema.signs, {"name": CONTROLLER, "seen_s": seen_s})


def add_event(engine: Engine, kind: str, /, **document: Any) -> None:
    """Store an event for operators ("switch-connected", "policy-applied", …)."""
    with engine.begin() as connection:
        one_after_another(connection, events.name)
        connection.execute(events.insert().values(at=time.time(), kind=kind, document=document))


def all_switches(engine: Engine) -> list[Mapping[str, Any]]:
    return _all(engine, select(switches).order_by(switches.c.dpid))


def all_agents(engine: Engine) -> list[AgentRow]:
    """Return every agent, by name.

    An agent whose last heartbeat came from another version of Sluice is left out until its next
    heartbeat replaces the row.
    """
    rows = _all(engine, select(agents).order_by(agents.c.name))
    beats, now_s = [(row, _heartbeat(row)) for row in rows], age_s(engine)
    return [
        # The clocks of several machines may differ a little.
        AgentRow(row["name"], row["seen_s"], max(0.0, now_s - row["seen_s"]), beat)
        for row, beat in beats
        if beat is not None and row["seen_s"] is not None
    ]


def _heartbeat(row: Mapping[str, Any]) -> Heartbeat | None:
    try:
        return heartbeat_from({"kind": row["kind"], **row["status"]}, STORED_HEARTBEATS)
    except FieldError:
        return None


def host_heartbeats(engine: Engine) -> dict[str, HostHeartbeat]:
    """Return the newest heartbeat of every host agent, by name."""
    beats = {row.name: row.heartbeat for row in all_agents(engine)}
    return {name: beat for name, beat in beats.items() if isinstance(beat, HostHeartbeat)}


def port_reports(engine: Engine, names: Collection[str]) -> dict[str, PortHeartbeat]:
    """Return the newest heartbeats of the port agents among these that have reported lately, by agent."""
    fresh = agents.c.seen_s >= age_s(engine) - _FRESH_S
    beats = {
        row["name"]: _heartbeat(row)
        for row in _all(engine, select(agents).where(agents.c.name.in_(names), fresh))
    }
    return {name: beat for name, beat in beats.items() if isinstance(beat, PortHeartbeat)}


def largest_tag_burst(engine: Engine) -> int | None:
    """Return the most payload under one tag that any host agent reports; None without a report.

    The database extracts it, so no heartbeat is parsed.
    """
    burst = agents.c.status["tag_burst_bytes"].as_integer()
    largest: int | None = scalar(engine, select(func.max(burst)).where(agents.c.kind == HostHeartbeat.KIND))
    return largest


def urgency_reports(engine: Engine) -> dict[str, UrgencyReport]:
    """Return what each host agent reports about urgency tags. The database extracts it, so no heartbeat is parsed."""
    now_ns, now_s = time.monotonic_ns(), age_s(engine)
    # as_integer would cast to 32 bits on PostgreSQL.
    tagged, pid = (cast(agents.c.status[key].as_string(), BigInteger) for key in ("urgent_bytes", "pid"))
    answered = agents.c.status["answered_s"].as_float()
    query = select(agents.c.name, tagged, pid, answered).where(agents.c.kind == HostHeartbeat.KIND)

    def counted_ns(answered_s: float | None) -> int | None:
        return None if answered_s is None else now_ns - round((now_s - answered_s + CLOCKS_S) * NS_PER_S)

    with reading(engine) as connection:
        return {
            name: UrgencyReport(count, process or 0, counted_ns(answered_s))
            for name, count, process, answered_s in connection.execute(query)
        }


def agents_by_mac(engine: Engine) -> dict[str, str]:
    """Return the names of the host agents by the MAC address that each reports. The newest agent wins.

    While two agents report one address, it names neither: one of them lies, and the name would change with each
    heartbeat. The database extracts the addresses, so no heartbeat is parsed.
    """
    mac = agents.c.status["mac"].as_string()
    query = select(mac, agents.c.name, agents.c.seen_s).where(agents.c.kind == HostHeartbeat.KIND)
    newest: dict[str, tuple[str, float]] = {}
    contested = set()
    with reading(engine) as connection:
        for address, name, seen_s in connection.execute(query.order_by(agents.c.seen_s.nulls_first())):
            if address in newest and (seen_s or 0.0) - newest[address][1] < CONTEST_S:
                contested.add(address)
            newest[address] = name, seen_s or 0.0
    return {address: name for address, (name, _) in newest.items() if address and address not in contested}


def simulation(engine: Engine) -> SimulatorHeartbeat | None:
    """Return the newest heartbeat of the simulated network; None if the network is real."""
    beats = (row.heartbeat for row in all_agents(engine) if row.kind == SimulatorHeartbeat.KIND)
    return next((beat for beat in beats if isinstance(beat, SimulatorHeartbeat)), None)


def events_of(engine: Engine, kind: str, since: float) -> list[Mapping[str, Any]]:
    """Return the events of one kind after a time, oldest first."""
    query = select(events).where(events.c.at > since, events.c.kind == kind).order_by(events.c.id)
    return _all(engine, query)


def events_after(engine: Engine, after_id: int, limit: int = 500) -> list[Mapping[str, Any]]:
    """Return events younger than the one with that id, oldest first."""
    return _all(engine, select(events).where(events.c.id > after_id).order_by(events.c.id).limit(limit))


def newest_events(engine: Engine, limit: int) -> list[Mapping[str, Any]]:
    """Return the last events, oldest first."""
    return _all(engine, select(events).order_by(events.c.id.desc()).limit(limit))[::-1]


def threshold_history(
    engine: Engine, since: float, ports: Sequence[str] | None = None, limit: int = 20_000
) -> list[ThresholdChange]:
    """Return the newest `limit` changes after `since`, oldest first."""
    return [_threshold_change(row) for row in _history(engine, thresholds, since, ports, limit)]


def latest_thresholds(engine: Engine) -> dict[str, ThresholdChange]:
    """Return the thresholds in force, by port."""
    rows = _all(engine, select(thresholds).where(thresholds.c.id.in_(newest_of_each_port(thresholds))))
    return {row["port"]: _threshold_change(row) for row in rows}


def port_history(
    engine: Engine, since: float, ports: Sequence[str] | None = None, limit: int = 100_000
) -> list[PortSample]:
    """Return the newest `limit` samples after `since`, oldest first."""
    return [_port_sample(row) for row in _history(engine, port_samples, since, ports, limit)]


def newest_port_samples(engine: Engine) -> list[PortSample]:
    """Return the last sample of every port, by port."""
    newest = newest_of_each_port(port_samples)
    query = select(port_samples).where(port_samples.c.id.in_(newest)).order_by(port_samples.c.port)
    return [_port_sample(row) for row in _all(engine, query)]


def _history(
    engine: Engine, table: Table, since: float, ports: Sequence[str] | None, limit: int
) -> list[Mapping[str, Any]]:
    query = select(table).where(table.c.at > since).order_by(table.c.id.desc()).limit(limit)
    if ports:
        query = query.where(table.c.port.in_(ports))
    return _all(engine, query)[::-1]


def newest_of_each_port(table: Table) -> Select[Any]:
    """Return a query for the id of each port's last row: one index lookup for each port, however
    many rows there are.

    GROUP BY would read every row. An hour of samples of 44 ports is 158,000 rows, and they would
    be read once a second.
    """
    ports = select(func.min(table.c.port).label("port")).cte("ports", recursive=True)
    following = select(func.min(table.c.port)).where(table.c.port > ports.c.port).scalar_subquery()
    ports = ports.union_all(select(following).where(ports.c.port.is_not(None)))
    newest = select(func.max(table.c.id)).where(table.c.port == ports.c.port).scalar_subquery()
    return select(newest).where(ports.c.port.is_not(None))


def controller_seen_s(engine: Engine) -> float | None:
    """Return the reading of the store's clock when a controller wrote last; None before the first time."""
    seen_s: float | None = scalar(
        engine, select(schema.signs.c.seen_s).where(schema.signs.c.name == CONTROLLER)
    )
    return seen_s


def forget_processes(engine: Engine) -> None:
    """Delete the switches, agents and sanctions of an earlier run, because those will not come back."""
    with engine.begin() as connection:
        connection.execute(delete(schema.signs))
        connection.execute(delete(agents))
        connection.execute(delete(sanctions))
        connection.execute(delete(switches))


def _threshold_change(row: Mapping[str, Any]) -> ThresholdChange:
    return ThresholdChange(
        row["at"], row["port"], row["policy_version"], tuple(row["thresholds_bytes"]), row["flows"]
    )


def _port_sample(row: Mapping[str, Any]) -> PortSample:
    return PortSample(row["at"], row["port"], tuple(row["queue_bytes"]), tuple(row["queue_packets"]))


def _all(engine: Engine, query: Select[Any]) -> list[Mapping[str, Any]]:
    with reading(engine) as connection:
        return [dict(row._mapping) for row in connection.execute(query)]


@dataclass(frozen=True)
class Sanction(Demoted):
    """A demotion that is in force."""

    since: float = field(kw_only=True)
    """Epoch seconds."""


def put_sanction(engine: Engine, sanction: Sanction) -> None:
    with engine.begin() as connection:
        put_row(connection, sanctions, vars(sanction))


def lift_sanctions(engine: Engine, ports: Collection[str]) -> None:
    with engine.begin() as connection:
        connection.execute(delete(sanctions).where(sanctions.c.port.in_(ports)))


def lift_all_but(engine: Engine, ports: Collection[str]) -> None:
    """Delete the sanctions of ports that no longer exist, or that no controller polices, because
    none would restore them."""
    with engine.begin() as connection:
        connection.execute(delete(sanctions).where(sanctions.c.port.not_in(ports)))


def all_sanctions(engine: Engine) -> list[Sanction]:
    """Return the sanctions in force, the earliest first."""
    with reading(engine) as connection:
        rows = connection.execute(select(sanctions).order_by(sanctions.c.since, sanctions.c.port))
        return [Sanction(**row._mapping) for row in rows]
