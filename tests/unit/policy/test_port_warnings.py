# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import Policy, check_ports, port_warnings

PORTS = ("s1:1", "s1:2", "s2:1")


def policy(**document: object) -> Policy:
    return Policy.from_document({"scheme": "mlfq-adaptive", **document})


def test_names_of_ports_that_exist_need_no_warning() -> None:
    overrides = [{"ports": ["*", "s1:*", "s2:1"], "freeze": True}]
    assert port_warnings(policy(overrides=overrides, acts_at=["s1:1", "s2:*"]), PORTS) == []


def test_a_name_without_port_is_named_with_its_key() -> None:
    overrides = [{"ports": ["s1:1"], "freeze": True}, {"ports": ["s1:1", "s3:*"], "freeze": True}]
    (override, acts_at) = port_warnings(policy(overrides=overrides, acts_at=["s1:7"]), PORTS)
    assert override.startswith('overrides[1].ports: the network has no port "s3:*"')
    assert "its ports are s1:1, s1:2, s2:1. " in override
    assert acts_at.startswith('acts_at: the network has no port "s1:7" (did you mean s1:')


def test_a_long_list_of_ports_is_cut() -> None:
    (warning,) = port_warnings(policy(acts_at=["x:1"]), [f"s1:{number}" for number in range(20)])
    assert "s1:7 and 12 more" in warning


def test_before_a_network_is_known_there_are_no_warnings() -> None:
    assert port_warnings(policy(acts_at=["x:1"]), ()) == []


def test_check_ports__a_name_that_the_policy_before_has_may_stay() -> None:
    before = policy(overrides=[{"ports": ["s3:1"], "freeze": True}])
    check_ports(policy(acts_at=["s3:1", "s1:1"]), PORTS, before)
    with pytest.raises(FieldError, match=r'^acts_at: the network has no port "s3:2"'):
        check_ports(policy(acts_at=["s3:1", "s3:2"]), PORTS, before)
    with pytest.raises(FieldError, match="s3:1"):
        check_ports(policy(acts_at=["s3:1"]), PORTS)
