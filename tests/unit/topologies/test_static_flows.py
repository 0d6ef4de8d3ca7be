# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice import topologies
from sluice.policy.tags import TAG_COUNT
from sluice.topologies import commands


def test_flows__a_rule_writes_the_queue_twice_and_keeps_the_tag() -> None:
    graph = topologies.build("single", hosts=2)
    lines = commands.flows(graph, "s1", lambda tag: tag % 8)
    expected = (
        "table=1,metadata=2,ipv6,ip_dscp=13,"
        "actions=set_queue:5,push_vlan:0x8100,set_field:5->vlan_pcp,output:2"
    )
    assert expected in lines
    assert not any("ip_dscp" in line.partition("actions=")[2] for line in lines)


def test_flows__every_port_tag_and_family_once() -> None:
    graph = topologies.build("leaf-spine", leaves=2, spines=2, hosts_per_leaf=1)
    lines = [line for line in commands.flows(graph, "s1") if line.startswith("table=1")]
    assert len(lines) == len(set(lines)) == 3 * TAG_COUNT * 2
    assert len(commands.install(graph)) == len(graph.switches)
