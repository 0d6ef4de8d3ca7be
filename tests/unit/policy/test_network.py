# SPDX-License-Identifier: Apache-2.0
"""The description of a network, what the switches report, and the graph that follows from both."""

import json
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.network import description, graph
from sluice.policy.network.graph import Topology
from sluice.policy.network.realised import Realisation, realise
from sluice.policy.network.vlans import Vlans
from sluice.policy.schema.desired import Policy, check_ports
from tests.kit.networks import leaf_spine

GBIT = 10**9
WEB, DB, VM = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:99"

TWO_RACKS: dict[str, Any] = {
    "name": "racks",
    "switch": [
        {
            "name": "rack1",
            "datapath_id": "00000000000000a1",
            "port": [
                {"name": "web1", "rate": "1Gbit", "host": "web1"},
                {"name": "up1", "rate": "10Gbit", "to": "rack2:up2"},
                {"name": "gw", "uplink": True},
            ],
        },
        {
            "name": "rack2",
            "datapath_id": "a2",
            "port": [{"name": "db1", "host": "db1"}, {"name": "up2", "to": "rack1:up1"}, {"name": "vms"}],
        },
    ],
    "host": [
        {"name": "web1", "mac": WEB, "ipv4": "192.0.2.11"},
        {"name": "db1", "mac": DB, "ipv6": "2001:db8::12"},
    ],
}


def two_racks() -> dict[str, Any]:
    return deepcopy(TWO_RACKS)


def seen(**changes: Any) -> description.Sightings:
    """What the two switches report when all is as described."""
    values: dict[str, Any] = {
        "switches": {
            0xA1: description.SeenSwitch(0xA1, "br-1", ports("web1", "up1", "gw")),
            0xA2: description.SeenSwitch(0xA2, "br-2", ports("db1", "up2", "vms", "spare")),
        },
        "links": {(0xA1, 2): (0xA2, 2), (0xA2, 2): (0xA1, 2)},
    }
    return description.Sightings(**(values | changes))


def ports(*names: str, rate_bps: int = 10 * GBIT, down: str = "") -> tuple[description.SeenPort, ...]:
    return tuple(description.SeenPort(i, name, rate_bps, name != down) for i, name in enumerate(names, 1))


def seen_rack1(**ports_of_rack1: Any) -> description.Sightings:
    """The same with other states of the first switch's ports."""
    rack1 = description.SeenSwitch(0xA1, "br-1", ports("web1", "up1", "gw", **ports_of_rack1))
    return seen(switches={**seen().switches, 0xA1: rack1})


def realised(sightings: description.Sightings, document: dict[str, Any] | None = None) -> Realisation:
    return realise(description.read_network(document or two_racks()), sightings)


def errors(realisation: Realisation) -> dict[str, str]:
    return {f.kind: str(f) for f in realisation.findings if f.is_error}


# ── The document ───────────────────────────────────────────────────────────────────────────────────────────────────


def port_of(document: dict[str, Any], switch: int, port: int) -> dict[str, Any]:
    found: dict[str, Any] = document["switch"][switch]["port"][port]
    return found


