# SPDX-License-Identifier: Apache-2.0
"""Enrolment tokens, of which only the hash is stored, and the certificates that were issued for them."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from sqlalchemy import Delete, Engine, Update, delete, insert, select, update

from sluice.store.connections import reading
from sluice.store.schema import certificates, enrolments


@dataclass(frozen=True)
class Certificate:
    """A certificate of an agent. Times are epoch seconds."""

    serial: str
    """Hexadecimal."""
    name: str
    kind: str
    issued_at: float
    ends_at: float
    revoked_at: float | None = None


@dataclass(frozen=True)
class Enrolment:
    """The right to enrol once."""

    name: str
    kind: str
    expires_at: float
    used_at: float | None


def put_enrolment(engine: Engine, secret: str, name: str, kind: str, expires_at: float) -> None:
    """Store the right to enrol. Earlier tokens of this name that were not used end."""
    with engine.begin() as connection:
        connection.execute(_unused_of(name))
        connection.execute(
            insert(enrolments).values(hash=_hash(secret), name=name, kind=kind, expires_at=expires_at)
        )


def find_enrolment(engine: Engine, secret: str) -> Enrolment | None:
    """Return what the secret allows, or allowed; None if no token has this secret."""
    columns = (enrolments.c.name, enrolments.c.kind, enrolments.c.expires_at, enrolments.c.used_at)
    with reading(engine) as connection:
        row = connection.execute(select(*columns).where(enrolments.c.hash == _hash(secret))).first()
    return Enrolment(**row._mapping) if row else None


def use_enrolment(engine: Engine, secret: str, certificate: Certificate) -> bool:
    """Use up the token and store its certificate, in one transaction. False if another request was faster.

    Earlier certificates of this name are revoked: a name has one holder.
    """
    now = time.time()
    with engine.begin() as connection:
        used = connection.execute(
            update(enrolments)
            .where(
                enrolments.c.hash == _hash(secret),
                enrolments.c.used_at.is_(None),
                enrolments.c.expires_at > now,
            )
            .values(used_at=now)
        )
        if used.rowcount != 1:
            return False
        connection.execute(_revoke(certificate.name, now))
        connection.execute(insert(certificates).values(**vars(certificate)))
    return True


def put_certificate(engine: Engine, certificate: Certificate) -> None:
    """Store a renewed certificate, and forget those of this name that have ended."""
    ended = (certificates.c.name == certificate.name, certificates.c.ends_at < time.time())
    with engine.begin() as connection:
        connection.execute(delete(certificates).where(*ended))
        connection.execute(insert(certificates).values(**vars(certificate)))


def find_certificate(engine: Engine, serial: str) -> Certificate | None:
    with reading(engine) as connection:
        row = connection.execute(select(certificates).where(certificates.c.serial == serial)).first()
    return Certificate(**row._mapping) if row else None


def revoke(engine: Engine, name: str) -> int:
    """Revoke the certificates of this name and end its unused tokens; return how many of both."""
    with engine.begin() as connection:
        tokens = connection.execute(_unused_of(name)).rowcount
        return tokens + connection.execute(_revoke(name, time.time())).rowcount


def newest_certificates(engine: Engine) -> list[Certificate]:
    """Return the certificate of each name that was issued last, by name."""
    with reading(engine) as connection:
        rows = connection.execute(select(certificates).order_by(certificates.c.issued_at))
        newest = {row.name: Certificate(**row._mapping) for row in rows}
    return [newest[name] for name in sorted(newest)]


def _hash(secret: str) -> str:
    """A plain hash is enough, because the secret is random and long."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _unused_of(name: str) -> Delete:
    return delete(enrolments).where(enrolments.c.name == name, enrolments.c.used_at.is_(None))


def _revoke(name: str, now: float) -> Update:
    current = (certificates.c.name == name, certificates.c.revoked_at.is_(None))
    return update(certificates).where(*current, certificates.c.ends_at > now).values(revoked_at=now)
