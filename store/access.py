# SPDX-License-Identifier: Apache-2.0
"""Who may use the web process: access tokens of people and programs, and enrolments and certificates of agents.

A token is "sluice-ID-SECRET". The store keeps only the hash of each. The public ID finds the row, so the secret is
compared in constant time. The secret has 256 random bits; a single SHA-256 is enough, because no one can guess so much.
A slow hash protects passwords, which people choose. Of a token for an enrolment, too, only the hash is stored.
"""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Delete, Engine, Update, delete, func, insert, select, update

from sluice.store.connections import first, one_after_another, reading
from sluice.store.schema import certificates, enrolments, tokens

PREFIX = "sluice"
SECRET_BYTES = 32
MOST_TOKENS = 200
"""The most tokens in force."""
KEEP_ENDED_S = 30 * 86_400.0
"""How long a token that has ended stays in the list."""


@dataclass(frozen=True)
class AccessToken:
    """A token without its secret. Times are epoch seconds."""

    name: str
    role: str
    created_at: float
    expires_at: float
    revoked_at: float | None = None

    def state(self, now: float) -> str:
        """Return "valid", "ended" or "revoked"."""
        if self.revoked_at is not None:
            return "revoked"
        return "valid" if self.expires_at > now else "ended"


class TokenRefused(Exception):
    """The token cannot be made; the text says why."""


def create_token(engine: Engine, name: str, role: str, expires_at: float) -> str:
    """Store a new token and return its text, which is nowhere else. Raises TokenRefused."""
    key, secret, now = secrets.token_hex(8), secrets.token_urlsafe(SECRET_BYTES), time.time()
    with engine.begin() as connection:
        one_after_another(connection, tokens.name)
        connection.execute(delete(tokens).where(tokens.c.expires_at < now - KEEP_ENDED_S))
        in_force = select(func.count()).select_from(tokens).where(*_in_force(now))
        if connection.execute(in_force.where(tokens.c.name == name)).scalar_one():
            raise TokenRefused(f"a token named {name!r} is in force; revoke it or choose another name")
        if connection.execute(in_force).scalar_one() >= MOST_TOKENS:
            raise TokenRefused(f"{MOST_TOKENS} tokens are in force, which is the most; revoke one first")
        row = {"id": key, "hash": _hash(secret), "name": name, "role": role, "created_at": now}
        connection.execute(insert(tokens).values(**row, expires_at=expires_at))
    return f"{PREFIX}-{key}-{secret}"


def find_token(engine: Engine, text: str) -> AccessToken | None:
    """Return the token in force with this text; None if there is none."""
    prefix, _, key_and_secret = text.partition("-")
    key, _, secret = key_and_secret.partition("-")
    if prefix != PREFIX or not re.fullmatch("[0-9a-f]{16}", key):
        return None
    row = first(engine, select(tokens).where(tokens.c.id == key))
    if row is None or not hmac.compare_digest(row.hash, _hash(secret)):
        return None
    token = _token(row)
    return token if token.state(time.time()) == "valid" else None


def all_tokens(engine: Engine) -> list[AccessToken]:
    """Return the tokens in force and those that ended lately, by name, the newest of a name first."""
    with reading(engine) as connection:
        rows = connection.execute(select(tokens).order_by(tokens.c.name, tokens.c.created_at.desc()))
        return [_token(row) for row in rows]


def revoke_token(engine: Engine, name: str) -> bool:
    """End the token of this name now; return whether there was one in force."""
    now = time.time()
    with engine.begin() as connection:
        ended = update(tokens).where(*_in_force(now), tokens.c.name == name).values(revoked_at=now)
        return connection.execute(ended).rowcount > 0


def _in_force(now: float) -> tuple[Any, ...]:
    return tokens.c.revoked_at.is_(None), tokens.c.expires_at > now


def _hash(secret: str) -> str:
    """A plain hash is enough, because the secret is random and long."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(row: Any) -> AccessToken:
    return AccessToken(row.name, row.role, row.created_at, row.expires_at, row.revoked_at)


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
    row = first(engine, select(*columns).where(enrolments.c.hash == _hash(secret)))
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
    row = first(engine, select(certificates).where(certificates.c.serial == serial))
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


def _unused_of(name: str) -> Delete:
    return delete(enrolments).where(enrolments.c.name == name, enrolments.c.used_at.is_(None))


def _revoke(name: str, now: float) -> Update:
    current = (certificates.c.name == name, certificates.c.revoked_at.is_(None))
    return update(certificates).where(*current, certificates.c.ends_at > now).values(revoked_at=now)