WRONG: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "host without table": (
        lambda d: port_of(d, 0, 0).update(host="web9"),
        'switch[0].port[0].host: "web9" has no [[host]] table',
    ),
    "host at two ports": (
        lambda d: port_of(d, 1, 2).update(host="web1"),
        'switch[1].port[2].host: "web1" is already at switch[0].port[0]',
    ),
    "two switches with one id": (
        lambda d: d["switch"][1].update(datapath_id="0xA1"),
        "switch[1].datapath_id: 00000000000000a1 is already in switch[0]",
    ),
    "one port twice": (
        lambda d: port_of(d, 0, 2).update(name="up1"),
        'switch[0].port[2].name: "up1" is already in switch[0].port[1]',
    ),
    "link to nowhere": (
        lambda d: port_of(d, 0, 1).update(to="rack2:up9"),
        'switch[0].port[1].to: "rack2:up9" is no port of this description',
    ),
    "link of one side": (
        lambda d: port_of(d, 1, 1).pop("to"),
        'switch[0].port[1].to: the port "rack2:up2" must have to = "rack1:up1"',
    ),
    "link and host": (
        lambda d: port_of(d, 0, 1).update(host="web1"),
        "switch[0].port[1]: needs one of host, to and uplink, and not more",
    ),
    "unknown key": (lambda d: d["switch"][0].update(dpid="1"), "switch[0].dpid: is not a key here"),
    "bad rate": (lambda d: port_of(d, 0, 0).update(rate="fast"), "switch[0].port[0].rate: "),
    "id 0": (lambda d: d["switch"][0].update(datapath_id="0"), "switch[0].datapath_id: must not be 0"),
    "no id": (
        lambda d: d["switch"][0].pop("datapath_id"),
        'switch[0].datapath_id: is missing; give it, or forwarding = "leave"',
    ),
    "an id of a switch that forwards": (
        lambda d: d["switch"][0].update(forwarding="leave"),
        'switch[0].datapath_id: is for OpenFlow; omit it with forwarding = "leave"',
    ),
    "a port agent of a switch for whose ports rules choose": (
        lambda d: d["switch"][0].update(agent="hypervisor1"),
        'switch[0].agent: is for forwarding = "leave"; omit it here',
    ),
    "a port without a rate at such a switch": (
        lambda d: leave(d, 1),
        'switch[1].port[0].rate: is missing; it is needed with forwarding = "leave"',
    ),
    "a native VLAN of a plain trunk": (
        lambda d: port_of(d, 0, 0).update(tag=10, vlan_mode="trunk"),
        'switch[0].port[0].tag: is for a port with a native VLAN; omit it with vlan_mode = "trunk"',
    ),
    "no native VLAN": (
        lambda d: port_of(d, 0, 0).update(vlan_mode="native-untagged"),
        'switch[0].port[0].tag: is missing; it is needed with vlan_mode = "native-untagged"',
    ),
    "trunks of an access port": (
        lambda d: port_of(d, 0, 0).update(tag=10, trunks=[20]),
        "switch[0].port[0].trunks: an access port has none",
    ),
    "a VLAN beyond 12 bits": (lambda d: port_of(d, 0, 0).update(tag=4096), "switch[0].port[0].tag: "),
    "an unknown mode": (
        lambda d: port_of(d, 0, 0).update(vlan_mode="tunnel"),
        "switch[0].port[0].vlan_mode: ",
    ),
    "VLANs where no rule forwards": (
        lambda d: leave_with(d, tag=10),
        'switch[1].port[0].tag: is for rules of Sluice; omit it with forwarding = "leave"',
    ),
    "a bond of one port": (
        lambda d: port_of(d, 1, 2).update(bond="lag"),
        'switch[1].port[2].bond: "lag" has no other port; a bond needs two',
    ),
    "a bond between switches": (
        lambda d: port_of(d, 0, 1).update(bond="lag"),
        "switch[0].port[1].bond: parallel links between two switches need no bond",
    ),
    "a bond of different ports": (
        lambda d: d["switch"][1]["port"].extend(
            [{"name": "b1", "bond": "lag"}, {"name": "b2", "bond": "lag", "tag": 1}]
        ),
        'switch[1].port[4]: must have the VLANs and the uplink of the others of the bond "lag"',
    ),
}


def leave_with(document: dict[str, Any], **keys: Any) -> None:
    """Let a switch forward by itself, with these keys at its first port."""
    leave(document, 1)
    for port in document["switch"][1]["port"]:
        port["rate"] = "10Gbit"
    port_of(document, 1, 0).update(keys)


def leave(document: dict[str, Any], index: int) -> None:
    """Let a switch forward by itself."""
    del document["switch"][index]["datapath_id"]
    document["switch"][index]["forwarding"] = "leave"


@pytest.mark.parametrize("wrong", WRONG)
def test_read_network__names_the_key_as_written(wrong: str) -> None:
    document = two_racks()
    change, message = WRONG[wrong]
    change(document)
    with pytest.raises(FieldError) as caught:
        description.read_network(document)
    assert str(caught.value).startswith(message)


# ── The graph ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_realise__all_as_described() -> None:
    network = realised(seen())
    topology = network.topology
    assert not errors(network)
    assert [(p.id, p.name, p.peer, p.edge, p.uplink) for p in topology.ports] == [
        ("rack1:1", "web1", "web1", True, False),
        ("rack1:2", "up1", "rack2", False, False),
        ("rack1:3", "gw", "rack1:gw", True, True),
        ("rack2:1", "db1", "db1", True, False),
        ("rack2:2", "up2", "rack1", False, False),
        ("rack2:3", "vms", "rack2:vms", True, False),
        ("rack2:4", "spare", "rack2:spare", True, False),
    ]
    assert [p.id for p in topology.ports if not p.managed] == ["rack2:4"], "no one described it"
    assert [p.rate_bps for p in topology.ports[:3]] == [GBIT, 10 * GBIT, 10 * GBIT]
    assert [p.id for p in topology.next_ports("rack1", "db1")] == ["rack1:2"]
    assert topology.unknown == "flood"
    assert type(topology).from_document(json.loads(json.dumps(topology.to_document()))) == topology


