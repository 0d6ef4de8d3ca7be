# SPDX-License-Identifier: Apache-2.0

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sluice import topologies
from sluice.hostagent.port import queues as port_queues
from sluice.hostagent.port import service
from sluice.hostagent.port.former_qdiscs import FormerQdiscs
from sluice.hostagent.port.machine_watch import LEAST_WINDOW_S, WINDOW_S, MachineWatch
from sluice.hostagent.port.network_ports import OwnPorts
from sluice.hostagent.port.queues import classes, own_burst_bytes
from sluice.policy.figures.validity import DELAYS, MachineStatus, delay_class
from sluice.policy.network.description import DeclaredPort
from sluice.policy.network.graph import Port, Switch, Topology
from sluice.policy.network.vlans import Vlans
from sluice.policy.wire.agents import QueueCounters
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.identity import Ticks
from sluice.topologies import ovs

needs_ovsdb = pytest.mark.skipif(shutil.which("ovsdb-server") is None, reason="needs ovsdb-server")

GBIT = 10**9
FORMER = FormerQdiscs(Path("/nowhere"), replaces=False)


def test_own_burst_bytes__lasts_for_a_late_timer_and_has_room_for_two_long_frames() -> None:
    assert own_burst_bytes(100 * GBIT) * 8 * 10**9 // (100 * GBIT) == port_queues.CREDIT_NS
    assert own_burst_bytes(10**8) == port_queues.SMALLEST_BYTES


def port(gbit: int) -> Port:
    return Port("rack", 1, "web1", 0, gbit * GBIT, edge=True, name="nic1")


def test_classes__the_root_has_the_rate_in_bits_and_the_credit() -> None:
    assert classes(port(25), None) == (
        "class change dev nic1 parent 1: classid 1:fffe htb rate 25000000000bit ceil 25000000000bit"
        " burst 312500b cburst 312500b\n"
    )


def test_classes__of_a_fast_port_all_have_the_rate_that_open_vswitch_cannot_set() -> None:
    root, first, *others = classes(port(100), (0.5,)).splitlines()
    assert "classid 1:fffe htb rate 100000000000bit " in root
    assert " classid 1:1 htb prio 0 rate 50000000000bit ceil 100000000000bit burst 1250000b " in first
    assert [line.split("prio ")[1].split()[0] for line in others] == list("1234567")
    assert all("rate 12000bit ceil 100000000000bit burst 375000b cburst 1250000b" in line for line in others)


def rows(argv: list[str], table: str) -> list[list[str]]:
    """Return the `create` clauses of a table in an ovs-vsctl transaction."""
    text = "\0".join(argv).split("\0--\0")
    clauses = [clause.split("\0") for clause in text]
    return [clause for clause in clauses if "create" in clause and table in clause]


def test_queues__eight_in_strict_priority_up_to_the_link_rate() -> None:
    port = topologies.build("single", host_rate_bps=20_000_000).ports[0]
    argv = port_queues.queues(port)
    (qos,) = rows(argv, "QoS")
    assert "type=linux-htb" in qos
    assert "other_config:max-rate=20000000" in qos
    assert [f"queues:{q}=@s1_1_q{q}" in qos for q in range(8)] == [True] * 8
    found = rows(argv, "Queue")
    assert len(found) == port_queues.QUEUES == 8
    for q, row in enumerate(found):
        assert row[0] == f"--id=@s1_1_q{q}"
        assert f"other_config:priority={q}" in row
        assert "other_config:max-rate=20000000" in row


LISTING = """{"data":[
[["uuid","aa"],["map",[["interface","s1-eth1"],["queue","0"]]],["map",[["min-rate","12000"],["priority","0"]]]],
[["uuid","bb"],["map",[["interface","s1-eth1"],["queue","1"]]],["map",[["min-rate","12000"],["priority","1"]]]],
[["uuid","cc"],["map",[["interface","gone"],["queue","1"]]],["map",[["min-rate","12000"],["priority","1"]]]],
[["uuid","dd"],["map",[]],["map",[["min-rate","5"]]]]],"headings":["_uuid","external_ids","other_config"]}"""


