# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.fitting import (
    changed,
    chosen,
    frozen,
    is_list,
    not_overridden,
    overridden,
    unfrozen,
)
from sluice.policy.schemes import SCHEMES

DOCUMENTS: list[dict[str, Any]] = [
    *({"scheme": name} for name in SCHEMES),
    {"scheme": "pias", "queues": 3, "thresholds": ["10KB", "1MB"], "mark_at": "18KB", "untagged_queue": 0},
    {"scheme": "sluice", "mark_at": "18KB", "growth": 4, "shares": None},
    {"scheme": "mlfq-adaptive", "overrides": [{"ports": ["s1:2"], "freeze": True}], "acts_at": []},
    {"scheme": "pias", "queues": 4, "thresholds": ["1KB", "2KB", "3KB"]},
]


def made(document: dict[str, Any]) -> Policy:
    return Policy.from_document(document)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_chosen__makes_the_same_policy_again_and_is_short(document: dict[str, Any]) -> None:
    policy = made(document)
    assert made(chosen(policy)) == policy
    assert chosen(policy).keys() <= document.keys()


def after(before: Policy, settings: dict[str, Any]) -> Policy:
    return made(changed(before, settings))


def test_changed__keeps_the_rest() -> None:
    before = made({"scheme": "pias", "queues": 3, "thresholds": ["10KB", "1MB"], "buffer": "60KB"})
    assert after(before, {"mark_at": "18KB"}) == made({**before.to_document(), "mark_at": 18_000})


def test_changed__what_follows_from_a_key_follows_the_new_value() -> None:
    before = made({"scheme": "sluice", "mark_at": "18KB"})
    assert after(before, {"mark_at": "36KB"}) == made({"scheme": "sluice", "mark_at": "36KB"})
    fixed = made({"scheme": "sluice", "mark_at": "18KB", "buffer": "500KB"})
    assert after(fixed, {"mark_at": "20KB"}).buffer == 500_000


def test_changed__default_gives_a_key_its_default_again() -> None:
    before = made({"scheme": "dctcp", "mark_at": "18KB", "buffer": "60KB"})
    assert after(before, {"mark_at": "default"}) == made({"scheme": "dctcp", "buffer": "60KB"})


def test_changed__another_scheme_leaves_the_rest_to_the_network() -> None:
    before = made({"scheme": "pias", "queues": 2, "thresholds": ["10KB"], "mark_at": "18KB"})
    assert changed(before, {"scheme": "sluice", "growth": 4}) == {"scheme": "sluice", "growth": 4}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mark_att": 1}, r"mark_att: is not a key here \(did you mean mark_at\?\)"),
        ({"queues": 4}, "thresholds: must be a list of 3 values"),
        ({"mark_at": "x"}, "mark_at: .*not a quantity"),
        ({"scheme": "pais"}, r"scheme: .*did you mean pias"),
    ],
)
def test_changed__an_error_names_the_key(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError, match=message):
        changed(made({"scheme": "pias", "queues": 2, "thresholds": ["10KB"]}), settings)


def test_is_list__says_which_values_are_lists() -> None:
    policy = made({"scheme": "pias"})
    assert [key for key in ("thresholds", "acts_at", "mark_at", "x") if is_list(key, policy)] == [
        "thresholds",
        "acts_at",
    ]


def test_frozen_and_unfrozen_are_opposites() -> None:
    before = made({"scheme": "mlfq-adaptive", "overrides": [{"ports": ["s3:*"], "freeze": True}]})
    held = after(before, frozen(before, ["s1:2", "s1:3"]))
    assert held.is_frozen("s1:2")
    assert not held.is_frozen("s1:4")
    assert after(held, unfrozen(held, ["s1:3", "s1:2"])) == before


def test_frozen__comes_last_so_it_decides() -> None:
    fixed = {"ports": ["*"], "thresholds": ["20KB"]}
    before = made({"scheme": "mlfq-adaptive", "overrides": [fixed]})
    assert after(before, frozen(before, ["s1:2"])).is_frozen("s1:2")


def test_unfrozen__names_the_frozen_ports() -> None:
    policy = made({"scheme": "mlfq-adaptive", "overrides": [{"ports": ["s1:*"], "freeze": True}]})
    with pytest.raises(FieldError, match=r"s1:2: no override freezes s1:2 by this name; frozen are s1:\*"):
        unfrozen(policy, ["s1:2"])


FOUR_QUEUES = {"scheme": "mlfq-adaptive", "queues": 4}
FIXED = {"thresholds": [10_000, 20_000, 30_000]}


def with_overrides(*overrides: dict[str, Any]) -> Policy:
    return made({**FOUR_QUEUES, "overrides": list(overrides)})


def test_overridden__the_new_rule_replaces_the_port_s_own_and_decides() -> None:
    before = with_overrides({"ports": ["s1:2", "s1:3"], "freeze": True}, {"ports": ["s1:*"], **FIXED})
    now = after(before, overridden(before, "s1:2", {"freeze": True}))
    assert now.to_document()["overrides"] == [
        {"ports": ["s1:3"], "freeze": True},
        {"ports": ["s1:*"], **FIXED},
        {"ports": ["s1:2"], "freeze": True},
    ]
    assert now.is_frozen("s1:2")
    assert now.fixed_at("s1:3") == (10_000, 20_000, 30_000)
    assert after(now, overridden(now, "s1:2", FIXED)).fixed_at("s1:2") == (10_000, 20_000, 30_000)


def test_not_overridden__ends_the_rule_of_the_port_alone() -> None:
    before = with_overrides({"ports": ["s1:2", "s1:3"], "freeze": True}, {"ports": ["s1:2"], **FIXED})
    now = after(before, not_overridden(before, "s1:2"))
    assert now.override_of("s1:2") is None
    assert now.is_frozen("s1:3")


def test_not_overridden__names_the_override_that_includes_the_port() -> None:
    with pytest.raises(FieldError, match=r"names s1:2 itself; s1:\* includes it"):
        not_overridden(with_overrides({"ports": ["s1:*"], "freeze": True}), "s1:2")
    with pytest.raises(FieldError, match=r"names s1:2 itself$"):
        not_overridden(with_overrides(), "s1:2")
