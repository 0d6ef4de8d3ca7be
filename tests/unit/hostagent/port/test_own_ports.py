# SPDX-License-Identifier: Apache-2.0
"""Queues on ports that exist already, in a real database of Open vSwitch without a switch process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.hostagent.port.network_ports import OwnPorts
from sluice.hostagent.port.queues import own_burst_bytes
from sluice.policy.network.graph import Port, Switch, Topology
from sluice.runtime.command import run
from sluice.topologies import ovs

pytestmark = pytest.mark.skipif(shutil.which("ovsdb-server") is None, reason="needs ovsdb-server")

GBIT = 10**9
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


def test_here__only_ports_of_bridges_on_this_machine(tool: Tool) -> None:
    elsewhere = Port("other", 1, "db1", 0, GBIT, edge=True, name="nic1")
    network = Topology("declared", (), NETWORK.switches, (WEB, UPLINK, elsewhere), learns=True)
    assert OwnPorts(tool).here(network) == (WEB, UPLINK)


def test_take_and_give_back__leave_the_database_as_it_was(tool: Tool) -> None:
    before, own = picture(tool), OwnPorts(tool)
    own.take([WEB, UPLINK], (0.7, 0.3))
    assert own.held() == {"nic1", "up1"}
    assert picture(tool) != before
    own.give_back(["nic1", "up1"])
    assert own.held() == frozenset()
    assert picture(tool) == before


def test_take__a_second_time_changes_nothing(tool: Tool) -> None:
    own = OwnPorts(tool)
    own.take([WEB])
    before = picture(tool)
    OwnPorts(tool).take([WEB])
    assert picture(tool) == before


def test_take__another_rate_makes_new_queues_and_keeps_the_former_qos(tool: Tool) -> None:
    before, own = picture(tool), OwnPorts(tool)
    own.take([UPLINK])
    own.take([Port("rack", 2, "", 0, 10 * GBIT, name="up1")])
    rates = {
        dict(row[2][1]).get("max-rate")
        for row in json.loads(
            tool(["", "--format=json", "--columns=_uuid,type,other_config", "list", "QoS"])
        )["data"]
    }
    assert rates == {None, str(10 * GBIT)}
    own.give_back(["up1"])
    assert picture(tool) == before


def test_take__a_port_that_does_not_exist_is_left_out(tool: Tool) -> None:
    before = picture(tool)
    OwnPorts(tool).take([Port("rack", 9, "", 0, GBIT, name="nic9")])
    assert picture(tool) == before


def test_problems__names_vlan_settings_that_rules_ignore(tool: Tool) -> None:
    own = OwnPorts(tool)
    assert own.problems([WEB, UPLINK]) == ()
    tool(["", "set", "Port", "nic1", "tag=10", "vlan_mode=access"])
    tool(["", "set", "Port", "up1", "trunks=10,20"])
    access, trunk = own.problems([WEB, UPLINK])
    assert access.startswith("rack:nic1 has tag=10, vlan_mode=access in Open vSwitch")
    assert trunk.startswith("rack:up1 has trunks=10,20 in Open vSwitch")


def test_problems__names_interfaces_of_a_bond(tool: Tool) -> None:
    tool(["", "add-bond", "br0", "bond0", "eth1", "eth2"])
    member = Port("rack", 3, "", 0, GBIT, edge=True, name="eth2")
    (problem,) = OwnPorts(tool).problems([WEB, UPLINK, member])
    assert problem.startswith("rack:eth2 belongs to the bond bond0 of Open vSwitch")


@pytest.mark.parametrize("rate_bps", [GBIT, 10 * GBIT, 25 * GBIT])
def test_take__the_credit_of_the_queues_fits_the_rate(tool: Tool, rate_bps: int) -> None:
    OwnPorts(tool).take([replace(WEB, rate_bps=rate_bps)])
    listing = json.loads(tool(["", "--format=json", "--columns=other_config", "list", "Queue"]))["data"]
    bursts = {int(dict(row[0][1])["burst"]) for row in listing}
    assert bursts == {8 * own_burst_bytes(rate_bps)}


def test_interfaces__are_all_ports_of_the_bridges(tool: Tool) -> None:
    assert OwnPorts(tool).interfaces() == {"br0", "nic1", "up1"}
