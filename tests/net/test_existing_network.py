# SPDX-License-Identifier: Apache-2.0
"""A network that Sluice did not make: two racks with switches, servers and a gateway of their own."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sluice.runtime.command import run
from sluice.runtime.wait import wait_until
from sluice.store.desired import current_topology
from sluice.store.engine import open_store
from sluice.store.observed import newest_events, put_agent
from tests.deploy.racks import ADDRESSES, BRIDGES, CONTROLLER, FRAMES, Racks
from tests.kit.heartbeats import host_heartbeat

HOSTS = ("web2", "db1", "plain", "outside")


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    """Two racks whose switches have just been given to Sluice, and a description of them in `network.toml`."""
    racks = Racks(tmp_path_factory.mktemp("racks"))
    try:
        racks.up()
        racks.start_hub()
        wait_until(racks.network, "the web process answers")
        racks.connect_switches()
        wait_until(
            lambda: "nic-web1" in str(racks.network()["discovered"]),
            "the switches are found",
        )
        yield racks
    finally:
        racks.down()


@pytest.fixture(scope="module")
def described(racks: Racks) -> Path:
    """The file that `discover` printed, put in force."""
    wait_reached(racks)
    code, text = racks.sluice("network", "discover")
    assert code == 0
    file = racks.folder / "network.toml"
    file.write_text(text)
    apply(racks, file)
    return file


def apply(racks: Racks, description: Path) -> None:
    """Put a description in force. The exit code is 1 while it still contradicts the switches."""
    assert racks.sluice("network", "apply", str(description))[0] in (0, 1)


def changed(racks: Racks, described: Path, *changes: tuple[str, str], times: int = -1) -> Path:
    """Return a file with the description in which texts are replaced."""
    text = described.read_text()
    for old, new in changes:
        text = text.replace(old, new, times)
    file = racks.folder / "changed.toml"
    file.write_text(text)
    return file


def restore(racks: Racks, described: Path) -> None:
    """Put the right description in force again, and wait until nothing contradicts it."""
    apply(racks, described)
    wait_until(lambda: not racks.problems(), "nothing contradicts the description")


def wait_named(racks: Racks, text: str) -> None:
    """Wait until GET /health has a problem with the text."""
    wait_until(lambda: any(text in problem for problem in racks.problems()), f"{text} is named")


def wait_reached(racks: Racks) -> None:
    wait_until(lambda: all(racks.reaches("web1", host) for host in HOSTS), "traffic flows again")


def test_discovery__finds_the_link_and_reaches_everyone(racks: Racks) -> None:
    wait_until(lambda: 'to = "br-back:tor2"' in racks.sluice("network", "discover")[1], "the link is found")
    wait_reached(racks)
    rules = wait_until(
        lambda: racks.flows("rack1", "table=4,metadata=0x10001/0xffffff"), "the rules of Sluice stand"
    )
    assert "set_queue" not in rules[-1], "it only watches"
    assert not any("NORMAL" in rule for rule in racks.flows("rack1")), "the bridge forwards by them alone"


def test_description__agrees_and_a_server_added_later_works_at_once(racks: Racks, described: Path) -> None:
    assert racks.sluice("network", "check", str(described))[0] == 0
    assert racks.reaches("outside", "web3")


def test_wrong_port__is_named_and_everyone_is_still_reached(racks: Racks, described: Path) -> None:
    """A typo in the file, and a bridge with an address of its own."""
    racks.inside("rack1", ["ip", "address", "add", "10.9.0.101/24", "dev", "br-front"])
    racks.inside("rack1", ["ip", "link", "set", "br-front", "up"])
    wrong = changed(racks, described, ("nic-web1", "nic-wbe1"))
    code, text = racks.sluice("network", "apply", str(wrong))
    assert code == 1
    assert "br-front:nic-wbe1: the switch has no port of this name" in text
    wait_named(racks, "br-front:nic-wbe1: ")

    def kinds() -> list[str]:
        """Other places may have a problem meanwhile, for example an agent that is late."""
        return [kind for kind, place in network_events(racks) if place == "br-front:nic-wbe1"]

    wait_until(kinds, "its begin is an event")
    assert racks.reaches("web1", "db1")
    racks.inside("web1", ["ping", "-c", "1", "-W", "20", "10.9.0.101"])
    apply(racks, described)
    wait_until(lambda: len(kinds()) == 2, "its end is an event")
    assert kinds() == ["network-problem", "network-solved"]


def network_events(racks: Racks) -> list[tuple[str, str]]:
    """Kind and place of each event about the network that is no problem of a link, oldest first."""
    engine = open_store(racks.store)
    found = [row for row in newest_events(engine, 100) if row["kind"].startswith("network-")]
    engine.dispose()
    return [(row["kind"], row["document"]["where"]) for row in found if "where" in row["document"]]


def test_duplicate_id__the_second_switch_is_refused_and_both_forward(racks: Racks, described: Path) -> None:
    racks.vsctl("rack2", "set", "bridge", "br-back", "other_config:datapath-id=00000000000000f1")
    wait_named(racks, "br-front: two switches have the datapath id 00000000000000f1")
    assert racks.reaches("web1", "web2")
    assert racks.reaches("web1", "db1")
    racks.vsctl("rack2", "set", "bridge", "br-back", "other_config:datapath-id=00000000000000b2")
    wait_until(lambda: not racks.problems(), "the problem is solved")


def test_agent__its_name_is_the_name_of_the_learned_host(racks: Racks, described: Path) -> None:
    engine = open_store(racks.store)
    put_agent(engine, "web1", host_heartbeat(mac="52:54:00:00:00:11"))
    wait_until(lambda: "web1" in [host["name"] for host in racks.network()["hosts"]], "they are one")
    topology = current_topology(engine)
    assert topology is not None
    assert topology.edge_port("web1").name == "nic-web1"
    engine.dispose()


def appear(racks: Racks, machine: str, mac: str) -> str:
    """Send a frame from an address behind a machine's port, as a virtual machine does that then moves away.

    Return where the controller has the host. A busy switch may lose a frame, so call it until it is there.
    """
    racks.inside(machine, f"ip link add guest link eth0 address {mac} type macvlan".split())
    racks.inside(machine, ["ip", "link", "set", "guest", "up"])
    racks.inside(machine, [sys.executable, str(FRAMES), "send", "guest", "ff:ff:ff:ff:ff:ff,-,0,hello"])
    racks.inside(machine, ["ip", "link", "del", "guest"])
    return port_of(racks, mac)


def port_of(racks: Racks, mac: str) -> str:
    return next((host["port"] for host in racks.network()["hosts"] if host["mac"] == mac), "")


@pytest.fixture
def secure(racks: Racks) -> Iterator[None]:
    """The switches keep their rules while no controller is there."""
    for rack, bridge in BRIDGES.items():
        racks.vsctl(rack, "set-fail-mode", bridge, "secure")
    yield
    for rack, bridge in BRIDGES.items():
        racks.vsctl(rack, "set-fail-mode", bridge, "standalone")


@pytest.mark.usefixtures("secure")
def test_restart__a_host_that_has_moved_stays_at_its_new_port(racks: Racks, described: Path) -> None:
    """For some seconds, both switches remember it, also if they hear from no controller meanwhile."""
    guest, *others = (f"52:54:00:00:00:{number}" for number in (99, 98, 97))
    before = wait_until(lambda: appear(racks, "web1", guest), "the guest is seen")
    wait_until(lambda: appear(racks, "db1", guest) != before, "the guest is seen at its new port")
    after = port_of(racks, guest)
    racks.stop("controller")
    racks.start_controller()
    wait_until(lambda: "leading" in log(racks), "another controller leads")
    for machine, other in zip(("web1", "db1"), others, strict=True):
        wait_until(partial(appear, racks, machine, other), "the switch has said whom it remembers")
    assert port_of(racks, guest) == after


def test_failover__a_host_that_returns_is_found_at_its_first_port(racks: Racks, described: Path) -> None:
    """Both switches have learned it, and would remember it for minutes."""
    guest = "52:54:00:00:00:96"
    first = wait_until(lambda: appear(racks, "web1", guest), "the guest is seen")
    wait_until(lambda: appear(racks, "db1", guest) != first, "the guest is seen at its other port")
    wait_until(lambda: appear(racks, "web1", guest) == first, "the guest is seen at its first port again")


def test_other_traffic__multicast_neighbours_vlans_and_long_frames(racks: Racks, described: Path) -> None:
    """The policy acts at the ports of one rack, so rules name the queues in 802.1p tags there."""
    racks.start_port_agent("rack1")
    racks.sluice("policy", "act", "--at", "*")
    wait_until(
        lambda: racks.flows("rack1", "table=4,metadata=0x2/0xffffff")[-1].count("push_vlan"),
        "the policy acts",
    )
    all_hosts, group, web2 = "ff:ff:ff:ff:ff:ff", "01:00:5e:01:02:03", "52:54:00:00:00:12"
    tags = [(web2, 10), (web2, 5 << 13 | 10), (all_hosts, 10), (group, "-")]
    sent = [("web1", f"{to},{tci},0,{to}") for to, tci in tags]
    assert sorted(racks.heard(["web2"], *sent, number=len(sent))["web2"]) == [
        f"{group} no vlan",
        f"{web2} vlan 10 priority 0",
        f"{web2} vlan 10 priority 5",
        f"{all_hosts} vlan 10 priority 0",
    ]
    for machine, interface in (
        ("web1", "eth0"),
        ("rack1", "nic-web1"),
        ("rack1", "nic-web2"),
        ("web2", "eth0"),
    ):
        racks.inside(machine, ["ip", "link", "set", interface, "mtu", "9000"])
    racks.inside("web1", ["ping", "-c", "3", "-i", "0.2", "-W", "20", "-M", "do", "-s", "8972", "10.9.0.12"])
    racks.inside("web1", ["ip", "-6", "neigh", "flush", "dev", "eth0"])
    racks.inside("web1", ["ping", "-6", "-c", "3", "-i", "0.2", "-W", "20", "2001:db8:9::12"])
    racks.sluice("policy", "act", "--nowhere")
    racks.stop("ports-rack1")


def test_a_bond_of_open_vswitch__is_named_and_the_switch_keeps_it_with_its_vlans(
    racks: Racks, described: Path
) -> None:
    """Only the database of the switch shows it."""
    racks.vsctl("rack1", "add-bond", "br-front", "bond0", "b1", "b2", *interfaces("b1", "b2"))
    racks.vsctl("rack1", "set", "port", "nic-web2", "tag=10")
    bonded = '{ name = "b1", rate = "1Gbit" },\n    { name = "nic-web1"'
    racks.sluice("network", "apply", str(changed(racks, described, ('{ name = "nic-web1"', bonded))))
    racks.start_port_agent("rack1")
    wait_named(racks, "br-front:b1 belongs to the bond bond0")
    wait_until(lambda: not racks.flows("rack1", "table=4"), "the switch forwards by itself")
    assert not racks.reaches("web1", "web2", seconds=3), "hosts of different VLANs are apart"
    assert racks.reaches("web1", "db1"), "the others reach each other"
    racks.vsctl("rack1", "clear", "port", "nic-web2", "tag")
    racks.vsctl("rack1", "del-port", "bond0")
    wait_until(lambda: racks.flows("rack1", "table=4"), "the rules forward again")
    racks.stop("ports-rack1")
    restore(racks, described)


def interfaces(*names: str) -> list[str]:
    """The words that make interfaces without a cable."""
    return [word for name in names for word in ("--", "set", "interface", name, "type=internal")]


def test_unplugged__the_uplink_is_named_and_the_rest_works(racks: Racks, described: Path) -> None:
    apply(racks, changed(racks, described, ('{ name = "nic-gw"', '{ name = "nic-gw", uplink = true')))
    racks.inside("rack2", ["ip", "link", "set", "nic-gw", "down"])
    wait_named(racks, "br-back:nic-gw: the uplink is down")
    assert racks.reaches("web1", "db1")
    racks.inside("rack2", ["ip", "link", "set", "nic-gw", "up"])
    wait_until(lambda: racks.reaches("web1", "outside"), "the uplink works again")
    restore(racks, described)


def test_unplugged__the_link_is_named_and_mended(racks: Racks, described: Path) -> None:
    racks.inside("rack1", ["ip", "link", "set", "tor1", "down"])
    wait_named(racks, "br-front:tor1: the link to br-back:tor2 is down")
    assert racks.reaches("web1", "web2"), "the rest of the network works"
    racks.inside("rack1", ["ip", "link", "set", "tor1", "up"])
    wait_until(lambda: not racks.problems(), "the problem is solved")
    wait_until(lambda: racks.reaches("web1", "db1"), "the link carries packets again")


def test_loop__a_second_cable_is_left_out_of_the_forwarding(racks: Racks, described: Path) -> None:
    """The description says that hosts are at loop1. Without LLDP, each broadcast would circle for ever."""
    near, far = racks.namespace("rack1"), racks.namespace("rack2")
    run(f"ip link add loop1 netns {near} type veth peer name loop2 netns {far}".split())
    for rack, bridge, port in (("rack1", "br-front", "loop1"), ("rack2", "br-back", "loop2")):
        racks.inside(rack, ["ip", "link", "set", port, "up"])
        racks.vsctl(rack, "add-port", bridge, port)
    loop = [
        ('{ name = "nic-web1"', '{ name = "loop1" },\n    { name = "nic-web1"'),
        ('{ name = "nic-db1"', '{ name = "loop2" },\n    { name = "nic-db1"'),
    ]
    racks.sluice("network", "apply", str(changed(racks, described, *loop)))
    wait_named(racks, "br-front:loop1: leads to the switch port")
    before = int(racks.inside("rack1", ["cat", "/sys/class/net/loop1/statistics/tx_packets"]))
    assert racks.reaches("web1", "db1")
    after = int(racks.inside("rack1", ["cat", "/sys/class/net/loop1/statistics/tx_packets"]))
    assert after - before < 20, "nothing circles"
    for rack, port in (("rack1", "loop1"), ("rack2", "loop2")):
        racks.vsctl(rack, "del-port", port)
    restore(racks, described)


def log(racks: Racks) -> str:
    return (racks.folder / "controller.log").read_text().rpartition("listening")[2]


def test_shared_switch__rules_of_others_stay(racks: Racks, described: Path) -> None:
    """With first_table, Sluice uses its own tables, and a rule of the operator sends packets there."""
    tables = ('name = "br-front"', 'name = "br-front"\nfirst_table = 20')
    apply(racks, changed(racks, described, tables, times=1))
    wait_until(lambda: racks.flows("rack1", "table=24"), "the pipeline is at its tables")
    racks.add_flow("rack1", "table=0,priority=50,actions=resubmit(,20)")
    racks.add_flow("rack1", "table=0,priority=90,udp,tp_dst=7,actions=drop")
    wait_until(lambda: racks.reaches("web1", "db1"), "packets pass the tables of Sluice")
    assert racks.sluice("policy", "act", "--at", "br-front:1")[0] == 0
    assert [flow for flow in racks.flows("rack1", "table=0") if "tp_dst=7" in flow]


def test_shared_switch__is_connected_without_losing_a_rule(racks: Racks, described: Path) -> None:
    """The order of the page: describe, save the rules, connect, restore them. Open vSwitch deletes them in between."""
    own = racks.folder / "own.flows"
    own.write_text(
        "priority=0 actions=NORMAL\npriority=90,udp,tp_dst=7 actions=drop\n"
        "table=0,priority=0,actions=resubmit(,20)\n"
    )
    racks.vsctl("rack1", "del-controller", "br-front")
    wait_until(lambda: not racks.flows("rack1", "table=24"), "Open vSwitch has deleted all rules")
    racks.vsctl("rack1", "set-controller", "br-front", CONTROLLER)
    racks.ofctl("rack1", "add-flows", "br-front", str(own))
    wait_until(lambda: racks.flows("rack1", "table=24"), "the pipeline is at its tables")
    assert sorted(racks.flows("rack1", "table=0")) == [
        "priority=0 actions=resubmit(,20)",
        "priority=90,udp,tp_dst=7 actions=drop",
    ]
    wait_until(lambda: racks.reaches("web1", "db1"), "packets pass the tables of Sluice")


def test_a_rack_without_a_port_agent__is_named_if_the_policy_acts_there(
    racks: Racks, described: Path
) -> None:
    assert racks.sluice("policy", "act", "--at", "br-back:1")[0] == 0
    wait_named(racks, "br-back: no port agent has reported these ports")
    assert racks.sluice("policy", "act", "--nowhere")[0] == 0


SERVERS = ("web1", "web2", "web3", "db1", "db2", "plain")
MACS = [f"dl_dst=52:54:00:00:00:{ADDRESSES[server].rpartition('.')[2]}" for server in SERVERS]


def lasting(racks: Racks) -> list[str]:
    """Return the rules that the switch has not learned from packets, without those for hosts that it may forget."""
    rules = [flow for flow in racks.flows("rack1") if "hard_timeout" not in flow]
    return sorted(
        flow for flow in rules if "priority=20,dl_dst=" not in flow or any(mac in flow for mac in MACS)
    )


def knows_all(racks: Racks) -> bool:
    """Whether the first rack has a rule for each server."""
    rules = " ".join(lasting(racks))
    return all(mac in rules for mac in MACS)


def test_restart__of_the_controller_changes_no_rule(racks: Racks, described: Path) -> None:
    """Neither its own nor those of others. The servers have just spoken, so no switch forgets one meanwhile.

    A switch in the mode `standalone` deletes all rules if it hears from no controller for 15 s.
    """
    for rack, bridge in BRIDGES.items():
        racks.vsctl(rack, "set-fail-mode", bridge, "secure")
    assert all(racks.reaches("web1", server) for server in SERVERS)
    wait_until(
        lambda: racks.answer("policy")["current"]["state"] == "applied", "the switches have the policy"
    )
    wait_until(partial(knows_all, racks), "the rules know all servers")
    before = lasting(racks)
    assert any("tp_dst=7" in flow for flow in before)
    racks.stop("controller")
    assert racks.reaches("web1", "db1")
    racks.start_controller()
    wait_until(lambda: not racks.problems() and "leading" in log(racks), "another controller leads")
    assert racks.reaches("web1", "db1")
    assert not set(lasting(racks)) ^ set(before)
    for rack, bridge in BRIDGES.items():
        racks.vsctl(rack, "set-fail-mode", bridge, "standalone")
    apply(racks, described)
    wait_until(
        lambda: racks.flows("rack1", "table=4") and not racks.flows("rack1", "table=24"),
        "the switch belongs to Sluice again",
    )
    assert not any("tp_dst=7" in flow for flow in racks.flows("rack1"))


def test_removal__leaves_the_switches_as_they_were(racks: Racks, described: Path) -> None:
    assert racks.sluice("network", "remove")[0] == 0
    wait_until(
        lambda: racks.flows("rack1") == ["priority=0 actions=NORMAL"],
        "no rule of Sluice is left",
    )
    for rack, bridge in BRIDGES.items():
        racks.vsctl(rack, "del-controller", bridge)
    wait_reached(racks)
    assert racks.flows("rack2") == ["priority=0 actions=NORMAL"]
