# SPDX-License-Identifier: Apache-2.0
"""Desired state: the versioned policy, the topology, and whether the controller has applied them. And the audit log.

The audit log says who changed the policy, from where, when, and which of its keys. A row is written in the transaction
of its change, so there is no change without a row. Another table says who did anything else through the API. The newest
MOST_ROWS of each stay.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, Select, delete, desc, func, insert, select

from sluice.policy.errors import FieldError
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.store.connections import first, insert_for, one_after_another, put_row, reading, scalar
from sluice.store.schema import acts, applied, audit, events, policies, topologies

MOST_ROWS = 10_000


@dataclass(frozen=True)
class Author:
    """Who changes something."""

    name: str
    """The name of the token."""
    address: str
    """Where the request came from."""


@dataclass(frozen=True)
class PolicyChange:
    """One row of the log."""

    version: int
    at: float = field(metadata={"help": "epoch seconds"})
    by: str = field(metadata={"help": "name of the token; `owner` is the token of the web process's start"})
    address: str = field(metadata={"help": "where the request came from"})
    before: int | None = field(metadata={"help": "the version that this one replaced"})
    """None for the first."""
    changed: tuple[str, ...] = field(metadata={"help": "the keys of the policy whose values differ"})
    """In alphabetical order."""


def policy_changes(engine: Engine, limit: int = 100) -> list[PolicyChange]:
    """Return the last changes, newest first."""
    with reading(engine) as connection:
        rows = connection.execute(select(audit).order_by(audit.c.version.desc()).limit(limit))
        return [
            PolicyChange(row.version, row.at, row.by, row.address, row.before, tuple(row.changed))
            for row in rows
        ]


@dataclass(frozen=True)
class Act:
    """What somebody did through the API, other than a change of the policy."""

    at: float = field(metadata={"help": "epoch seconds"})
    by: str = field(metadata={"help": "name of the token; `owner` is the token of the web process's start"})
    address: str = field(metadata={"help": "where the request came from"})
    kind: str = field(metadata={"help": "kind of the event, for example `network-described`"})
    document: dict[str, Any] = field(metadata={"help": "to what, for example the network's version"})


def add_act(engine: Engine, kind: str, author: Author, /, **document: Any) -> None:
    """Note what somebody did: an event for operators, and a row of the audit log, in one transaction."""
    now = time.time()
    with engine.begin() as connection:
        one_after_another(connection, events.name)
        row = {"at": now, "kind": kind}
        connection.execute(insert(events).values(**row, document={**document, "by": author.name}))
        noted = {**row, "by": author.name, "address": author.address, "document": document}
        number = connection.execute(insert(acts).values(**noted).returning(acts.c.id)).scalar_one()
        connection.execute(delete(acts).where(acts.c.id <= number - MOST_ROWS))


def last_acts(engine: Engine, limit: int = 100) -> list[Act]:
    """Return the last of them, newest first."""
    with reading(engine) as connection:
        rows = connection.execute(select(acts).order_by(acts.c.id.desc()).limit(limit))
        return [Act(row.at, row.by, row.address, row.kind, row.document) for row in rows]


@dataclass(frozen=True)
class PolicyVersion:
    version: int
    policy: Policy
    author: str
    created_at: float
    applied_at: float | None
    """When every connected switch had applied this version; None while pending."""


class Superseded(Exception):
    """Another policy was stored since the version that the change was made from."""


def put_policy(engine: Engine, policy: Policy, author: str | Author, replaces: int | None = None) -> int:
    """Store this as the desired policy and return its version. The change of an Author is in the audit log, too.

    `replaces`: the version from which the change was made, 0 if there was none. Raises Superseded if it is not the
    newest any more.
    """
    name = author if isinstance(author, str) else author.name
    with engine.begin() as connection:
        one_after_another(connection, policies.name)
        document, now = policy.to_document(), time.time()
        row = {"document": document, "author": name, "created_at": now}
        statement = policies.insert().values(**row).returning(policies.c.version)
        version = int(connection.execute(statement).scalar_one())
        earlier = select(policies).where(policies.c.version < version).order_by(desc(policies.c.version))
        old = connection.execute(earlier.limit(1)).first()
        if replaces not in (None, old.version if old else 0):
            raise Superseded  # the transaction ends without the new row
        if isinstance(author, Author):
            before, replaced = (old.version, old.document) if old else (None, {})
            changed = sorted(key for key in {*document, *replaced} if document.get(key) != replaced.get(key))
            row = {"version": version, "at": now, "by": name, "address": author.address}
            connection.execute(insert(audit).values(**row, before=before, changed=changed))
            connection.execute(delete(audit).where(audit.c.version <= version - MOST_ROWS))
    return version


def current_policy(engine: Engine) -> PolicyVersion | None:
    """Return the newest policy, or None before the first. Raises FieldError if a later version of Sluice wrote it."""
    row = first(engine, _versions().order_by(desc(policies.c.version)).limit(1))
    return _policy_version(row) if row else None


def policy_in_force(engine: Engine) -> PolicyVersion | None:
    """Return the newest policy that this version of Sluice accepts, as the controller does; None if there is none."""
    try:
        return current_policy(engine)
    except FieldError:
        return next(iter(policy_history(engine)), None)


def policy_history(engine: Engine, limit: int = 100) -> list[PolicyVersion]:
    """Return the policies that this version of Sluice accepts among the last ones, newest first."""
    query = _versions().order_by(desc(policies.c.version)).limit(limit)
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    versions = []
    for row in rows:
        with suppress(FieldError):
            versions.append(_policy_version(row))
    return versions


def policy_version(engine: Engine, version: int) -> PolicyVersion | None:
    """Return the policy of that version, or None."""
    row = first(engine, _versions().where(policies.c.version == version))
    return _policy_version(row) if row else None


def current_version(engine: Engine) -> int:
    """Return the version of the newest policy, 0 before the first. Cheap enough for several calls a second."""
    return scalar(engine, select(func.max(policies.c.version))) or 0


@dataclass(frozen=True)
class Progress:
    """How far the newest policy is, without its document."""

    version: int
    """0 before the first policy."""
    applied_at: float | None
    """When every connected switch had applied this version; None while pending."""


def progress(engine: Engine) -> Progress:
    """Return the newest version and when it was applied. Cheap enough for several calls a second."""
    query = (
        select(policies.c.version, applied.c.applied_at)
        .join(applied, applied.c.version == policies.c.version, isouter=True)
        .order_by(desc(policies.c.version))
        .limit(1)
    )
    row = first(engine, query)
    return Progress(row.version, row.applied_at) if row else Progress(0, None)


def _versions() -> Select[Any]:
    return select(policies, applied.c.applied_at).join(
        applied, applied.c.version == policies.c.version, isouter=True
    )


def _policy_version(row: Any) -> PolicyVersion:
    policy = Policy.from_document(row.document)
    return PolicyVersion(row.version, policy, row.author, row.created_at, row.applied_at)


def mark_applied(engine: Engine, version: int) -> None:
    """Record that every connected switch has applied this version. A repeated call changes nothing."""
    with engine.begin() as connection:
        connection.execute(
            insert_for(connection, applied)
            .values(version=version, applied_at=time.time())
            .on_conflict_do_nothing()
        )


def put_topology(engine: Engine, topology: Topology, *, replaces_made: bool = True) -> None:
    """Store this as the network that the controller forwards over.

    Without `replaces_made`, a network that a testbed or the simulator has made stays.
    """
    values = {"id": 1, "document": topology.to_document(), "updated_at": time.time()}
    with engine.begin() as connection:
        one_after_another(connection, topologies.name)
        stored = connection.execute(select(topologies.c.document)).scalar()
        if stored and not (replaces_made or Topology.from_document(stored).learns):
            return
        put_row(connection, topologies, values)


def current_topology(engine: Engine) -> Topology | None:
    document = scalar(engine, select(topologies.c.document))
    return Topology.from_document(document) if document else None
