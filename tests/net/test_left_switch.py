# SPDX-License-Identifier: Apache-2.0
"""A switch that forwards by itself, with VLANs of its own: Sluice gives its ports queues, and changes nothing else.

The first rack's switch keeps web1 and web2 apart from web3: an Open vSwitch with VLANs and without a controller; two of
them behind one another with rules of their own, STP, patch ports and a bond; two bridges of Linux, one bridge of Linux
that filters VLANs; a router without a route to web3; or OVN, whose tunnel to the other rack leaves at a port with
queues, too.
"""

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from sluice.policy import tags
from sluice.policy.schema.desired import Policy, dscp_queue_map
from sluice.policy.wire.agents import PortHeartbeat
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from sluice.store.observed import find_agent
from tests.deploy.racks import ADDRESSES, BRIDGES, ROOT, SCRIPT, Racks

DESCRIPTION = """
[[switch]]
name = "rack1"
forwarding = "leave"
port = [
    { name = "nic-web1", rate = "100Mbit" },
    { name = "nic-web2", rate = "100Mbit" },
    { name = "nic-web3", rate = "100Mbit" },
    { name = "tor1", rate = "100Mbit" },
]
"""
LAG = '    { name = "lag1", rate = "100Mbit" },\n]\n'
TO_WEB2, TO_RACK2, TO_RACK2_TOO = "rack1:2", "rack1:4", "rack1:5"
EVERY = range(tags.TAG_COUNT)


OPEN_VSWITCH, LINUX, FILTERING, OVN = "Open vSwitch", "Linux bridges", "Linux bridge with VLANs", "OVN"
BONDED, ROUTER = "Open vSwitch with a bond", "router"
OVN_SCRIPT = SCRIPT.with_name("ovn")
_LEARNED = re.compile(r"table=6[67]\b")
"""Tables of OVN's chassis with the addresses that it learns from traffic."""


class Rack(Racks):
    """The racks, of which the first one has a switch of this kind."""

    kind: str

    def settings(self) -> str:
        """What the operator has set at the switch and its ports."""
        if self.kind in (LINUX, FILTERING):
            qdisc = self.inside("rack1", ["tc", "qdisc", "show", "dev", "nic-web2", "root"])
            vlans = self.inside("rack1", ["bridge", "vlan", "show"])
            return self.inside("rack1", ["bridge", "link", "show"]) + vlans + qdisc
        if self.kind == ROUTER:
            routes = self.inside("rack1", ["ip", "route", "show"])
            return routes + self.inside("rack1", ["tc", "qdisc", "show", "dev", "nic-web2", "root"])
        ports = self.vsctl("rack1", "--columns=name,tag,vlan_mode,trunks,qos,external_ids", "list", "port")
        flows = self.flows("rack1", bridge="br-int" if self.kind == OVN else BRIDGES["rack1"])
        rows = sorted(ports.split("\n\n"))
        return "\n".join([*rows, *(flow for flow in flows if not _LEARNED.search(flow))])

    def down(self) -> None:
        if self.kind == OVN:
            self.change(OVN_SCRIPT, "down")
        super().down()


