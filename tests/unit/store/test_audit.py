# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from sluice.policy.schema.desired import Policy
from sluice.store import audit
from sluice.store.audit import Author, policy_changes
from sluice.store.desired import put_policy
from sluice.store.engine import open_store

ALICE = Author("alice", "192.0.2.7")


def test_the_log_is_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_ROWS", 2)
    for scheme in ("tcp", "dctcp", "tcp"):
        put_policy(engine, Policy.from_document({"scheme": scheme}), ALICE)
    assert [(row.version, row.before) for row in policy_changes(engine)] == [(3, 2), (2, 1)]


def test_a_store_of_an_earlier_version_gets_the_log(engine: Engine, store_url: str) -> None:
    put_policy(engine, Policy.from_document({"scheme": "tcp"}), "api")
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE audit"))
    engine.dispose()
    opened = open_store(store_url)
    assert policy_changes(opened) == []
    put_policy(opened, Policy.from_document({"scheme": "dctcp"}), ALICE)
    (row,) = policy_changes(opened)
    assert (row.by, row.address, row.version, row.before) == ("alice", "192.0.2.7", 2, 1)
    assert "scheme" in row.changed
    opened.dispose()