def test_share_out__only_what_changes_in_one_transaction() -> None:
    ports = topologies.build("single", hosts=2, host_rate_bps=20_000_000).ports
    found = port_queues.queue_rows(lambda argv: LISTING)
    assert [row.uuid for row in found] == ["aa", "bb", "cc"], "rows without an interface are not Sluice's"
    change = port_queues.share_out(found, ports, (0.0, 0.25))
    assert change is not None
    assert change[2:] == ["--", "set", "Queue", "bb", "other_config:min-rate=5000000"]
    assert port_queues.share_out(found, ports, None) is None


RATE_BPS = 10**7
GRAPH = topologies.build("dumbbell", left=1, right=1, host_rate_bps=RATE_BPS, core_rate_bps=RATE_BPS)


@dataclass
class Machine:
    """A machine whose counters the test moves."""

    now_s: float = 100.0
    ticks: Ticks = field(default_factory=lambda: Ticks(0, 0))
    sent_bytes: int = 0
    late_ns: int = 0
    forwarding: list[int] = field(default_factory=lambda: [0] * DELAYS)
    lost: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watch = MachineWatch(lambda: dict(self.lost), lambda: self.ticks, lambda: self.now_s)

    def second(
        self, *, busy: float = 0.3, load: float = 0.5, late: float = 0.0, lost: int = 0, slow: float = 0.0
    ) -> MachineStatus | None:
        """Pass a second: the share of busy cores, of the port's rate, of its sending time that is late,
        of the packets that take the switch longer than a frame."""
        self.now_s += 1
        self.forwarding[0] += round(100 * (1 - slow))
        self.forwarding[delay_class(3.0, 1.0)] += round(100 * slow)
        self.ticks = Ticks(self.ticks.busy + round(200 * busy), self.ticks.total + 200)
        self.sent_bytes += round(load * RATE_BPS / 8)
        self.late_ns += round(late * load * 1e9)
        self.lost = {"queues of s1-eth1": self.lost.get("queues of s1-eth1", 1000) + lost}
        self.watch.count_losses()
        queues = (QueueCounters(1, self.sent_bytes, 0, 0, 0),)
        return self.watch.look(GRAPH.ports, {"s1:1": queues}, {"s1:1": self.late_ns}, tuple(self.forwarding))

    def seconds(self, count: int, **how: float) -> MachineStatus:
        for _ in range(count):
            status = self.second(**how)  # type: ignore[arg-type]
        assert status is not None
        return status


def test_watch__says_nothing_about_a_short_time() -> None:
    machine = Machine()
    for _ in range(int(LEAST_WINDOW_S)):
        assert machine.second(busy=1.0) is None
    assert machine.second(busy=1.0) is not None


def test_watch__cpu_late_packets_and_ports_and_losses_of_the_last_seconds_only() -> None:
    machine = Machine()
    machine.seconds(20)
    status = machine.seconds(10, busy=0.99, late=0.25, lost=3, slow=0.1)
    assert status.cpu_busy == 0.99
    assert status.late == {"s1:1": 0.25}
    assert status.lost == {"queues of s1-eth1": 30}
    assert status.forwarded_late == 0.1
    assert machine.seconds(11) == MachineStatus(WINDOW_S, 0.3)


def test_watch__a_port_that_hardly_sends_is_not_judged() -> None:
    assert Machine().seconds(20, load=0.09, late=0.9).late == {}
    assert Machine().seconds(20, load=0.11, late=0.9).late == {"s1:1": 0.9}


def test_watch__counters_that_begin_again_are_no_losses() -> None:
    machine = Machine()
    machine.seconds(20)
    machine.lost = {"queues of s1-eth1": 0}
    machine.late_ns = machine.sent_bytes = 0
    assert machine.seconds(3) == MachineStatus(WINDOW_S, 0.3)