def test_realise__a_learned_host_is_behind_its_port() -> None:
    topology = realised(seen(hosts={VM: description.SeenHost(VM, (0xA2, 3), "192.0.2.99")})).topology
    vm = topology.hosts[-1]
    assert (vm.name, vm.ipv4, topology.edge_port(vm.name).id) == ("mac-525400000099", "192.0.2.99", "rack2:3")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, None),
        ({"tag": 10}, Vlans("access", 10)),
        ({"trunks": [10, 20]}, Vlans("trunk", 0, (10, 20))),
        ({"tag": 10, "vlan_mode": "native-untagged"}, Vlans("native-untagged", 10)),
        ({"tag": 10, "trunks": [20], "vlan_mode": "native-tagged"}, Vlans("native-tagged", 10, (20,))),
    ],
)
def test_vlans__mean_the_same_in_a_description_and_in_the_database(
    columns: dict[str, Any], expected: Vlans | None
) -> None:
    document = two_racks()
    port_of(document, 0, 0).update(columns)
    by_description = realised(seen(), document).topology
    held = description.read_network(document).switch[0].port[0]
    by_database = realised(seen(columns={"rack1:web1": held})).topology
    assert by_description == by_database
    assert by_description.port_by_id["rack1:1"].vlans == expected
    assert by_description.vlans == (tuple(sorted({0, *expected.named})) if expected else ())
    document_of = json.loads(json.dumps(by_description.to_document()))
    assert Topology.from_document(document_of) == by_description


def test_vlans__the_description_goes_before_the_database_and_both_are_named() -> None:
    document = two_racks()
    port_of(document, 0, 0)["tag"] = 10
    other = description.DeclaredPort("web1", tag=20)
    network = realised(seen(columns={"rack1:web1": other}), document)
    assert network.topology.port_by_id["rack1:1"].vlans == Vlans("access", 10)
    assert errors(network)["vlans"].startswith(
        "rack1:web1: the description and Open vSwitch name different VLANs"
    )


def test_vlans__one_address_is_a_host_in_each_of_its_vlans() -> None:
    """The first VLAN has the plain name. A described host that was not seen yet is in the native VLAN of its port."""
    document = two_racks()
    port_of(document, 1, 2)["trunks"] = [10, 20]
    port_of(document, 0, 0)["tag"] = 10
    places = [description.SeenHost(VM, (0xA2, 3), vlan=vlan) for vlan in (20, 10, 0)]
    topology = realised(seen(hosts={place.key: place for place in places}), document).topology
    assert [(h.name, h.mac, h.vlan) for h in topology.hosts] == [
        ("web1", WEB, 10),
        ("db1", DB, 0),
        ("mac-525400000099", VM, 10),
        ("mac-525400000099.20", VM, 20),
    ], "the trunk carries no VLAN 0"
    assert [h.name for h in description.discovered(seen(hosts={p.key: p for p in places})).host] == [
        "mac-525400000099"
    ]


def test_vlans__and_bonds_forbid_the_switch_s_own_forwarding_of_unknown_addresses() -> None:
    for key, value in (("tag", 10), ("bond", "lag")):
        document = two_racks() | {"unknown": "normal"}
        document["switch"][1]["port"] += [{"name": "spare"}]
        for port in document["switch"][1]["port"][2:]:
            port[key] = value
        network = realised(seen(), document)
        assert "is only for a network without VLANs and bonds" in errors(network)["vlans"]
        assert network.topology.unknown == "flood"


def test_bond__a_host_is_at_its_first_port_whichever_it_sends_by() -> None:
    document = two_racks()
    document["switch"][1]["port"] += [{"name": "spare", "bond": "lag"}]
    port_of(document, 1, 2)["bond"] = "lag"
    first, second = (
        realised(seen(hosts={VM: description.SeenHost(VM, (0xA2, port))}), document).topology
        for port in (3, 4)
    )
    assert first == second
    assert [p.id for p in first.next_ports("rack2", "mac-525400000099")] == ["rack2:3", "rack2:4"]
    assert [p.id for p in first.next_ports("rack1", "mac-525400000099")] == ["rack1:2"]


