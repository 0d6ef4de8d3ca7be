# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

from sqlalchemy import Engine, select

from sluice.store.certificates import (
    Certificate,
    find_certificate,
    find_enrolment,
    newest_certificates,
    put_certificate,
    put_enrolment,
    revoke,
    use_enrolment,
)
from sluice.store.schema import enrolments

SECRET = "the-secret"


def certificate(serial: str, name: str = "web1", ends_in_s: float = 100.0) -> Certificate:
    now = time.time()
    return Certificate(serial, name, "host", now, now + ends_in_s)


def enrol(engine: Engine, serial: str, secret: str = SECRET) -> bool:
    put_enrolment(engine, secret, "web1", "host", time.time() + 60)
    return use_enrolment(engine, secret, certificate(serial))


def test_use_enrolment__works_once_and_the_secret_is_not_stored(engine: Engine) -> None:
    assert enrol(engine, "a1")
    assert not use_enrolment(engine, SECRET, certificate("a2"))
    assert find_certificate(engine, "a2") is None
    found = find_enrolment(engine, SECRET)
    assert found is not None
    assert found.used_at is not None
    with engine.connect() as connection:
        assert SECRET not in str(connection.execute(select(enrolments)).all())


def test_use_enrolment__expired(engine: Engine) -> None:
    put_enrolment(engine, SECRET, "web1", "host", time.time() - 1)
    assert not use_enrolment(engine, SECRET, certificate("a1"))


def test_use_enrolment__a_name_has_one_holder(engine: Engine) -> None:
    assert enrol(engine, "a1")
    assert enrol(engine, "a2", "another")
    first, second = find_certificate(engine, "a1"), find_certificate(engine, "a2")
    assert first is not None
    assert first.revoked_at is not None
    assert second is not None
    assert second.revoked_at is None


def test_put_certificate__keeps_the_present_one_and_forgets_ended_ones(engine: Engine) -> None:
    put_certificate(engine, certificate("old", ends_in_s=-5))
    put_certificate(engine, certificate("other", name="web2", ends_in_s=-5))
    put_certificate(engine, certificate("b1"))
    put_certificate(engine, certificate("b2"))
    assert find_certificate(engine, "old") is None
    assert find_certificate(engine, "other") is not None
    assert find_certificate(engine, "b1") is not None
    assert [one.serial for one in newest_certificates(engine)] == ["b2", "other"]


def test_revoke__ends_certificates_and_unused_tokens_of_the_name(engine: Engine) -> None:
    enrol(engine, "a1")
    put_certificate(engine, certificate("a2"))
    put_certificate(engine, certificate("c1", name="web2"))
    put_enrolment(engine, "unused", "web1", "host", time.time() + 60)
    assert revoke(engine, "web1") == 3
    assert revoke(engine, "web1") == 0
    assert find_enrolment(engine, "unused") is None
    untouched = find_certificate(engine, "c1")
    assert untouched is not None
    assert untouched.revoked_at is None
