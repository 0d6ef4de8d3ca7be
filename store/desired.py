# SPDX-License-Identifier: Apache-2.0
"""Desired state: the versioned policy, the topology, and whether the controller has applied them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Select, desc, func, select

from policy.desired import Policy
from policy.errors import FieldError
from policy.graph import Topology
from store.audit import Author, note_change
from store.dialect import insert_for
from store.schema import applied, policies, topologies


@dataclass(frozen=True)
class PolicyVersion:
    version: int
    policy: Policy
    author: str
    created_at: float
    applied_at: float | None
    """When every connected switch had applied this version; None while pending."""


def put_policy(engine: Engine, policy: Policy, author: str | Author) -> int:
    """Store this as the desired policy and return its version. The change of an Author is in the audit log, too."""
    name = author if isinstance(author, str) else author.name
    with engine.begin() as connection:
        row = {"document": policy.to_document(), "author": name, "created_at": time.time()}
        statement = policies.insert().values(**row).returning(policies.c.version)
        version = int(connection.execute(statement).scalar_one())
        if isinstance(author, Author):
            _note(connection, version, row, author)
    return version


def _note(connection: Connection, version: int, row: Mapping[str, Any], author: Author) -> None:
    before = select(policies).where(policies.c.version < version).order_by(desc(policies.c.version))
    old = connection.execute(before.limit(1)).first()
    known = (old.version, old.document) if old else None
    note_change(connection, row["created_at"], author, (version, row["document"]), known)


def current_policy(engine: Engine) -> PolicyVersion | None:
    """Return the newest policy, or None before the first. Raises FieldError if a later version of Sluice wrote it."""
    with engine.connect() as connection:
        row = connection.execute(_versions().order_by(desc(policies.c.version)).limit(1)).first()
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
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    return [accepted for row in rows if (accepted := _accepted(row)) is not None]


def _accepted(row: Any) -> PolicyVersion | None:
    try:
        return _policy_version(row)
    except FieldError:
        return None


def policy_version(engine: Engine, version: int) -> PolicyVersion | None:
    """Return the policy of that version, or None."""
    query = _versions().where(policies.c.version == version)
    with engine.connect() as connection:
        row = connection.execute(query).first()
    return _policy_version(row) if row else None


def current_version(engine: Engine) -> int:
    """Return the version of the newest policy, 0 before the first. Cheap enough for several calls a second."""
    with engine.connect() as connection:
        return connection.execute(select(func.max(policies.c.version))).scalar() or 0


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


def put_topology(engine: Engine, topology: Topology) -> None:
    """Store this as the network that the controller forwards over."""
    values = {"id": 1, "document": topology.to_document(), "updated_at": time.time()}
    with engine.begin() as connection:
        statement = insert_for(connection, topologies).values(**values)
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))


def current_topology(engine: Engine) -> Topology | None:
    with engine.connect() as connection:
        document = connection.execute(select(topologies.c.document)).scalar()
    return Topology.from_document(document) if document else None
