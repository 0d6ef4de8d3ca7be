# SPDX-License-Identifier: Apache-2.0

from pathlib import Path

import pytest

from sluice.policy.errors import SluiceError
from sluice.policy.network.description import read_network
from sluice.topologies.foreign import ForeignHost, ForeignNetwork, ForeignPort, hosts_and_switches

NETWORK = ForeignNetwork(
    (ForeignHost("h1", 10, "h1-eth0", "02:00:00:00:00:01", "10.0.0.1", None),),
    (
        ForeignPort("s1", "s1-eth1", 20_000_000, True, host="h1"),
        ForeignPort("s1", "s1-eth2", None, False, to="s2-eth1"),
        ForeignPort("s2", "s2-eth1", None, False, to="s1-eth2"),
    ),
)


def test_description__one_port_agent_serves_all_switches_and_links_keep_their_rates() -> None:
    network = read_network(NETWORK.description(rate_bps=100_000_000))
    assert [(switch.name, switch.forwards, switch.agent) for switch in network.switch] == [
        ("s1", False, "mininet"),
        ("s2", False, "mininet"),
    ]
    ports = [(port.name, port.rate_bps, port.host, port.to) for _, _, port in network.ports()]
    assert ports == [
        ("s1-eth1", 20_000_000, "h1", None),
        ("s1-eth2", 100_000_000, None, "s2:s2-eth1"),
        ("s2-eth1", 100_000_000, None, "s1:s1-eth2"),
    ]
    assert NETWORK.shaped() == ["s1-eth1"]


def test_description__needs_a_rate_for_links_that_nothing_shapes() -> None:
    with pytest.raises(SluiceError, match="--rate, because nothing shapes s1-eth2, s2-eth1"):
        NETWORK.description(None)


def processes(proc: Path, *shells: tuple[str, str]) -> Path:
    """Make a folder like /proc with these shells of Mininet, and the network namespace of each."""
    lines = [
        ("self", "cat", "net:[1]"),
        *((str(i), f"mininet:{name}", net) for i, (name, net) in enumerate(shells)),
    ]
    for pid, word, namespace in lines:
        (proc / pid / "ns").mkdir(parents=True)
        (proc / pid / "cmdline").write_text(f"bash\0--norc\0-is\0{word}\0")
        (proc / pid / "ns/net").symlink_to(namespace)
    return proc


def test_nodes__of_this_namespace_are_switches_and_others_are_hosts(tmp_path: Path) -> None:
    shells = ("h1", "net:[2]"), ("s1", "net:[1]"), ("h2", "net:[3]")
    assert hosts_and_switches(processes(tmp_path, *shells)) == ({"h1": 0, "h2": 2}, ["s1"])


def test_nodes__of_two_networks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SluiceError, match="two Mininet networks run here, because two nodes are called h1"):
        hosts_and_switches(processes(tmp_path, ("h1", "net:[2]"), ("h1", "net:[3]")))
