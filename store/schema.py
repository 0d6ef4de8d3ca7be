# SPDX-License-Identifier: Apache-2.0
"""The tables. The store is the bus: desired and observed state are rows, and processes exchange
state only there.

desired:  policies (versioned), networks (versioned), topologies
observed: applied, sightings, switches, agents, thresholds, port_samples, flows, events, totals, leases, sanctions,
          enrolments, certificates, tokens, audit, acts; on PostgreSQL flow_ids and detached_flows
Times are seconds of the Unix epoch, except those named `age_s` and `seen_s`: they are of the store's own clock
(store/ages.py).
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

from sluice.policy.schema.entries import entries, plain_type
from sluice.policy.wire.records import FlowRecord

metadata = MetaData()
postgresql_only = MetaData()
"""Tables that SQLite does not need."""

_Number = BigInteger().with_variant(Integer, "sqlite")
"""For tables with thousands of rows. SQLite's integers have 64 bits anyway, and only an INTEGER is
its row id."""

SCHEMA_VERSION = 2
"""Raise it with every change after which an earlier version of Sluice can no longer use the store."""

RETIRED_INDEXES = ("thresholds_by_port", "port_samples_by_port", "flows_by_reception")
"""Indexes of earlier versions; dropped when a store is opened."""

RETIRED_TABLES = (
    "alert_rules",
    "alerts",
    "capture_files",
    "captures",
    "members",
    "parts",
    "unbroken",
    "webhook_queue",
)
"""Tables of earlier versions; dropped when a store is opened."""

_SQL_TYPES: dict[type, type[TypeEngine[Any]]] = {int: BigInteger, float: Float, bool: Boolean, str: String}


def record_columns() -> list[Column[Any]]:
    """Return a column for each field of a flow record."""
    columns: list[Column[Any]] = []
    for field in entries(FlowRecord):
        python_type = plain_type(FlowRecord, field.name)
        column_type = Integer if field.name.endswith("_port") else _SQL_TYPES[python_type]
        default = (
            field.default if field.name == "source" else None
        )  # for rows of stores that lacked the column
        columns.append(Column(field.name, column_type, nullable=field.nullable, server_default=default))
    return columns


schema_versions = Table(
    "schema_versions",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("sluice", String, nullable=False),
)
"""A row for each version of the schema that the store has had, and the version of Sluice that brought it."""

policies = Table(
    "policies",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=True),
    Column("document", JSON, nullable=False),
    Column("author", String, nullable=False),
    Column("created_at", Float, nullable=False),
    sqlite_autoincrement=True,
)

applied = Table(
    "applied",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied_at", Float, nullable=False),
)
"""A row once the rules of every connected switch implement the policy's version."""

topologies = Table(
    "topologies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("document", JSON, nullable=False),
    Column("updated_at", Float, nullable=False),
)

networks = Table(
    "networks",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=True),
    Column("document", JSON),
    Column("author", String, nullable=False),
    Column("created_at", Float, nullable=False),
    sqlite_autoincrement=True,
)
"""The operator's descriptions of the network; the newest is in force. A null document withdraws the one before it."""

sightings = Table(
    "sightings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("document", JSON, nullable=False),
    Column("updated_at", Float, nullable=False),
)
"""One row: what the switches report of their ports, links and hosts (policy.sightings.Sightings)."""

switches = Table(
    "switches",
    metadata,
    Column("dpid", BigInteger, primary_key=True, autoincrement=False),
    Column("name", String, nullable=False),
    Column("connected", Boolean, nullable=False),
    Column("policy_version", Integer),
    Column("seen_at", Float, nullable=False),
    Column("seen_s", Float),
)