def test_watch__commands_that_fail_are_no_losses() -> None:
    def fails() -> dict[str, int]:
        raise CommandFailed(["ss"], 1, "no such command")

    watch = MachineWatch(fails, lambda: Ticks(0, 1), lambda: 0.0)
    watch.count_losses()
    assert watch.look(GRAPH.ports, {}, {}, (0,) * DELAYS) is None


# Queues on ports that exist already, in a real database of Open vSwitch without a switch process.


Tool = Callable[[list[str]], str]
WEB, UPLINK = (
    Port("rack", 1, "web1", 0, GBIT, edge=True, name="nic1"),
    Port("rack", 2, "", 0, GBIT, name="up1"),
)
NETWORK = Topology("declared", (), (Switch("rack", 0xF1), Switch("other", 0xB2)), (WEB, UPLINK), learns=True)


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    """ovs-vsctl on a database with the bridge br0, its ports nic1 and up1; up1 has a QoS of the operator's own."""
    ovs.make_database(tmp_path)
    socket, pid_file = tmp_path / "db.sock", tmp_path / "db.pid"
    argv = ["ovsdb-server", str(tmp_path / "conf.db"), f"--remote=punix:{socket}", f"--pidfile={pid_file}"]
    env = {**os.environ, **ovs.environment(tmp_path)}
    subprocess.run([*argv, "--detach", "--no-chdir"], env=env, check=True, stderr=subprocess.DEVNULL)

    def vsctl(argv: list[str]) -> str:
        return run(["ovs-vsctl", f"--db=unix:{socket}", "--no-wait", *argv[1:]])

    bridge = ["add-br", "br0", "--", "set", "Bridge", "br0", 'datapath_id="00000000000000f1"']
    own = ["--", "set", "Port", "up1", "qos=@own", "--", "--id=@own", "create", "QoS", "type=linux-sfq"]
    vsctl(["", "init"])
    vsctl(["", *bridge, "--", "add-port", "br0", "nic1", "--", "add-port", "br0", "up1", *own])
    yield vsctl
    os.kill(int(pid_file.read_text()), 15)


def picture(tool: Tool) -> dict[str, object]:
    """The tables that a port agent changes, without the order of rows."""
    tables = {
        name: json.loads(tool(["", "--format=json", "list", name]))["data"] for name in ("QoS", "Queue")
    }
    ports = json.loads(tool(["", "--format=json", "--columns=name,qos,external_ids", "list", "Port"]))["data"]
    return {"ports": sorted(ports, key=str), **{name: sorted(rows, key=str) for name, rows in tables.items()}}


def configs(tool: Tool, table: str) -> list[dict[str, str]]:
    """Return the settings of each row of a table."""
    listing = json.loads(tool(["", "--format=json", "--columns=other_config", "list", table]))
    return [dict(config[1]) for (config,) in listing["data"]]


@needs_ovsdb
def test_take_and_give_back__leave_the_database_as_it_was(tool: Tool) -> None:
    elsewhere = Port("other", 1, "db1", 0, GBIT, edge=True, name="nic1")
    network = Topology("declared", (), NETWORK.switches, (WEB, UPLINK, elsewhere), learns=True)
    before, own = picture(tool), OwnPorts(tool, FORMER)
    assert own.interfaces() == {"br0", "nic1", "up1"}
    assert own.here(network) == (WEB, UPLINK), "only ports of bridges on this machine"
    own.take([Port("rack", 9, "", 0, GBIT, name="nic9")])
    assert picture(tool) == before, "a port that does not exist is left out"
    own.take([WEB, UPLINK], (0.7, 0.3))
    assert own.held() == {"nic1", "up1"}
    taken = picture(tool)
    assert taken != before
    OwnPorts(tool, FORMER).take([WEB, UPLINK], (0.7, 0.3))
    assert picture(tool) == taken, "a second time changes nothing"
    own.give_back(["nic1", "up1"])
    assert own.held() == frozenset()
    assert picture(tool) == before


