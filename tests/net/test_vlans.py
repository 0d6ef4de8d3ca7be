# SPDX-License-Identifier: Apache-2.0
"""VLANs and bonds where rules of Sluice forward: two racks of Open vSwitch, with the port agent of each.

VLAN 10 has web1 and db1, VLAN 20 has web2 and db2, and web3 is at a trunk. What a machine hears ends with a frame in
its own VLAN that was sent last. So what it has not heard until then does not come.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from sluice.policy import tags
from sluice.policy.schema.desired import Policy, dscp_queue_map
from sluice.policy.wire.agents import PortHeartbeat
from sluice.runtime.command import run
from sluice.runtime.wait import wait_until
from sluice.store.desired import current_topology
from sluice.store.engine import open_store
from sluice.store.observed import find_agent
from tests.deploy.racks import ADDRESSES, BRIDGES, Racks, Sent

ALL = "ff:ff:ff:ff:ff:ff"
MAC = {name: f"52:54:00:00:00:{address.rpartition('.')[2]}" for name, address in ADDRESSES.items()}
TO_WEB3 = "br-front:3"
ENDS = tuple((machine, f"{ALL},-,0,end") for machine in ("web1", "web2", "db1", "db2"))
"""A last broadcast to every machine."""


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    """The description has the VLANs of the first rack's servers, and Open vSwitch all others."""
    racks = Racks(tmp_path_factory.mktemp("racks"))
    try:
        racks.up()
        for port, words in (("nic-db1", ["tag=10"]), ("nic-db2", ["tag=20"]), ("tor2", ["trunks=10,20"])):
            racks.vsctl("rack2", "set", "port", port, *words)
        racks.vsctl("rack1", "set", "port", "tor1", "trunks=10,20")
        racks.start_hub()
        wait_until(racks.network, "the web process answers")
        for rack in BRIDGES:
            racks.start_port_agent(rack)
        racks.connect_switches()
        describe(racks, web3="trunks = [10, 20]")
        wait_until(
            lambda: [native(racks, port) for port in ("nic-db1", "nic-db2", "nic-web1")] == [10, 20, 10],
            "the agents have reported the VLANs",
        )
        yield racks
    finally:
        racks.down()


LINK = '{ name = "tor1", to = "br-back:tor2" }'


def describe(racks: Racks, *, web3: str, link: str = LINK, rack2: bool = True) -> None:
    """Put a description in force."""
    second = """
[[switch]]
name = "br-back"
datapath_id = "b2"
port = [{ name = "nic-db1" }, { name = "nic-db2" }, { name = "tor2", to = "br-front:tor1" }]
"""
    file = racks.folder / "network.toml"
    file.write_text(f"""
[[switch]]
name = "br-front"
datapath_id = "f1"
port = [
    {{ name = "nic-web1", rate = "1Gbit", tag = 10 }},
    {{ name = "nic-web2", rate = "1Gbit", tag = 20 }},
    {{ name = "nic-web3", rate = "1Gbit", {web3} }},
    {link},
]
{second if rack2 else ""}""")
    assert racks.sluice("network", "apply", str(file))[0] in (0, 1)


def port_of(racks: Racks, name: str) -> dict[str, Any]:
    """A port of the network in force, by its interface."""
    engine = open_store(racks.store)
    topology = current_topology(engine)
    engine.dispose()
    ports = topology.to_document()["ports"] if topology else ()
    return next((port for port in ports if port["name"] == name), {})


def native(racks: Racks, name: str) -> int | None:
    vlans = port_of(racks, name).get("vlans") or {}
    return vlans.get("native")


def heard(racks: Racks, at: Sequence[str], *sent: Sent) -> dict[str, list[str]]:
    """Send frames, and a last one to every machine. Return what some machines have heard before it."""
    return racks.heard(at, *sent, *ENDS)


def echoes(racks: Racks, machine: str) -> int:
    """How many pings a machine has answered."""
    rows = racks.inside(machine, ["grep", "^Icmp:", "/proc/net/snmp"]).splitlines()
    return int(dict(zip(*(row.split() for row in rows), strict=True))["InEchos"])


def test_hosts_of_one_vlan_reach_each_other_over_a_trunk_and_no_others(racks: Racks) -> None:
    assert racks.reaches("web1", "db1")
    assert racks.reaches("web2", "db2")
    assert not racks.reaches("web1", "db2", seconds=3)
    assert not racks.reaches("web1", "web2", seconds=3)


def test_a_broadcast_reaches_its_vlan_alone_with_a_header_at_the_trunk(racks: Racks) -> None:
    frame = ("web1", f"{ALL},-,3,ten")
    assert heard(racks, ("web2", "web3", "db1", "db2"), frame) == {
        "web2": [],
        "web3": ["ten vlan 10 priority 0"],
        "db1": ["ten no vlan"],
        "db2": [],
    }


