# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from sluice.topologies import ovs

FOLDER = Path("/run/x")


def test_tool_argv__appctl_gets_the_socket() -> None:
    expected = ["ovs-appctl", "-t", "/run/x/ovs-vswitchd.ctl", "dpif/show"]
    assert ovs.tool_argv(["ovs-appctl", "dpif/show"], FOLDER) == expected


def test_tool_argv__a_given_socket_stays() -> None:
    argv = ["ovs-appctl", "-t", "/run/x/ovsdb-server.ctl", "version"]
    assert ovs.tool_argv(argv, FOLDER) == argv


def test_tool_argv__other_tools_are_unchanged() -> None:
    assert ovs.tool_argv(["ovs-vsctl", "show"], FOLDER) == ["ovs-vsctl", "show"]


def test_datapath_type__userspace_if_set() -> None:
    assert ovs.datapath_type("netdev") == "netdev"
