# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from topologies import ovs

FOLDER = Path("/run/x")


def test_tool_argv__appctl_is_told_the_socket():
    wanted = ["ovs-appctl", "-t", "/run/x/ovs-vswitchd.ctl", "dpif/show"]
    assert ovs.tool_argv(["ovs-appctl", "dpif/show"], FOLDER) == wanted


def test_tool_argv__unless_it_says_one_itself():
    argv = ["ovs-appctl", "-t", "/run/x/ovsdb-server.ctl", "version"]
    assert ovs.tool_argv(argv, FOLDER) == argv


def test_tool_argv__others_are_left_alone():
    assert ovs.tool_argv(["ovs-vsctl", "show"], FOLDER) == ["ovs-vsctl", "show"]


def test_datapath_type__userspace_when_it_is_asked_for():
    assert ovs.datapath_type("netdev") == "netdev"