def test_realise__a_switch_that_is_not_there_yet_has_no_ports() -> None:
    network = realised(
        seen(switches={0xA1: description.SeenSwitch(0xA1, "br-1", ports("web1", "up1", "gw"))}, links={})
    )
    assert {p.switch for p in network.topology.ports} == {"rack1"}
    assert [host.name for host in network.topology.hosts] == ["web1"]
    assert "no switch has connected with 00000000000000a2" in errors(network)["switch-missing"]


def test_realise__a_switch_that_forwards_by_itself_is_as_described() -> None:
    """No controller sees it. It stays the same switch when the description is read again."""
    document = two_racks()
    leave(document, 1)
    for port in document["switch"][1]["port"]:
        port["rate"] = "10Gbit"
    rack1 = {0xA1: description.SeenSwitch(0xA1, "br-1", ports("web1", "up1", "gw"))}
    network = realised(seen(switches=rack1, links={}), document)
    assert not errors(network)
    (left,) = (switch for switch in network.topology.switches if not switch.forwards)
    assert (left.name, left.priority_tags, left.port_agent) == ("rack2", False, "rack2")
    document["switch"][1]["agent"] = "hypervisor1"
    *_, left = realised(seen(switches=rack1, links={}), document).topology.switches
    assert left.port_agent == "hypervisor1"
    assert left.dpid == description.read_network(document).switch[1].dpid < 2**63
    assert [(p.id, p.peer) for p in network.topology.ports if p.switch == "rack2"] == [
        ("rack2:1", "db1"),
        ("rack2:2", "rack1"),
        ("rack2:3", "rack2:vms"),
    ]


def test_realise__a_host_behind_a_port_with_a_wrong_name_is_still_reached() -> None:
    document = two_racks()
    port_of(document, 0, 0)["name"] = "wbe1"
    network = realised(seen(hosts={WEB: description.SeenHost(WEB, (0xA1, 1))}), document)
    assert errors(network)["port-missing"] == (
        "rack1:wbe1: the switch has no port of this name; its ports: gw, up1, web1"
    )
    topology = network.topology
    assert topology.edge_port("web1").name == "web1"
    assert [p.id for p in topology.next_ports("rack2", "web1")] == ["rack2:2"]
    assert 1 in topology.spanning_tree_ports()["rack1"]


def test_realise__a_switch_of_others_keeps_its_other_ports() -> None:
    """With first_table, rules of others forward to the ports that the description lacks."""
    document = two_racks()
    document["switch"][1]["first_table"] = 20
    assert "rack2:4" not in realised(seen(), document).topology.port_by_id


def test_realise__an_uplink_that_is_down() -> None:
    network = realised(seen_rack1(down="gw"))
    assert errors(network)["uplink-down"].startswith("rack1:gw: the uplink is down; check its cable")
    assert network.topology.next_ports("rack1", "db1"), "everything else works"


def test_realise__a_second_cable_joins_the_links_if_both_ends_show_it() -> None:
    cable = {(0xA1, 3): (0xA2, 3), (0xA2, 3): (0xA1, 3)}
    network = realised(seen(links={**seen().links, **cable}))
    assert 'Sluice uses the link; write to = "rack1:gw", or unplug it' in errors(network)["link-undescribed"]
    assert [p.id for p in network.topology.next_ports("rack1", "db1")] == ["rack1:2", "rack1:3"]
    tree = network.topology.spanning_tree_ports()
    assert {2, 3} & set(tree["rack1"]) == {2}, "broadcasts do not circle"


@pytest.mark.parametrize(
    "cable", [{(0xA1, 3): (0xA2, 3)}, {(0xA1, 3): (0xA1, 1), (0xA1, 1): (0xA1, 3)}], ids=["one way", "itself"]
)
def test_realise__a_cable_that_is_no_link_is_not_used(
    cable: dict[description.PortAt, description.PortAt],
) -> None:
    network = realised(seen(links={**seen().links, **cable}))
    assert "Sluice does not use the port" in errors(network)["loop"]
    assert "rack1:3" not in network.topology.port_by_id


