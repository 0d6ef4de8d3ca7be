# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from sqlalchemy import Engine

from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import Policy
from sluice.store.desired import (
    Progress,
    current_policy,
    current_topology,
    current_version,
    mark_applied,
    policy_history,
    policy_version,
    progress,
    put_policy,
    put_topology,
)
from sluice.store.engine import open_store
from tests.kit.known import known
from tests.web.synthetic import leaf_spine

TCP = Policy.from_document({"scheme": "tcp"})
PIAS = Policy.from_document({"scheme": "pias"})


@pytest.mark.parametrize("url", ["nonsense", "mysql://x/y", "postgresql+nonsense://x/y"])
def test_open_store__a_bad_url_names_what_to_write(url: str) -> None:
    with pytest.raises(FieldError, match=r"postgresql\+psycopg"):
        open_store(url)


def test_put_policy__versions_count_up_and_none_is_used_twice(engine: Engine) -> None:
    assert current_version(engine) == 0
    assert current_policy(engine) is None
    assert [put_policy(engine, TCP, "a"), put_policy(engine, PIAS, "b")] == [1, 2]
    assert current_version(engine) == 2
    assert known(current_policy(engine)).policy == PIAS
    assert [v.author for v in policy_history(engine)] == ["b", "a"]


def test_mark_applied__the_first_time_stays(engine: Engine) -> None:
    put_policy(engine, TCP, "a")
    assert known(policy_version(engine, 1)).applied_at is None
    mark_applied(engine, 1)
    first = known(policy_version(engine, 1)).applied_at
    mark_applied(engine, 1)
    assert known(policy_version(engine, 1)).applied_at == first
    assert policy_version(engine, 2) is None


def test_put_topology__the_last_one_counts(engine: Engine) -> None:
    assert current_topology(engine) is None
    put_topology(engine, leaf_spine())
    put_topology(engine, leaf_spine())
    assert current_topology(engine) == leaf_spine()


def test_store__survives_being_opened_again(store_url: str) -> None:
    for version in (1, 2):
        engine = open_store(store_url)
        put_policy(engine, PIAS, "a")
        assert known(current_policy(engine)).version == version
        engine.dispose()


def test_progress__the_newest_version_and_when_it_was_applied(engine: Engine) -> None:
    assert progress(engine) == Progress(0, None)
    old = put_policy(engine, TCP, "a")
    mark_applied(engine, old)
    applied = known(policy_version(engine, old)).applied_at
    assert applied is not None
    assert progress(engine) == Progress(old, applied)
    new = put_policy(engine, PIAS, "b")
    assert progress(engine) == Progress(new, None)