agents = Table(
    "agents",
    metadata,
    Column("name", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("status", JSON, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("seen_s", Float),
)

thresholds = Table(
    "thresholds",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("port", String, nullable=False),
    Column("policy_version", Integer, nullable=False),
    Column("thresholds_bytes", JSON, nullable=False),
    Column("flows", Integer, nullable=False),
    Index("thresholds_newest", "port", "id"),
    Index("thresholds_by_time", "at"),
)
"""A row for every change of a port's thresholds. `flows` is the number of completed flows they
were computed from."""

port_samples = Table(
    "port_samples",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("port", String, nullable=False),
    Column("queue_bytes", JSON, nullable=False),
    Column("queue_packets", JSON, nullable=False),
    Index("port_samples_newest", "port", "id"),
    Index("port_samples_by_time", "at"),
)
"""OpenFlow queue statistics: cumulative transmitted bytes and packets, as a list over the queues."""

flows = Table(
    "flows",
    metadata,
    Column("sequence", _Number, primary_key=True, autoincrement=True),
    *record_columns(),
    Column("received_at", Float, nullable=False),
    UniqueConstraint("id").ddl_if(dialect="sqlite"),
    Index("flows_by_source", "source", "received_at"),
    postgresql_partition_by="RANGE (sequence)",
)
"""A policy.records.FlowRecord, its place in the order of reception, and the time of reception.

On PostgreSQL it has partitions (store/partitions.py). A partitioned table cannot hold its ids unique, so flow_ids does.
"""

flow_ids = Table(
    "flow_ids",
    postgresql_only,
    Column("id", String(collation="C"), primary_key=True),
    Column("sequence", BigInteger, nullable=False),
)
"""The ids of the flow records, each with its record's place."""

detached_flows = Table(
    "detached_flows",
    postgresql_only,
    Column("before", BigInteger, primary_key=True, autoincrement=False),
    Column("next", BigInteger, nullable=False),
)
"""The partitions of flows that are being removed, by the number after their last one. The ids of the records before
`next` are already gone."""

events = Table(
    "events",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("document", JSON, nullable=False),
    Index("events_by_time", "at"),
)

AGED = (flows, port_samples, thresholds, events)
"""Tables that lose their old rows."""

store_clock = Table(
    "store_clock",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("age_s", Float, nullable=False),
    Column("boot_id", String, nullable=False),
    Column("boottime_s", Float, nullable=False),
    Column("wall_s", Float, nullable=False),
    Column("step_s", Float),
    Column("step_age_s", Float),
)
"""One row, the last reading of the store's own clock, and the last step of the wall clock: see store/ages.py."""

marks = Table(
    "marks",
    metadata,
    Column("age_s", Float, primary_key=True, autoincrement=False),
    *(Column(table.name, BigInteger, nullable=False) for table in AGED),
)
"""At this age of the store, these were the numbers of the newest rows."""

signs = Table(
    "signs",
    metadata,
    Column("name", String, primary_key=True),
    Column("seen_s", Float, nullable=False),
)
"""When a writer without a row of its own wrote last: "controller"."""

totals = Table(
    "totals",
    metadata,
    Column("metric", String, primary_key=True),
    Column("labels", String, primary_key=True),
    Column("part", String, primary_key=True),
    Column("value", Float, nullable=False),
)
"""The counts of all processes since the store was made: see store/totals.py."""

leases = Table(
    "leases",
    metadata,
    Column("name", String, primary_key=True),
    Column("holder", String, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("beat_at", Float, nullable=False),
)
"""Which process does a task that only one may do: see store/lease.py. `beat_at` is for human readers only."""

sanctions = Table(
    "sanctions",
    metadata,
    Column("port", String, primary_key=True),
    Column("host", String, nullable=False),
    Column("since", Float, nullable=False),
    Column("flow", String, nullable=False),
    Column("tag", Integer, nullable=False),
    Column("sent_bytes", BigInteger, nullable=False),
    Column("limit_bytes", BigInteger, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("offences", Integer, nullable=False),
    Column("term_s", Float, nullable=False),
    Column("rate_bps", BigInteger),
)
"""A row for each host that is demoted now: see store/observed.py."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", String, primary_key=True),
    Column("hash", String, nullable=False),
    Column("name", String, nullable=False),
    Column("role", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("revoked_at", Float),
    Index("tokens_by_name", "name"),
)
"""Access tokens, by the public part; of the secret only the hash: see store/access.py."""

audit = Table(
    "audit",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("at", Float, nullable=False),
    Column("by", String, nullable=False),
    Column("address", String, nullable=False),
    Column("before", Integer),
    Column("changed", JSON, nullable=False),
)
"""A row for each change of the policy through the API: see store/desired.py."""

acts = Table(
    "acts",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("at", Float, nullable=False),
    Column("by", String, nullable=False),
    Column("address", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("document", JSON, nullable=False),
)
"""A row for everything else that somebody does through the API: see store/desired.py."""

enrolments = Table(
    "enrolments",
    metadata,
    Column("hash", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("used_at", Float),
)
"""Tokens with which agents enrol, by the hash of their secret: see store/access.py."""

certificates = Table(
    "certificates",
    metadata,
    Column("serial", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("issued_at", Float, nullable=False),
    Column("ends_at", Float, nullable=False),
    Column("revoked_at", Float),
    Index("certificates_by_name", "name"),
)
"""The certificates of agents: see store/access.py."""