@needs_ovsdb
def test_take__another_rate_makes_new_queues_and_keeps_the_former_qos(tool: Tool) -> None:
    before, own = picture(tool), OwnPorts(tool, FORMER)
    own.take([UPLINK])
    own.take([Port("rack", 2, "", 0, 10 * GBIT, name="up1")])
    assert {row.get("max-rate") for row in configs(tool, "QoS")} == {None, str(10 * GBIT)}
    own.give_back(["up1"])
    assert picture(tool) == before


@needs_ovsdb
def test_columns__are_the_vlans_in_the_words_of_a_description(tool: Tool) -> None:
    own = OwnPorts(tool, FORMER)
    assert own.columns([WEB, UPLINK]) == ({}, {})
    tool(["", "set", "Port", "nic1", "tag=10", "vlan_mode=native-untagged"])
    tool(["", "set", "Port", "up1", "trunks=20,10"])
    kept, unkept = own.columns([WEB, UPLINK])
    assert not unkept
    assert kept == {
        "rack:nic1": DeclaredPort("nic1", tag=10, vlan_mode="native-untagged"),
        "rack:up1": DeclaredPort("up1", trunks=(10, 20)),
    }
    assert kept["rack:nic1"].vlans == Vlans("native-untagged", 10)


@needs_ovsdb
def test_columns__what_rules_would_not_keep_is_named_with_its_remedy(tool: Tool) -> None:
    own = OwnPorts(tool, FORMER)
    tool(["", "set", "Port", "nic1", "tag=10", "vlan_mode=dot1q-tunnel"])
    tool(["", "add-bond", "br0", "bond0", "eth1", "eth2", "--", "set", "Port", "bond0", "tag=20"])
    bonded = Port("rack", 3, "", 0, GBIT, edge=True, name="eth2")
    kept, unkept = own.columns([WEB, bonded])
    assert not kept
    assert unkept["rack:nic1"].startswith("has vlan_mode=dot1q-tunnel in Open vSwitch")
    assert unkept["rack:eth2"].startswith("belongs to the bond bond0 of Open vSwitch")
    assert 'bond = "bond0"' in unkept["rack:eth2"]
    assert all('forwarding = "leave"' in text for text in unkept.values())
    assert own.columns([replace(bonded, bond="bond0")]) == ({"rack:eth2": DeclaredPort("eth2", tag=20)}, {})


@needs_ovsdb
def test_take_and_give_back__the_interfaces_of_a_bond_have_one_qos(tool: Tool) -> None:
    tool(["", "add-bond", "br0", "bond0", "eth1", "eth2"])
    before, own = picture(tool), OwnPorts(tool, FORMER)
    members = [Port("rack", n, "", 0, GBIT, edge=True, name=f"eth{n}", bond="bond0") for n in (1, 2)]
    own.take(members)
    assert own.held() == {"eth1", "eth2"}
    assert own.held(beside=["eth2"]) == frozenset(), "a bond with one port in use keeps its queues"
    assert own.row_names() == {"br0": "br0", "nic1": "nic1", "up1": "up1", "eth1": "bond0", "eth2": "bond0"}
    assert [row.get("max-rate") for row in configs(tool, "QoS")].count(str(GBIT)) == 1
    taken = picture(tool)
    OwnPorts(tool, FORMER).take(members)
    assert picture(tool) == taken, "a second time changes nothing"
    own.give_back(["eth1", "eth2"])
    assert picture(tool) == before


@needs_ovsdb
def test_take__the_credit_of_the_queues_fits_the_rate(tool: Tool) -> None:
    rate_bps = 25 * GBIT
    OwnPorts(tool, FORMER).take([replace(WEB, rate_bps=rate_bps)])
    assert {row["burst"] for row in configs(tool, "Queue")} == {str(8 * own_burst_bytes(rate_bps))}


def test_a_machine_without_open_vswitch_has_no_ports_of_it() -> None:
    own = OwnPorts(service._no_switch, FORMER)
    topology = Topology("network", (), (Switch("rack", 1),), (WEB,))
    assert not any((own.here(topology), own.interfaces(), own.held(), *own.columns([WEB])))
    assert port_queues.queue_rows(service._no_switch) == []
