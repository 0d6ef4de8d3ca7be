# SPDX-License-Identifier: Apache-2.0
"""The rules of a switch, and the changes that lead to them."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.controller import rules, tables
from sluice.controller.changes import diff, remap
from sluice.controller.pipeline import PriorityTag, map_rule, switch_rules
from sluice.controller.rules import FlowRule, MeterRule, SwitchRules
from sluice.controller.tables import Table, cookie
from sluice.policy import tags
from sluice.policy.network.description import OWN_PORT
from sluice.policy.network.graph import TRUNKS, Port, Topology, Unknown
from sluice.policy.network.graph import host as graph_host
from sluice.policy.network.graph import switch as graph_switch
from sluice.policy.network.vlans import VlanMode, Vlans
from sluice.policy.schema.desired import QueueMap
from sluice.policy.schemes.queues import mlfq_map
from tests.fakes.switch import ARP, IPV4, IPV6, FakeSwitch, Packet, Sent
from tests.kit.networks import leaf_spine, single

AT_10KB = mlfq_map([10_000], queues=2, untagged_queue=1)
AT_1MB = mlfq_map([1_000_000], queues=2, untagged_queue=1)


def rules_of(topology: Topology, switch: str, queue_map: QueueMap = AT_10KB) -> SwitchRules:
    return switch_rules(topology, switch, {port.number: queue_map for port in topology.ports_of[switch]})


def mac(topology: Topology, name: str) -> str:
    return topology.host_by_name[name].mac


def test_every_tag_uses_the_queue_of_its_port() -> None:
    """Each port has its own map. The unassigned values 62 and 63 count as untagged."""
    topology = single()
    maps = {1: AT_10KB, 2: AT_1MB, 3: (0,) * tags.TAG_COUNT}
    switch = FakeSwitch(switch_rules(topology, "s1", maps))
    for family, dscp in product((IPV4, IPV6), range(64)):
        for port, host in ((1, "h1"), (2, "h2"), (3, "h3")):
            sender = port % 3 + 1
            queue = maps[port][dscp if dscp < tags.TAG_COUNT else tags.UNTAGGED]
            packet = Packet(sender, mac(topology, host), family, dscp)
            assert switch.send(packet) == [Sent(port, queue, pcp=queue)]


def test_a_packet_without_dscp_uses_queue_0() -> None:
    topology = single()
    switch = FakeSwitch(rules_of(topology, "s1"))
    assert switch.send(Packet(1, mac(topology, "h2"), ARP)) == [Sent(2, 0, 0)]


def test_an_unknown_destination_is_dropped_and_counted() -> None:
    switch = FakeSwitch(rules_of(single(), "s1"))
    assert switch.send(Packet(1, "02:00:00:00:00:99")) == []
    assert switch.packets[(Table.FORWARD, 0, ())] == 1


@pytest.mark.parametrize("address", ["ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01"])
def test_broadcast_reaches_every_host_once_in_queue_0_and_never_goes_back(address: str) -> None:
    arrived = flooded(leaf_spine(leaves=3, spines=2), address)
    assert sorted(host for host, _ in arrived) == ["h2", "h3", "h4", "h5", "h6"]
    assert all(sent.queue == sent.pcp == 0 for _, sent in arrived)


def flooded(topology: Topology, address: str) -> list[tuple[str, Sent]]:
    """Send a packet from the first host, and return each host that it reaches, with how it was sent there."""
    switches = {s.name: FakeSwitch(rules_of(topology, s.name)) for s in topology.switches}
    arrived, at, hops = [], [("s1", 1)], 0
    while at:
        name, in_port = at.pop()
        hops += 1
        assert hops < 100, "the packet circles"
        for sent in switches[name].send(Packet(in_port, address, IPV6, dscp=3)):
            port = topology.port_by_id[f"{name}:{sent.port}"]
            if port.edge:
                arrived.append((port.peer, sent))
            else:
                at.append((port.peer, port.peer_port))
    return arrived


def test_equal_cost_paths_are_all_used_and_a_flow_keeps_its_own_while_its_tag_grows() -> None:
    topology = leaf_spine(spines=3)
    switch = FakeSwitch(rules_of(topology, "s1"))
    to = mac(topology, "h3")
    used = set()
    for flow in range(9):
        ports = {switch.send(Packet(1, to, dscp=tag, flow_hash=flow))[0].port for tag in range(1, 41)}
        assert len(ports) == 1
        used |= ports
    assert used == {3, 4, 5}


def test_every_pair_of_hosts_is_connected_on_shortest_paths() -> None:
    topology = leaf_spine(leaves=3, spines=2)
    switches = {s.name: FakeSwitch(rules_of(topology, s.name)) for s in topology.switches}
    for source in topology.hosts:
        for destination in topology.hosts:
            if source == destination:
                continue
            port, hops = topology.edge_port(source.name), 0
            name, in_port = port.switch, port.number
            while True:
                (sent,) = switches[name].send(Packet(in_port, destination.mac, dscp=1, flow_hash=7))
                port, hops = topology.port_by_id[f"{name}:{sent.port}"], hops + 1
                if port.edge:
                    break
                name, in_port = port.peer, port.peer_port
            assert port.peer == destination.name
            assert hops == len(topology.one_path(source.name, destination.name))


def test_a_fin_is_counted_by_port_tag_and_group_and_forwarded_all_the_same() -> None:
    topology = single()
    switch = FakeSwitch(rules_of(topology, "s1"))
    for in_port, family in product((1, 3), (IPV4, IPV6)):
        packet = Packet(in_port, mac(topology, "h2"), family, dscp=9, fin=True)
        assert switch.send(packet) == [Sent(2, AT_10KB[9], AT_10KB[9])]
    assert counted_ends(switch) == {cookie(Table.ENDS, 2, 9, in_port): 2 for in_port in (1, 3)}


def counted_ends(switch: FakeSwitch) -> dict[int, int]:
    """Return cookie → packets, of the rules that have counted a FIN."""
    return {
        rule.cookie: switch.packets[rule.key]
        for rule in switch.flows.values()
        if rule.table == Table.ENDS and switch.packets[rule.key]
    }


def test_a_fin_from_another_switch_is_of_the_group_of_trunks() -> None:
    """A switch without hosts has one group, and one with them has theirs, too."""
    topology = leaf_spine(spines=3)
    switch = FakeSwitch(rules_of(topology, "s1"))
    uplink = next(port for port in topology.ports_of["s1"] if not port.edge)
    switch.send(Packet(uplink.number, mac(topology, "h1"), dscp=9, fin=True))
    assert counted_ends(switch) == {cookie(Table.ENDS, 1, 9, TRUNKS): 1}
    spine = topology.switches[-1].name
    groups = {rule.cookie >> 8 & 0xFF for rule in rules_of(topology, spine).flows if rule.table == Table.ENDS}
    assert groups == {TRUNKS}


def test_a_fin_without_a_size_is_not_counted() -> None:
    topology = single()
    switch = FakeSwitch(rules_of(topology, "s1"))
    for dscp in (0, 41, 56, 57, 60, 61, 62, 63):
        assert len(switch.send(Packet(1, mac(topology, "h2"), dscp=dscp, fin=True))) == 1
    assert not counted_ends(switch)


def test_what_no_counter_can_name_is_background() -> None:
    topology = single()
    switch = FakeSwitch(rules_of(topology, "s1"))
    queue = AT_10KB[tags.BACKGROUND]
    assert queue != AT_10KB[1]
    unnamed = [(47, 0), (132, 0), (1, 0), (58, 0), (17, 3), (6, 3), (253, 3)]
    for family, dscp, (protocol, fragment) in product((IPV4, IPV6), (1, 9, 41, 56, 57, 61), unnamed):
        packet = Packet(1, mac(topology, "h2"), family, dscp, protocol=protocol, fragment=fragment)
        assert switch.send(packet) == [Sent(2, queue, queue)]
    for protocol, fragment in ((6, 0), (17, 0), (17, 1)):
        packet = Packet(1, mac(topology, "h2"), dscp=1, protocol=protocol, fragment=fragment)
        assert switch.send(packet) == [Sent(2, AT_10KB[1], AT_10KB[1])]


def test_untagged_packets_and_reserved_dscps_keep_their_queue_without_ports() -> None:
    topology = single()
    maps = {port.number: (1, *AT_10KB[1:48], 0, *AT_10KB[49:]) for port in topology.ports_of["s1"]}
    switch = FakeSwitch(switch_rules(topology, "s1", maps, reserved=(48,)))
    for dscp, queue in ((0, 1), (48, 0), (47, AT_10KB[tags.BACKGROUND])):
        packet = Packet(1, mac(topology, "h2"), dscp=dscp, protocol=89)
        assert switch.send(packet) == [Sent(2, queue, queue)]


def test_ingress_counts_by_edge_port_and_tag() -> None:
    topology = leaf_spine()
    switch = FakeSwitch(rules_of(topology, "s1"))
    switch.send(Packet(2, mac(topology, "h1"), dscp=5))
    switch.send(Packet(3, mac(topology, "h1"), dscp=5))
    hit = {
        rule.cookie
        for rule in switch.flows.values()
        if rule.table == Table.INGRESS and switch.packets[rule.key]
    }
    assert hit == {cookie(Table.INGRESS, 2, 5, 0), cookie(Table.INGRESS, 0, 5, 0)}


def test_cookies_are_unique_and_identify_what_is_counted() -> None:
    counting = [
        rule
        for rule in rules_of(leaf_spine(), "s1").flows
        if tables.cookie_code(rule.cookie) != tables.NO_CODE
    ]
    assert len({rule.cookie for rule in counting}) == len(counting) > 500
    for rule in counting:
        assert tables.cookie_table(rule.cookie) == rule.table
        assert rule.cookie & tables.COOKIE_TABLE_MASK == cookie(rule.table, 0, 0)
        if rule.table in (Table.ENDS, Table.MAP):
            match = dict(rule.match)["metadata"]
            assert isinstance(match, tuple)
            metadata = match[0]
            assert isinstance(metadata, int)
            group = rule.cookie >> 8 & 0xFF
            where = (tables.cookie_port(rule.cookie), tables.cookie_code(rule.cookie), group)
            assert where == (metadata & 0xFFFF, metadata >> 16 & 0xFF, metadata >> 24)


def test_a_rule_matches_only_fields_of_its_table() -> None:
    said = {spec.table: set(spec.match) for spec in tables.PIPELINE}
    networks = (leaf_spine(), existing(), layered())
    for rule in (rule for network in networks for rule in rules_of(network, "s1").flows):
        assert {name for name, _ in rule.match} <= said[Table(rule.table)]


# ── Networks that Sluice did not make ──────────────────────────────────────────────────────────


def existing(unknown: Unknown = Unknown.FLOOD) -> Topology:
    """Two racks whose switches learn hosts; the last port of s1 is an uplink."""
    network = leaf_spine(leaves=2, spines=1)
    uplink = Port("s1", 9, "", 0, 10**9, edge=True, uplink=True)
    return replace(network, ports=(*network.ports, uplink), learns=True, unknown=unknown)


STRANGER = "02:00:00:00:00:99"


def test_an_unknown_destination_is_flooded_in_the_queue_of_its_tag() -> None:
    switch = FakeSwitch(rules_of(existing(), "s1"))
    for dscp in (0, 1, 61):
        queue = AT_10KB[dscp]
        assert switch.send(Packet(1, STRANGER, dscp=dscp)) == [Sent(port, queue, queue) for port in (2, 3, 9)]


def test_an_unknown_destination_reaches_everyone_once_where_links_form_a_loop() -> None:
    loop = replace(leaf_spine(leaves=3, spines=2), learns=True, unknown=Unknown.FLOOD)
    assert loop.has_loop
    arrived = flooded(loop, STRANGER)
    assert sorted(host for host, _ in arrived) == ["h2", "h3", "h4", "h5", "h6"]
    assert {sent.queue for _, sent in arrived} == {AT_10KB[3]}


def test_an_unknown_destination_follows_the_switch_s_own_forwarding() -> None:
    switch = FakeSwitch(rules_of(existing(Unknown.NORMAL), "s1"))
    assert [sent.port for sent in switch.send(Packet(1, STRANGER))] == [tables.NORMAL]


def test_tags_from_an_uplink_mean_nothing() -> None:
    topology = existing()
    switch = FakeSwitch(rules_of(topology, "s1"))
    untagged = AT_10KB[tags.UNTAGGED]
    for dscp in (0, 1, 56):
        assert switch.send(Packet(9, mac(topology, "h1"), dscp=dscp)) == [Sent(1, untagged, untagged)]


def test_every_edge_port_learns_its_senders() -> None:
    edge = [rule for rule in rules_of(existing(), "s1").flows if rule.table == Table.EDGE]
    learned = {action for rule in edge for action in rule.actions if isinstance(action, rules.LearnHost)}
    assert learned == {rules.LearnHost(port, source) for port in (1, 2, 9) for source in rules.Source}


def test_lldp_goes_to_the_controller_and_nowhere_else() -> None:
    switch = FakeSwitch(rules_of(existing(), "s1"))
    assert [sent.port for sent in switch.send(Packet(1, "01:80:c2:00:00:0e", 0x88CC))] == [tables.CONTROLLER]


def test_the_kernel_datapath_needs_no_priority_tag_and_treats_frames_of_vlans_as_any_other() -> None:
    topology = existing()
    plain = tuple(replace(s, priority_tags=False) for s in topology.switches)
    switch = FakeSwitch(rules_of(replace(topology, switches=plain), "s1"))
    for vlan in (0, 10):
        packet = Packet(2, mac(topology, "h1"), dscp=61, vlan=vlan)
        assert switch.send(packet) == [Sent(1, AT_10KB[61], None)]


def test_where_the_policy_does_not_act_no_queue_is_chosen() -> None:
    topology = existing()
    switch = FakeSwitch(switch_rules(topology, "s1", {1: None, 2: AT_10KB}))
    assert switch.send(Packet(2, mac(topology, "h1"), dscp=61)) == [Sent(1, 0, None)]
    assert switch.send(Packet(1, mac(topology, "h2"), dscp=61)) == [Sent(2, 1, 1)]


def test_frames_of_the_operator_s_vlans_get_no_second_tag() -> None:
    """A frame of full length has no room for one. The port program chooses the queue."""
    topology = existing()
    switch = FakeSwitch(rules_of(topology, "s1"))
    for eth_type, vlan in product((IPV4, IPV6, ARP), (1, 4094)):
        for dscp in (0, 1, 61):
            packet = Packet(2, mac(topology, "h1"), eth_type, dscp, vlan=vlan)
            assert switch.send(packet) == [Sent(1, 0, None)]
        for address in ("ff:ff:ff:ff:ff:ff", "01:00:5e:01:02:03", STRANGER):
            sent = switch.send(Packet(2, address, eth_type, vlan=vlan))
            assert sent == [Sent(port, 0, None) for port in (1, 3, 9)]


# ── VLANs and bonds ────────────────────────────────────────────────────────────────────────────


ROUTER, ALL = "02:00:00:00:00:77", "ff:ff:ff:ff:ff:ff"
VLANS_AT: dict[int, Vlans | None] = {
    1: Vlans(VlanMode.ACCESS, 10),
    2: Vlans(VlanMode.ACCESS, 20),
    3: Vlans(VlanMode.NATIVE_UNTAGGED, 20, (10, 30)),
    4: Vlans(VlanMode.NATIVE_TAGGED, 20, (10, 30)),
    5: Vlans(VlanMode.TRUNK, 0, (10, 20)),
    6: None,
    7: Vlans(VlanMode.ACCESS, 10),
    8: Vlans(VlanMode.ACCESS, 10),
}
"""Of each port of the switch. Ports 7 and 8 are a bond."""
HOST_AT = {
    (1, 10, STRANGER),
    (2, 20, STRANGER),
    (5, 10, ROUTER),
    (5, 20, ROUTER),
    (7, 10, "02:00:00:00:00:07"),
}
"""Port, VLAN and address. Two hosts have one address, and a router has one in two VLANs."""


def layered(vlans: Mapping[int, Vlans | None] = VLANS_AT) -> Topology:
    """A switch whose ports have VLANs."""
    ports = tuple(
        Port("s1", n, f"s1:{n}", 0, 10**9, edge=True, vlans=of, bond="lag" if n > 6 else "")
        for n, of in vlans.items()
    )
    hosts = tuple(
        replace(graph_host(1), name=f"h{port}.{vlan}", mac=address, port=f"s1:{port}", vlan=vlan)
        for port, vlan, address in sorted(HOST_AT)
        if port in vlans
    )
    return Topology("layered", hosts, (graph_switch(1),), ports, unknown=Unknown.FLOOD, learns=True)


def left(switch: FakeSwitch, *packets: Packet) -> list[dict[int, int | None]]:
    """Send packets. Return, of each, port → VLAN of the header with which it leaves."""
    sent = [switch.send(packet) for packet in packets]
    assert all(len({one.port for one in copies}) == len(copies) for copies in sent), "one copy to a port"
    return [{one.port: one.vlan for one in copies} for copies in sent]


WATCHED = FakeSwitch(switch_rules(layered(), "s1", dict.fromkeys(VLANS_AT)))
ACTING = FakeSwitch(rules_of(layered(), "s1"))


def test_vlans__a_broadcast_reaches_its_vlan_alone_with_the_headers_of_each_port() -> None:
    ten, twenty = Packet(1, ALL), Packet(2, ALL)
    # Port 6 names no VLAN, so it carries all of them.
    assert left(WATCHED, ten, twenty) == [
        {3: 10, 4: 10, 5: 10, 6: 10, 7: None},
        {3: None, 4: 20, 5: 20, 6: 20},
    ]
    assert left(ACTING, ten, twenty) == [{3: 10, 4: 10, 5: 10, 6: 10, 7: 0}, {3: 0, 4: 20, 5: 20, 6: 20}]
    assert {(one.queue, one.pcp) for one in ACTING.send(ten)} == {(0, 0)}


def test_vlans__what_arrives_without_header_is_in_the_native_vlan() -> None:
    expected = {1: 10, 2: 20, 3: 20, 4: 20, 5: None, 6: 0}
    for port, vlan in expected.items():
        for bare in (None, 0):  # a header that only carries a priority is none
            found = left(WATCHED, Packet(port, ALL, vlan=bare))
            alike = {10: Packet(6, ALL, vlan=10), 20: Packet(6, ALL, vlan=20)}.get(vlan or 0)
            reached = set(left(WATCHED, alike)[0]) | {6} if alike else set()
            assert set(found[0]) == reached - {port}, (port, bare)


@pytest.mark.parametrize(
    ("port", "carries"),
    [(1, []), (2, []), (3, [10, 20, 30]), (4, [10, 20, 30]), (5, [10, 20]), (6, [10, 20, 30, 40])],
)
def test_vlans__a_port_drops_headers_of_others__as_an_access_port_does_its_own(
    port: int, carries: list[int]
) -> None:
    for vlan in (10, 20, 30, 40):
        admitted = WATCHED.packets.copy()
        WATCHED.send(Packet(port, STRANGER, vlan=vlan))
        beyond = {
            key for key, count in WATCHED.packets.items() if count > admitted[key] and key[0] > Table.EDGE
        }
        assert bool(beyond) == (vlan in carries)


def test_vlans__one_address_in_two_vlans_is_two_hosts() -> None:
    to_both = [Packet(6, STRANGER, vlan=vlan) for vlan in (10, 20)]
    assert left(WATCHED, *to_both) == [{1: None}, {2: None}]
    assert left(WATCHED, Packet(1, ROUTER), Packet(2, ROUTER)) == [{5: 10}, {5: 20}], "a router at a trunk"
    unknown = left(WATCHED, Packet(6, STRANGER, vlan=30), Packet(6, STRANGER, vlan=40), Packet(6, STRANGER))
    assert unknown == [{3: 30, 4: 30}, {}, {}], "it floods its VLAN; no other port has VLAN 40 or 0"


def test_vlans__the_dscp_chooses_the_queue_behind_a_header__and_the_header_names_it() -> None:
    for dscp in (1, 61):
        queue = AT_10KB[dscp]
        assert ACTING.send(Packet(1, ROUTER, dscp=dscp)) == [Sent(5, queue, pcp=queue)]
        assert ACTING.send(Packet(6, STRANGER, dscp=dscp, vlan=10)) == [Sent(1, queue, pcp=queue)]
    assert left(ACTING, Packet(1, ROUTER), Packet(6, STRANGER, vlan=10)) == [{5: 10}, {1: 0}]


def test_vlans__the_kernel_datapath_gets_no_header_for_the_queue() -> None:
    network = layered()
    switch = FakeSwitch(
        rules_of(replace(network, switches=(replace(network.switches[0], priority_tags=False),)), "s1")
    )
    assert left(switch, Packet(1, ROUTER, dscp=61), Packet(6, STRANGER, vlan=10)) == [{5: 10}, {1: None}]
    assert [one.queue for one in switch.send(Packet(1, ROUTER, dscp=61))] == [AT_10KB[61]]


def test_vlans__senders_are_learned_with_their_vlan_and_lldp_comes_before_all() -> None:
    edge = [rule for rule in WATCHED.flows.values() if rule.table == Table.EDGE]
    learned = {action for rule in edge for action in rule.actions if isinstance(action, rules.LearnHost)}
    assert {action.vlans for action in learned} == {True}
    for port in VLANS_AT:
        sent = WATCHED.send(Packet(port, "01:80:c2:00:00:0e", 0x88CC))
        assert [one.port for one in sent] == [tables.CONTROLLER]


def test_vlans__a_threshold_change_keeps_the_header() -> None:
    before, after = [AT_10KB], [AT_1MB]
    change = remap([5], before, after, priority_tags=PriorityTag.OWN)
    wanted = {rule.key: rule for rule in rules_of(layered(), "s1", AT_1MB).flows}
    changed = [change.rule(i) for i in range(len(change))]
    assert len(changed) == 16
    assert [wanted[rule.key] for rule in changed] == changed


@pytest.mark.parametrize("vlans", [True, False])
def test_bond__takes_one_copy_and_gets_nothing_back(vlans: bool) -> None:
    network = layered(VLANS_AT if vlans else dict.fromkeys(VLANS_AT))
    switch = FakeSwitch(rules_of(network, "s1"))
    to_bond = "02:00:00:00:00:07"
    for address in (ALL, "02:00:00:00:00:98", to_bond):
        for flow in range(4):
            (found,) = left(switch, Packet(1, address, flow_hash=flow))
            assert [port for port in found if port > 6] == [7 + flow % 2]
            for came in (7, 8):
                (found,) = left(switch, Packet(came, address, flow_hash=flow))
                assert not {7, 8} & found.keys()
    assert all(one.queue == 0 for one in switch.send(Packet(1, ALL, dscp=61, protocol=2)))


def test_bond__the_other_port_takes_over() -> None:
    switch = FakeSwitch(rules_of(layered(), "s1"))
    switch.down = {7}
    for flow in range(4):
        packets = [Packet(1, address, flow_hash=flow) for address in (ALL, "02:00:00:00:00:07")]
        assert [8 in found and 7 not in found for found in left(switch, *packets)] == [True, True]
    switch.down = {7, 8}
    assert left(switch, Packet(1, "02:00:00:00:00:07")) == [{}]


def test_the_switch_s_own_port_has_its_openflow_number_in_rules() -> None:
    network = existing()
    own = Port("s1", OWN_PORT, "s1:br0", 0, 10**9, edge=True, name="br0", managed=False)
    host = replace(network.hosts[0], name="br0", mac=STRANGER, port=own.id)
    network = replace(network, ports=(*network.ports, own), hosts=(*network.hosts, host))
    switch = FakeSwitch(rules_of(network, "s1"))
    assert [sent.port for sent in switch.send(Packet(1, STRANGER))] == [tables.LOCAL]
    assert [sent.port for sent in switch.send(Packet(tables.LOCAL, mac(network, "h1")))] == [1]


def test_diff__thresholds_modify_only_the_tags_between_them_and_keep_the_counters() -> None:
    topology = single()
    switch = FakeSwitch(rules_of(topology, "s1"))
    switch.send(Packet(1, topology.host_by_name["h2"].mac, dscp=12))
    before = switch.packets.copy()
    changes = diff(switch.rules, rules_of(topology, "s1", AT_1MB))
    assert len(changes.modify.flows) == len(changes) == 3 * 16
    switch.apply(changes)
    assert switch.packets == before


_STRANGERS = [
    FlowRule(0, 65535, (("in_port", 1),), (rules.Foreign("NORMAL"),)),
    FlowRule(Table.MAP, 10, (("metadata", (7 << 16 | 2, 0xFFFFFF)),), (rules.Foreign("?"),), cookie=3),
    FlowRule(9, 1, ()),
]


@pytest.mark.slow
@settings(max_examples=20)
@given(st.data())
def test_diff__leads_from_any_table_to_the_wanted_one(data: st.DataObject) -> None:
    """Rules are missing, changed or foreign, and groups are missing or wrong."""
    topology = leaf_spine()
    wanted = rules_of(topology, "s1", AT_1MB)
    old = rules_of(topology, "s1", data.draw(st.sampled_from([AT_10KB, AT_1MB])))
    drop = data.draw(st.sets(st.integers(0, len(old.flows) - 1), max_size=30))
    # A rule that leads into a group needs the group.
    groups = data.draw(st.sampled_from([old.groups, rules_of(leaf_spine(spines=3), "s1").groups]))
    held = FakeSwitch(
        SwitchRules(
            (*groups, rules.GroupRule(77, rules.GroupKind.ALL, ())),
            tuple(rule for i, rule in enumerate(old.flows) if i not in drop),
        )
    )
    for stranger in data.draw(st.lists(st.sampled_from(_STRANGERS), unique=True)):
        held.flows[stranger.key] = stranger
    held.apply(diff(held.rules, wanted))
    assert held.flows == FakeSwitch(wanted).flows
    assert held.groups == FakeSwitch(wanted).groups
    assert len(diff(held.rules, wanted)) == 0


def test_diff__corrects_the_meters_of_a_switch() -> None:
    right, wrong, foreign = MeterRule(1, 100, 160), MeterRule(2, 100, 160), MeterRule(9, 5, 5)
    wanted = SwitchRules(meters=(right, MeterRule(2, 200, 160), MeterRule(3, 1, 160)))
    change = diff(SwitchRules(meters=(right, wrong, foreign)), wanted)
    assert (change.add.meters, change.modify.meters, change.delete.meters) == (
        (MeterRule(3, 1, 160),),
        (MeterRule(2, 200, 160),),
        (foreign,),
    )
    assert (len(change), change.bundled) == (3, 0)


def test_remap__names_exactly_the_rules_that_differ() -> None:
    before = [mlfq_map([edge], queues=2, untagged_queue=1) for edge in (10_000, 20_000, 10_000)]
    after = [mlfq_map([edge], queues=2, untagged_queue=1) for edge in (10_000, 10_000, 20_000)]
    change = remap([4, 5, 9], before, after)
    assert {change.rule(i) for i in range(len(change))} == {
        map_rule(port, tag, queues[tag])
        for port, held, queues in zip([4, 5, 9], before, after, strict=True)
        for tag in range(tags.TAG_COUNT)
        if held[tag] != queues[tag]
    }
    assert len(remap([], [], [])) == 0