def test_a_header_chooses_the_vlan_at_the_trunk_and_is_refused_elsewhere(racks: Racks) -> None:
    """The trunk carries 10 and 20. An access port refuses every header, even that of its own VLAN."""
    trunk = [("web3", f"{ALL},{vlan},3,trunk-{vlan}") for vlan in (10, 20, 30, "-")]
    access = [("web1", f"{ALL},{vlan},3,access-{vlan}") for vlan in (10, 20)]
    assert heard(racks, ("web1", "web2", "db1", "db2"), *trunk, *access) == {
        "web1": ["trunk-10 no vlan"],
        "web2": ["trunk-20 no vlan"],
        "db1": ["trunk-10 no vlan"],
        "db2": ["trunk-20 no vlan"],
    }


@pytest.mark.parametrize(
    ("mode", "leaves"), [("native-untagged", "no vlan"), ("native-tagged", "vlan 20 priority 0")]
)
def test_the_native_vlan_of_a_trunk(racks: Racks, mode: str, leaves: str) -> None:
    describe(racks, web3=f'tag = 20, trunks = [10], vlan_mode = "{mode}"')
    wait_until(
        lambda: (port_of(racks, "nic-web3").get("vlans") or {}).get("mode") == mode, "the port has the mode"
    )
    wait_until(
        lambda: heard(racks, ["web3"], ("web2", f"{ALL},-,3,up"))["web3"] == [f"up {leaves}"], "rules follow"
    )
    bare = ("web3", f"{ALL},-,3,bare")
    ten = ("web1", f"{ALL},-,3,ten")
    assert heard(racks, ("web1", "web2", "web3", "db2"), bare, ten) == {
        "web1": [],
        "web2": ["bare no vlan"],
        "web3": ["ten vlan 10 priority 0"],
        "db2": ["bare no vlan"],
    }


def test_one_address_in_two_vlans_is_two_hosts(racks: Racks) -> None:
    """web2 has the addresses of web1. db1 and db2 speak to the one in their own VLAN."""
    racks.inside("web2", ["ip", "link", "set", "eth0", "address", MAC["web1"]])
    racks.inside("web2", ["ip", "address", "replace", "10.9.0.11/24", "dev", "eth0"])
    for db in ("db1", "db2"):
        racks.inside(db, ["ip", "neigh", "flush", "dev", "eth0"])
        assert racks.reaches(db, "web1")
    wait_until(
        lambda: sorted(h["vlan"] for h in racks.network()["hosts"] if h["mac"] == MAC["web1"]) == [10, 20],
        "the switches have learned both",
    )
    for db, (near, far) in {"db1": ("web1", "web2"), "db2": ("web2", "web1")}.items():
        before = echoes(racks, near), echoes(racks, far)
        racks.inside(db, ["ping", "-c", "3", "-i", "0.2", "-W", "20", ADDRESSES["web1"]])
        assert (echoes(racks, near) - before[0], echoes(racks, far) - before[1]) == (3, 0)
    racks.inside("web2", ["ip", "link", "set", "eth0", "address", MAC["web2"]])
    racks.inside("web2", ["ip", "address", "delete", "10.9.0.11/24", "dev", "eth0"])


def queued(racks: Racks) -> list[int]:
    """Packets of the trunk's port by queue, as its agent has reported last."""
    engine = open_store(racks.store)
    beat = find_agent(engine, "ports-rack1")
    engine.dispose()
    assert isinstance(beat, PortHeartbeat)
    return [queue.packets + queue.dropped for queue in beat.ports[TO_WEB3]]


def test_the_dscp_chooses_the_queue_of_a_frame_with_a_header(racks: Racks) -> None:
    """It leaves with priority 0: the rules' priority was for the port program alone."""
    describe(racks, web3="trunks = [10, 20]")
    file = racks.folder / "policy.toml"
    file.write_text('scheme = "pias"\n')
    assert racks.sluice("policy", "set", str(file))[0] == 0
    assert racks.sluice("policy", "act", "--at", "*")[0] == 0
    wait_until(
        lambda: racks.flows("rack1", "table=4,metadata=0x10003/0xffffff")[-1].count("set_queue"),
        "the policy acts",
    )
    wait_until(
        lambda: "qos" in racks.vsctl("rack1", "get", "port", "nic-web3", "external_ids"), "it has queues"
    )
    policy = Policy.from_document({"scheme": "pias"})
    queue_of = dscp_queue_map(policy, policy.thresholds)
    sent = [dscp for dscp in range(1, tags.ATTAINED_LAST + 1) if 0 < queue_of[dscp] < 7]
    assert len({queue_of[dscp] for dscp in sent}) > 2
    before = queued(racks)
    got = heard(racks, ["web3"], *(("web1", f"{MAC['web3']},-,{dscp},d{dscp}") for dscp in sent))
    assert sorted(got["web3"]) == sorted(f"d{dscp} vlan 10 priority 0" for dscp in sent)
    expected = [sum(queue_of[dscp] == queue for dscp in sent) for queue in range(8)]
    wait_until(lambda: sum(queued(racks)[1:7]) - sum(before[1:7]) >= len(sent), "the agent has reported them")
    assert [now - then for now, then in zip(queued(racks), before, strict=True)][1:7] == expected[1:7]
    assert heard(racks, ["db1"], ("web3", f"{ALL},10,61,back"))["db1"] == ["back no vlan"], (
        "queue and header are off"
    )


