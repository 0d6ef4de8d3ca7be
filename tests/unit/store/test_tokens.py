# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import pytest
from sqlalchemy import Engine, text

from sluice.store import tokens
from sluice.store.engine import open_store
from sluice.store.tokens import TokenRefused, all_tokens, create_token, find_token, revoke_token


def test_a_token_is_found_until_it_ends(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = time.time() + 60
    made = create_token(engine, "alice", "read", ends)
    found = find_token(engine, made)
    assert found is not None
    assert (found.name, found.role, found.expires_at) == ("alice", "read", ends)
    monkeypatch.setattr(tokens.time, "time", lambda: ends + 1)  # type: ignore[attr-defined]
    assert find_token(engine, made) is None
    assert [one.state(ends + 1) for one in all_tokens(engine)] == ["ended"]


def test_a_revoked_token_ends_at_once_and_its_name_is_free(engine: Engine) -> None:
    first = create_token(engine, "alice", "change", time.time() + 60)
    with pytest.raises(TokenRefused, match="'alice' is in force"):
        create_token(engine, "alice", "read", time.time() + 60)
    assert revoke_token(engine, "alice")
    assert not revoke_token(engine, "alice")
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


@pytest.mark.parametrize(
    "change", ["", "x", "sluice-", "sluice--", "sluice-nosuch-secret", "other", "é", "sluice-\0-x"]
)
def test_another_text_is_no_token(engine: Engine, change: str) -> None:
    made = create_token(engine, "alice", "read", time.time() + 60)
    assert find_token(engine, change) is None
    assert find_token(engine, made[:-1] + ("A" if made[-1] != "A" else "B")) is None
    assert find_token(engine, made + "x") is None


def test_the_number_is_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 2)
    for name in ("a", "b"):
        create_token(engine, name, "read", time.time() + 60)
    with pytest.raises(TokenRefused, match="revoke one"):
        create_token(engine, "c", "read", time.time() + 60)


def test_a_store_of_an_earlier_version_gets_the_table(engine: Engine, store_url: str) -> None:
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE tokens"))
    engine.dispose()
    opened = open_store(store_url)
    made = create_token(opened, "alice", "read", time.time() + 60)
    assert find_token(opened, made) is not None
    opened.dispose()