def test_realise__the_forwarding_of_the_switches_is_not_used_over_a_loop() -> None:
    document = two_racks() | {"unknown": "normal"}
    assert realised(seen(), document).topology.unknown == "normal"
    cable = {(0xA1, 3): (0xA2, 3), (0xA2, 3): (0xA1, 3)}
    network = realised(seen(links={**seen().links, **cable}), document)
    assert network.topology.unknown == "flood"
    assert 'write unknown = "flood"' in errors(network)["loop"]


def test_realise__two_switches_with_one_id() -> None:
    network = realised(seen(duplicates={0xA1: "192.0.2.9"}))
    assert errors(network)["duplicate-datapath-id"].startswith(
        "rack1: two switches have the datapath id 00000000000000a1. Sluice refuses the one at 192.0.2.9"
    )


# ── Names of hosts ─────────────────────────────────────────────────────────────────────────────────────────────────


def agent_at(mac: str, name: str, number: int = 3) -> description.Sightings:
    return seen(hosts={mac: description.SeenHost(mac, (0xA2, number), agent=name)})


def test_a_learned_host_has_the_name_of_its_agent() -> None:
    network = realised(agent_at(VM, "vm7"))
    assert network.topology.host_by_name["vm7"].mac == VM
    assert not errors(network)
    assert [host.name for host in description.discovered(agent_at(VM, "vm7")).host] == ["vm7"]


def test_a_name_that_discovery_has_written_gives_way_to_the_agents() -> None:
    document = two_racks()
    document["host"].append({"name": "mac-525400000099", "mac": VM})
    port_of(document, 1, 2)["host"] = "mac-525400000099"
    topology = realised(agent_at(VM, "vm7"), document).topology
    assert topology.edge_port("vm7").peer == "vm7"
    assert "mac-525400000099" not in topology.host_by_name


def test_an_agent_with_another_name_than_the_description_gives_its_host() -> None:
    network = realised(agent_at(DB, "database", 1))
    assert errors(network)["agent-name"].startswith(
        "db1: its agent has the name database; give both one name"
    )
    assert "db1" in network.topology.host_by_name


def test_an_agent_with_the_name_of_another_host() -> None:
    network = realised(agent_at(VM, "web1"))
    assert errors(network)["agent-name"] == (
        f"web1: the description says {WEB}, but the agent of this name reports {VM}"
    )
    assert network.topology.host_by_name["web1"].mac == WEB
    assert "mac-525400000099" in network.topology.host_by_name


def test_realise__an_unplugged_link_carries_nothing() -> None:
    network = realised(seen_rack1(down="up1"))
    assert errors(network) == {"link-down": "rack1:up1: the link to rack2:up2 is down"}
    assert network.topology.next_ports("rack1", "db1") == ()
    assert network.topology.next_ports("rack2", "web1") == ()


def test_realise__a_link_that_leads_elsewhere() -> None:
    network = realised(seen(links={(0xA1, 2): (0xA2, 3), (0xA2, 3): (0xA1, 2)}))
    assert "rack1:up1: leads to rack2:vms, but the description says rack2:up2" in errors(network)["miswired"]
    assert "rack2:vms: leads to the switch port rack1:up1, not to hosts" in errors(network)["loop"]
    assert "rack2:3" not in network.topology.port_by_id
    assert network.topology.next_ports("rack1", "db1") == ()


def test_realise__a_host_at_another_port_than_described() -> None:
    network = realised(seen(hosts={WEB: description.SeenHost(WEB, (0xA2, 3))}))
    assert "its packets come from rack2:vms" in errors(network)["host-elsewhere"]
    assert network.topology.edge_port("web1").id == "rack2:3"


def test_realise__a_rate_above_the_ports_speed() -> None:
    network = realised(seen_rack1(rate_bps=GBIT))
    assert "the description says 10 Gb/s, but the port runs at 1 Gb/s" in errors(network)["rate"]


def test_realise__notes_what_no_one_described() -> None:
    strange = {**seen().switches, 0xB7: description.SeenSwitch(0xB7, "br-7", ())}
    network = realised(seen(switches=strange))
    notes = {f.kind: str(f) for f in network.findings if not f.is_error}
    assert notes["port-unused"].startswith("rack2:spare: the description lacks this port")
    assert notes["switch-unknown"].startswith('00000000000000b7: a switch ("br-7") is connected')


