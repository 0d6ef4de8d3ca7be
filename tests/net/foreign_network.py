# SPDX-License-Identifier: Apache-2.0
"""A Mininet network as a user's script makes one, with Open vSwitch in a folder. It uses no line of Sluice.

    python foreign_network.py FOLDER

It makes two switches with three hosts, and a file "ready" in the folder. It stops at the end of its standard input.
"""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from mininet.link import TCLink
from mininet.net import Mininet
from mininet.node import OVSSwitch
from mininet.topo import Topo

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


class TwoSwitches(Topo):  # type: ignore[misc]
    def build(self) -> None:
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        for name, switch in (("h1", s1), ("h3", s2), ("h4", s2)):
            self.addLink(self.addHost(name), switch, bw=20)
        self.addLink(s1, s2, bw=20)


def main(folder: Path) -> None:
    os.environ |= {"OVS_RUNDIR": str(folder), "OVS_DBDIR": str(folder), "OVS_LOGDIR": str(folder)}
    subprocess.run(["ovsdb-tool", "create", folder / "conf.db", SCHEMA], check=True)
    daemon = ["--detach", "--no-chdir", "--pidfile"]
    remote = f"--remote=punix:{folder}/db.sock"
    subprocess.run(["ovsdb-server", folder / "conf.db", remote, *daemon], check=True)
    subprocess.run(["ovs-vsctl", "--no-wait", "init"], check=True)
    subprocess.run(["ovs-vswitchd", f"unix:{folder}/db.sock", *daemon, "--log-file"], check=True)
    switch = partial(OVSSwitch, datapath="user", failMode="standalone")
    Mininet.inited = True  # this network must not raise limits of the whole machine
    net = Mininet(TwoSwitches(), switch=switch, link=TCLink, controller=None, autoSetMacs=True)
    net.start()
    for host in net.hosts:  # a switch in userspace does not add the checksums that a card would add
        host.cmd(f"ethtool -K {host.defaultIntf()} tx off")
    (folder / "ready").touch()
    sys.stdin.read()
    net.stop()


main(Path(sys.argv[1]))
