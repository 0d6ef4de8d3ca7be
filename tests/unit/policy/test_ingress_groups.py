# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sluice.policy.network.graph import HOST_GROUPS, TRUNKS, ingress_groups
from tests.unit.controller.networks import leaf_spine


def test_hosts_are_spread_over_their_groups_and_all_trunks_are_one() -> None:
    ports = leaf_spine(leaves=2, spines=3, hosts_per_leaf=12).ports_of["s1"]
    groups = ingress_groups(reversed(ports))
    of_hosts = Counter(groups[port.number] for port in ports if port.edge)
    assert {groups[port.number] for port in ports if not port.edge} == {TRUNKS}
    assert TRUNKS not in of_hosts
    assert len(of_hosts) == HOST_GROUPS
    assert max(of_hosts.values()) - min(of_hosts.values()) == 1


def test_an_uplink_to_others_is_a_trunk() -> None:
    ports = leaf_spine(hosts_per_leaf=2).ports_of["s1"]
    outside = replace(ports[0], uplink=True)
    assert outside.edge
    assert ingress_groups([outside, *ports[1:]])[outside.number] == TRUNKS