def test_lldp_finds_the_link_between_trunks(racks: Racks) -> None:
    """No frame of LLDP has a header, and the link carries VLANs 10 and 20 alone."""
    found = 'to = "br-back:tor2"'
    assert found in racks.sluice("network", "discover")[1]
    racks.inside("rack1", ["ip", "link", "set", "tor1", "down"])
    wait_until(lambda: found not in racks.sluice("network", "discover")[1], "the link is gone")
    racks.inside("rack1", ["ip", "link", "set", "tor1", "up"])
    wait_until(lambda: found in racks.sluice("network", "discover")[1], "the link is found again")
    assert racks.reaches("web1", "db1")


@pytest.fixture
def bonded(racks: Racks) -> Racks:
    """Two cables with LACP to a switch that is none of Sluice's."""
    near, far = racks.namespace("rack1"), racks.namespace("rack2")
    racks.vsctl("rack2", "del-controller", "br-back")
    racks.vsctl("rack1", "del-port", "tor1")
    racks.vsctl("rack2", "del-port", "tor2")
    for cable in ("a", "b"):
        run(f"ip link add l1{cable} netns {near} type veth peer name l2{cable} netns {far}".split())
    for n, (rack, bridge) in enumerate(BRIDGES.items(), 1):
        for cable in ("a", "b"):
            racks.inside(rack, ["ip", "link", "set", f"l{n}{cable}", "up"])
        lacp = ["bond_mode=balance-tcp", "lacp=active", "other_config:lacp-time=fast", "trunks=10,20"]
        racks.vsctl(rack, "add-bond", bridge, f"lag{n}", f"l{n}a", f"l{n}b", *lacp)
    describe(racks, web3="trunks = [10, 20]", link='{ name = "l1a", rate = "1Gbit" }', rack2=False)
    wait_until(
        lambda: any("belongs to the bond lag1" in text for text in racks.problems()), "the bond is named"
    )
    assert any('write bond = "lag1"' in text and 'forwarding = "leave"' in text for text in racks.problems())
    wait_until(lambda: not racks.flows("rack1", "table=4"), "the switch forwards by itself")
    members = ", ".join(f'{{ name = "l1{cable}", rate = "1Gbit", bond = "lag1" }}' for cable in ("a", "b"))
    describe(racks, web3="trunks = [10, 20]", link=members, rack2=False)
    wait_until(lambda: racks.flows("rack1", "table=4"), "the rules forward")
    return racks


def test_a_bond_takes_one_copy__gets_nothing_back__and_fails_over(bonded: Racks) -> None:
    racks = bonded
    for down in ("", "l1a", "l1b"):
        if down:
            racks.inside("rack1", ["ip", "link", "set", down, "down"])
        assert racks.reaches("web1", "db1"), f"{down} is down"
        there = [("web1", f"{ALL},-,3,there-{n}") for n in range(3)]
        back = [("db1", f"{ALL},-,3,back-{n}") for n in range(3)]
        assert heard(racks, ("web1", "db1", "db2", "web3"), *there, *back) == {
            "web1": [f"back-{n} no vlan" for n in range(3)],
            "db1": [f"there-{n} no vlan" for n in range(3)],
            "db2": [],
            "web3": [f"{way}-{n} vlan 10 priority 0" for way in ("there", "back") for n in range(3)],
        }
        assert racks.reaches("db2", "web2")
        assert not racks.reaches("web1", "db2", seconds=3)
        if down:
            racks.inside("rack1", ["ip", "link", "set", down, "up"])
            wait_until(partial(is_collecting, racks, down), f"{down} has negotiated again")


def is_collecting(racks: Racks, interface: str) -> bool:
    """Whether a port of the bond is part of it again, for both ends."""
    env = ["env", f"OVS_RUNDIR={racks.folder}/rack1"]
    shown = racks.inside(
        "rack1", [*env, "ovs-appctl", "-t", f"{racks.folder}/rack1/vswitchd.ctl", "bond/show", "lag1"]
    )
    return f"member {interface}: enabled" in shown
