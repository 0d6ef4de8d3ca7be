# SPDX-License-Identifier: Apache-2.0
"""Who may do what: tokens, certificates, sanctions, and the list of what was done."""

import time
from dataclasses import replace

import pytest
from sqlalchemy import Engine, select, text

from sluice.policy.schema.desired import Policy
from sluice.store import access, desired, observed
from sluice.store.access import Certificate, create_token, find_certificate, find_token, put_enrolment
from sluice.store.desired import Author, add_act, last_acts, policy_changes, put_policy
from sluice.store.observed import Sanction, all_sanctions, put_sanction
from sluice.store.schema import enrolments
from tests.kit.heartbeats import host_heartbeat


def test_a_token_is_found_until_it_ends(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = time.time() + 60
    made = create_token(engine, "alice", "read", ends)
    found = find_token(engine, made)
    assert found is not None
    assert (found.name, found.role, found.expires_at) == ("alice", "read", ends)
    monkeypatch.setattr(access.time, "time", lambda: ends + 1)  # type: ignore[attr-defined]
    assert find_token(engine, made) is None
    assert [one.state(ends + 1) for one in access.all_tokens(engine)] == ["ended"]


def test_a_revoked_token_ends_at_once_and_its_name_is_free(engine: Engine) -> None:
    first = create_token(engine, "alice", "change", time.time() + 60)
    with pytest.raises(access.TokenRefused, match="'alice' is in force"):
        create_token(engine, "alice", "read", time.time() + 60)
    assert access.revoke_token(engine, "alice")
    assert not access.revoke_token(engine, "alice")
    second = create_token(engine, "alice", "read", time.time() + 60)
    assert find_token(engine, first) is None
    assert find_token(engine, second) is not None


def test_the_store_keeps_no_secret(engine: Engine) -> None:
    made = create_token(engine, "alice", "read", time.time() + 60)
    secret = made.split("-", 2)[2]
    assert len(secret) >= 43  # 256 bits
    with engine.connect() as connection:
        row = connection.execute(text("SELECT * FROM tokens")).one()
    assert secret not in str(row)


def test_another_text_is_no_token(engine: Engine) -> None:
    made = create_token(engine, "alice", "read", time.time() + 60)
    others = ["", "x", "sluice-", "sluice--", "sluice-nosuch-secret", "other", "é", "sluice-\0-x"]
    for other in (*others, made[:-1] + ("A" if made[-1] != "A" else "B"), made + "x"):
        assert find_token(engine, other) is None


def test_the_number_is_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_TOKENS", 2)
    for name in ("a", "b"):
        create_token(engine, name, "read", time.time() + 60)
    with pytest.raises(access.TokenRefused, match="revoke one"):
        create_token(engine, "c", "read", time.time() + 60)


ALICE = Author("alice", "192.0.2.7")


def test_the_log_is_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desired, "MOST_ROWS", 2)
    for scheme in ("tcp", "dctcp", "tcp"):
        put_policy(engine, Policy.from_document({"scheme": scheme}), ALICE)
    assert [(row.version, row.before) for row in policy_changes(engine)] == [(3, 2), (2, 1)]
    for name in "abc":
        add_act(engine, "token-made", ALICE, name=name)
    assert [act.document for act in last_acts(engine)] == [{"name": "c"}, {"name": "b"}]


SECRET = "the-secret"


def certificate(serial: str, name: str = "web1", ends_in_s: float = 100.0) -> Certificate:
    now = time.time()
    return Certificate(serial, name, "host", now, now + ends_in_s)


def enrol(engine: Engine, serial: str, secret: str = SECRET) -> bool:
    put_enrolment(engine, secret, "web1", "host", time.time() + 60)
    return access.use_enrolment(engine, secret, certificate(serial))


def test_use_enrolment__works_once_and_the_secret_is_not_stored(engine: Engine) -> None:
    assert enrol(engine, "a1")
    assert not access.use_enrolment(engine, SECRET, certificate("a2"))
    assert find_certificate(engine, "a2") is None
    found = access.find_enrolment(engine, SECRET)
    assert found is not None
    assert found.used_at is not None
    with engine.connect() as connection:
        assert SECRET not in str(connection.execute(select(enrolments)).all())


def test_use_enrolment__expired(engine: Engine) -> None:
    put_enrolment(engine, SECRET, "web1", "host", time.time() - 1)
    assert not access.use_enrolment(engine, SECRET, certificate("a1"))


def test_use_enrolment__a_name_has_one_holder(engine: Engine) -> None:
    assert enrol(engine, "a1")
    assert enrol(engine, "a2", "another")
    first, second = find_certificate(engine, "a1"), find_certificate(engine, "a2")
    assert first is not None
    assert first.revoked_at is not None
    assert second is not None
    assert second.revoked_at is None


def test_put_certificate__keeps_the_present_one_and_forgets_ended_ones(engine: Engine) -> None:
    access.put_certificate(engine, certificate("old", ends_in_s=-5))
    access.put_certificate(engine, certificate("other", name="web2", ends_in_s=-5))
    access.put_certificate(engine, certificate("b1"))
    access.put_certificate(engine, certificate("b2"))
    assert find_certificate(engine, "old") is None
    assert find_certificate(engine, "other") is not None
    assert find_certificate(engine, "b1") is not None
    assert [one.serial for one in access.newest_certificates(engine)] == ["b2", "other"]


def test_revoke__ends_certificates_and_unused_tokens_of_the_name(engine: Engine) -> None:
    enrol(engine, "a1")
    access.put_certificate(engine, certificate("a2"))
    access.put_certificate(engine, certificate("c1", name="web2"))
    put_enrolment(engine, "unused", "web1", "host", time.time() + 60)
    assert access.revoke(engine, "web1") == 3
    assert access.revoke(engine, "web1") == 0
    assert access.find_enrolment(engine, "unused") is None
    untouched = find_certificate(engine, "c1")
    assert untouched is not None
    assert untouched.revoked_at is None


FIRST = Sanction("s1:2", "h2", "TCP a > b", 1, 2_000_000, 500_000, 0.95, 1, 5.0, since=100.0)
SECOND = replace(FIRST, port="s2:1", host="h9", since=101.0)


def test_put__one_row_a_port(engine: Engine) -> None:
    put_sanction(engine, SECOND)
    put_sanction(engine, FIRST)
    put_sanction(engine, replace(FIRST, offences=2))
    assert all_sanctions(engine) == [replace(FIRST, offences=2), SECOND]


def test_lift_all_but__ports_that_are_demoted_stay(engine: Engine) -> None:
    put_sanction(engine, FIRST)
    put_sanction(engine, SECOND)
    observed.lift_all_but(engine, ["s2:1"])
    assert all_sanctions(engine) == [SECOND]
    observed.lift_all_but(engine, [])
    assert all_sanctions(engine) == []


def test_an_earlier_runs_are_forgotten_with_its_processes(engine: Engine) -> None:
    put_sanction(engine, FIRST)
    for connected in (True, False):
        observed.put_switch(engine, 2**63 - 1, "s1", connected=connected, policy_version=1)
    assert [(row["dpid"], row["connected"]) for row in observed.all_switches(engine)] == [(2**63 - 1, False)]
    observed.put_agent(engine, "h1", host_heartbeat())
    observed.forget_processes(engine)
    assert not [*all_sanctions(engine), *observed.all_switches(engine), *observed.all_agents(engine)]