# ── Discovery ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_discovered__links_and_ports_with_learned_hosts() -> None:
    sightings = seen(hosts={VM: description.SeenHost(VM, (0xA2, 3))})
    network = description.discovered(sightings)
    assert [(s.name, s.dpid) for s in network.switch] == [("br-1", 0xA1), ("br-2", 0xA2)]
    assert [(p.name, p.to) for p in network.switch[0].port] == [
        ("web1", None),
        ("up1", "br-2:up2"),
        ("gw", None),
    ]
    topology = realise(network, sightings).topology
    assert [p.id for p in topology.next_ports("br-1", "mac-525400000099")] == ["br-1:2"]


def test_discovered__reads_back_as_it_is_written() -> None:
    network = description.discovered(seen(hosts={VM: description.SeenHost(VM, (0xA2, 3), "192.0.2.99")}))
    written = description.as_written(network)
    assert written["switch"][0]["port"][1] == {"name": "up1", "rate": "10Gbit", "to": "br-2:up2"}
    assert written["host"] == [{"name": "mac-525400000099", "mac": VM, "ipv4": "192.0.2.99"}]
    assert description.read_network(json.loads(json.dumps(written))) == network


def test_discovered__bridges_with_one_name_stay_apart() -> None:
    twins = {i: description.SeenSwitch(i, "br0", ports("eth1")) for i in (1, 2)}
    assert [s.name for s in description.discovered(description.Sightings(twins)).switch] == ["br0", "br0-2"]


def test_discovered__a_link_seen_from_one_side_only_is_left_out() -> None:
    network = description.discovered(seen(links={(0xA1, 2): (0xA2, 2)}))
    assert "up1" not in [p.name for p in network.switch[0].port]


def test_sightings__round_trip_through_json() -> None:
    sightings = seen(
        hosts={VM: description.SeenHost(VM, (0xA2, 3), "192.0.2.99", agent="vm7")},
        duplicates={7: "192.0.2.9"},
        columns={"rack1:web1": description.DeclaredPort("web1", trunks=(10, 20))},
    )
    assert description.Sightings.from_document(json.loads(json.dumps(sightings.to_document()))) == sightings


@pytest.mark.parametrize("document", [{}, {"switch": []}])
def test_a_description_without_switches_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(FieldError, match=r"^switch: "):
        description.read_network(document)


def test_next_ports__none_without_a_path() -> None:
    """Of h1 - s1 = (s3, s4) = s2 - h2, the links between switches are down."""
    two_leaves = leaf_spine(hosts_per_leaf=1)
    cut = replace(two_leaves, ports=tuple(replace(port, up=port.edge) for port in two_leaves.ports))
    assert cut.next_ports("s1", "h2") == ()
    assert cut.spanning_tree_ports() == {"s1": (1,), "s2": (1,), "s3": (), "s4": ()}


def test_hosts_are_spread_over_their_groups_and_all_trunks_are_one() -> None:
    ports = leaf_spine(leaves=2, spines=3, hosts_per_leaf=12).ports_of["s1"]
    groups = graph.ingress_groups(reversed(ports))
    of_hosts = Counter(groups[port.number] for port in ports if port.edge)
    assert {groups[port.number] for port in ports if not port.edge} == {graph.TRUNKS}
    assert graph.TRUNKS not in of_hosts
    assert len(of_hosts) == graph.HOST_GROUPS
    assert max(of_hosts.values()) - min(of_hosts.values()) == 1


def test_an_uplink_to_others_is_a_trunk() -> None:
    ports = leaf_spine(hosts_per_leaf=2).ports_of["s1"]
    outside = replace(ports[0], uplink=True)
    assert outside.edge
    assert graph.ingress_groups([outside, *ports[1:]])[outside.number] == graph.TRUNKS


PORTS = ("s1:1", "s1:2", "s2:1")


def policy(**document: object) -> Policy:
    return Policy.from_document({"scheme": "mlfq-adaptive", **document})


def test_check_ports__a_name_that_the_policy_before_has_may_stay() -> None:
    before = policy(overrides=[{"ports": ["s3:1"], "freeze": True}])
    check_ports(policy(acts_at=["s3:1", "s1:1"]), PORTS, before)
    with pytest.raises(FieldError, match=r'^acts_at: the network has no port "s3:2"'):
        check_ports(policy(acts_at=["s3:1", "s3:2"]), PORTS, before)
    with pytest.raises(FieldError, match="s3:1"):
        check_ports(policy(acts_at=["s3:1"]), PORTS)