def keep_apart(racks: Rack) -> None:
    """Let the first rack keep web1 and web2 apart from web3."""
    vlans = (("nic-web1", 10), ("nic-web2", 10), ("nic-web3", 20))
    if racks.kind == OPEN_VSWITCH:
        for port, vlan in vlans:
            racks.vsctl("rack1", "set", "port", port, f"tag={vlan}")
        return
    if racks.kind == BONDED:
        bond(racks)
        return
    if racks.kind == OVN:
        racks.change(OVN_SCRIPT, "up")
        return
    racks.vsctl("rack1", "del-br", "br-front")
    if racks.kind == ROUTER:
        racks.inside("rack1", ["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        for server in ("web1", "web2"):
            port, answers = f"nic-{server}", "net.ipv4.{}.nic-{}.proxy_{}"
            racks.inside("rack1", ["sysctl", "-qw", f"{answers.format('conf', server, 'arp')}=1"])
            racks.inside("rack1", ["sysctl", "-qw", f"{answers.format('neigh', server, 'delay')}=0"])
            racks.inside("rack1", ["ip", "address", "add", "10.9.0.254/32", "dev", port])
            racks.inside("rack1", ["ip", "route", "add", ADDRESSES[server], "dev", port])
        return
    if racks.kind == FILTERING:
        bridge_of = dict.fromkeys((10, 20), "br-vlans")
        filtering = ["vlan_filtering", "1", "vlan_default_pvid", "0"]
        racks.inside("rack1", ["ip", "link", "add", "br-vlans", "up", "type", "bridge", *filtering])
    else:
        bridge_of = {vlan: f"br{vlan}" for vlan in (10, 20)}
        for bridge in bridge_of.values():
            racks.inside("rack1", ["ip", "link", "add", bridge, "up", "type", "bridge"])
    for port, vlan in vlans:
        racks.inside("rack1", ["ip", "link", "set", port, "up", "master", bridge_of[vlan]])
        if racks.kind == FILTERING:
            access = ["vid", str(vlan), "pvid", "untagged"]
            racks.inside("rack1", ["bridge", "vlan", "add", "dev", port, *access])


def bond(racks: Rack) -> None:
    """Put a second switch, which bonds two cables to the other rack, behind the first one, which has STP and rules."""
    (near, far), vsctl = map(racks.namespace, BRIDGES), racks.vsctl
    run(f"ip link add lag1 netns {near} type veth peer name lag2 netns {far}".split())
    for rack, port in (("rack1", "lag1"), ("rack2", "lag2")):
        racks.inside(rack, ["ip", "link", "set", port, "up"])
    vsctl("rack2", "add-port", "br-back", "lag2", "--", "set", "port", "nic-db1", "tag=10")
    vsctl("rack1", "del-port", "tor1")
    vsctl("rack1", *["add-br", "br-core", "--", "set", "bridge", "br-core", "datapath_type=netdev"])
    vsctl("rack1", "add-bond", "br-core", "bond0", "tor1", "lag1", "bond_mode=active-backup", "trunks=10,20")
    for bridge, port, peer in (("br-front", "to-core", "to-front"), ("br-core", "to-front", "to-core")):
        patch = ["--", "set", "interface", port, "type=patch", f"options:peer={peer}"]
        vsctl("rack1", "add-port", bridge, port, "trunks=10,20", *patch)
    for port in ("nic-web1", "nic-web2"):
        vsctl("rack1", "set", "port", port, "tag=10")
    vsctl("rack1", "set", "port", "nic-web3", "vlan_mode=native-untagged", "tag=20", "trunks=20")
    for port in ("nic-web1", "nic-web2", "nic-web3"):  # no frame each second that a test would count
        vsctl("rack1", "set", "port", port, "other_config:stp-enable=false")
    times = [f"other_config:stp-{time}" for time in ("forward-delay=4", "max-age=6", "hello-time=1")]
    vsctl("rack1", "set", "bridge", "br-front", "fail_mode=secure", "stp_enable=true", *times)
    for rule in ("priority=5,actions=NORMAL", "priority=50,tcp,tp_dst=4444,actions=drop"):
        racks.add_flow("rack1", f"cookie=0xabc,{rule}")
    wait_until(lambda: racks.reaches("web1", "db1"), "STP lets the ports forward")


def obstacle(kind: str) -> str | None:
    """Why this machine has no such switch; None if it has."""
    if kind == OVN and not shutil.which("ovn-controller"):
        return "OVN is not installed: make setup"
    if kind == FILTERING:
        name = f"sf{os.getpid()}"
        try:
            run(["ip", "link", "add", name, "type", "bridge", "vlan_filtering", "1"])
        except CommandFailed:
            return "this kernel's bridges filter no VLANs"
        run(["ip", "link", "delete", name])
    return None


@pytest.fixture(scope="module", params=[OPEN_VSWITCH, BONDED, LINUX, FILTERING, ROUTER, OVN])
def racks(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Rack]:
    if problem := obstacle(request.param):
        pytest.skip(problem)
    racks = Rack(tmp_path_factory.mktemp("racks"))
    racks.kind = request.param
    try:
        racks.up()
        keep_apart(racks)
        racks.start_hub()
        wait_until(racks.network, "the web process answers")
        racks.start_port_agent("rack1", name="rack1")
        yield racks
    finally:
        racks.down()


@pytest.fixture(scope="module")
def before(racks: Rack) -> str:
    """The switch before Sluice knows it."""
    return racks.settings()


def is_apart(racks: Racks) -> bool:
    """Whether the VLANs are as the operator has made them."""
    return racks.reaches("web1", "web2") and not racks.reaches("web1", "web3", seconds=3)


def reported(racks: Racks) -> PortHeartbeat | None:
    """The newest heartbeat of the port agent."""
    engine = open_store(racks.store)
    beat = find_agent(engine, "rack1")
    engine.dispose()
    return beat if isinstance(beat, PortHeartbeat) else None


def counts(racks: Racks, ports: Sequence[str]) -> tuple[Sequence[int], Counter[int]]:
    """Packets of ports by queue and by DSCP, once two reports agree."""
    while True:
        beat = reported(racks)
        assert beat is not None
        wait_until(partial(is_newer, racks, beat), "the agent reports again")
        later = reported(racks)
        assert later is not None
        if all(
            (later.ports[port], later.tags[port]) == (beat.ports[port], beat.tags[port]) for port in ports
        ):
            of_ports = zip(*(beat.ports[port] for port in ports), strict=True)
            queues = [sum(queue.packets + queue.dropped for queue in each) for each in of_ports]
            tagged: Counter[int] = Counter()
            for port in ports:
                tagged.update({one.dscp: one.packets for one in beat.tags[port]})
            return queues, tagged


def is_newer(racks: Racks, before: PortHeartbeat) -> bool:
    """Whether the agent has reported since."""
    beat = reported(racks)
    return beat is not None and beat.at > before.at


def send_tags(racks: Racks, to: str) -> None:
    """Send a packet under each tag from web1 to another server."""
    argv = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "sluice.topologies.probe", "send"]
    argv += [ADDRESSES[to], "--tags", *map(str, EVERY), "--count", str(len(EVERY)), "--bytes", "200"]
    racks.inside("web1", argv)


def test_watched__the_port_counts_by_tag_and_changes_nothing(racks: Rack, before: str) -> None:
    file = racks.folder / "network.toml"
    file.write_text(DESCRIPTION.replace("\n]\n", f"\n{LAG}") if racks.kind == BONDED else DESCRIPTION)
    assert racks.sluice("network", "apply", str(file))[0] == 0
    wait_until(lambda: (beat := reported(racks)) and TO_WEB2 in beat.tags, "the agent counts at the port")
    assert is_apart(racks)
    assert racks.settings() == before


def test_acting__each_queue_gets_the_packets_of_its_tags(racks: Rack) -> None:
    file = racks.folder / "policy.toml"
    file.write_text('scheme = "pias"\n')
    code, text = racks.sluice("policy", "set", str(file))
    assert code == 0, text
    assert racks.sluice("policy", "act", "--at", "*")[0] == 0
    if racks.kind == BONDED:
        for mode in ("active-backup", "balance-slb"):
            racks.vsctl("rack1", "set", "port", "bond0", f"bond_mode={mode}")
            wait_until(lambda: racks.reaches("web1", "db1"), f"the bond is {mode}")
            check_queues(racks, [TO_RACK2, TO_RACK2_TOO], "db1")
    else:
        check_queues(racks, [TO_WEB2], "web2")
    if racks.kind == OVN:  # its tunnel has the tags of what is inside
        check_queues(racks, [TO_RACK2], "db1")
    assert is_apart(racks)


def check_queues(racks: Rack, ports: Sequence[str], to: str) -> None:
    """Send packets of each tag over the ports, and see them in their queues."""
    policy = Policy.from_document({"scheme": "pias"})
    queue_of = dscp_queue_map(policy, policy.thresholds)
    while not any(counts(racks, ports)[0][1:]):  # they follow the tags as soon as the agent knows the queues
        send_tags(racks, to)
    queues, tagged = later, all_tagged = counts(racks, ports)
    while not all(all_tagged[tag] > tagged[tag] for tag in EVERY):
        send_tags(racks, to)
        later, all_tagged = counts(racks, ports)
    expected = [0] * 8
    for dscp, packets in all_tagged.items():
        expected[queue_of[dscp]] += packets - tagged[dscp]
    found = [now - then for now, then in zip(later, queues, strict=True)]
    assert found[1:] == expected[1:]
    assert expected[0] <= found[0], "what is not IP goes first, and has no DSCP"


def test_removal__leaves_the_switch_as_it_was(racks: Rack, before: str) -> None:
    assert racks.settings() != before
    assert racks.sluice("network", "remove")[0] == 0
    wait_until(lambda: racks.settings() == before, "the switch is as it was")
    assert "sluice" not in racks.inside("rack1", ["tc", "filter", "show", "dev", "nic-web2", "egress"])
    assert is_apart(racks)
