# SPDX-License-Identifier: Apache-2.0
"""Two racks that Sluice did not make, on each datapath: discovered, described, with queues as tagged, and left."""

import re
import sys
from collections.abc import Iterator

import pytest

from sluice.policy import tags
from sluice.policy.schema.desired import Policy, queue_map
from sluice.runtime.wait import wait_until
from tests.deploy.racks import ADDRESSES, BRIDGES, ROOT, Racks

HOSTS = ("web2", "db1", "plain", "outside")
CANARY = "br-back:1"
"""The port to db1."""
QUEUES = 8
PER_TAG = 3
OTHERS = 20
"""The most packets that hosts and gateway send by themselves, which also use queue 0."""
FORWARDING = ["priority=0 actions=NORMAL"]
START_S = 60


@pytest.fixture(scope="module")
def racks(datapath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    racks = Racks(tmp_path_factory.mktemp("racks"), datapath)
    try:
        racks.up()
        racks.start_hub()
        wait_until(racks.network, "the web process answers", timeout_s=START_S)
        yield racks
    finally:
        racks.down()


def make_queues(racks: Racks) -> None:
    """Give the port to db1 the queues that an operator would make."""
    words = ["set", "port", "nic-db1", "qos=@all", "--", "--id=@all", "create", "qos", "type=linux-htb"]
    words += ["other-config:max-rate=50000000", *(f"queues:{queue}=@q{queue}" for queue in range(QUEUES))]
    for queue in range(QUEUES):
        words += ["--", f"--id=@q{queue}", "create", "queue", "other-config:min-rate=1000000"]
    racks.vsctl("rack2", "--", *words)


def queue_packets(racks: Racks) -> list[int]:
    """Return the packets that each queue of the port to db1 has sent, by the classes of its qdisc."""
    shown = racks.inside("rack2", ["tc", "-s", "class", "show", "dev", "nic-db1"])
    counts = {int(minor, 16): int(packets) for minor, packets in _CLASS.findall(shown)}
    return [counts[queue + 1] for queue in range(QUEUES)]


_CLASS = re.compile(r"class htb 1:([0-9a-f]+) parent 1:fffe.*\n\s*Sent \d+ bytes (\d+) pkt")


def test_discovered_and_described__everyone_is_reached(racks: Racks, datapath: str) -> None:
    racks.connect_switches()
    wait_until(lambda: "br-back:tor2" in str(racks.network()["discovered"]), "the link is found")
    wait_until(lambda: all(racks.reaches("web1", host) for host in HOSTS), "traffic flows", timeout_s=30)
    code, text = racks.sluice("network", "discover")
    assert code == 0, text
    assert 'to = "br-back:tor2"' in text
    file = racks.folder / "network.toml"
    name = {"system": "kernel", "netdev": "userspace"}[datapath]
    file.write_text(text.replace("[[switch]]", f'[[switch]]\ndatapath = "{name}"'))
    code, text = racks.sluice("network", "apply", str(file))
    assert code == 0, text
    assert "The description agrees with the switches." in text
    assert all(racks.reaches("web1", host) for host in HOSTS)


def test_canary__each_queue_gets_exactly_the_packets_of_its_tags(racks: Racks, datapath: str) -> None:
    if datapath == "netdev":
        pytest.skip("Open vSwitch's userspace datapath has no queues of its own")
    make_queues(racks)
    file = racks.folder / "policy.toml"
    file.write_text(f'scheme = "pias"\nacts_at = ["{CANARY}"]\n')
    code, text = racks.sluice("policy", "set", str(file))
    assert code == 0, text
    wait_until(lambda: "set_queue" in str(racks.flows("rack2")), "the policy acts at the canary")
    assert "set_queue" not in str(racks.flows("rack1"))
    policy, every = Policy.from_document({"scheme": "pias"}), range(tags.TAG_COUNT)
    queue_of = queue_map(policy, policy.thresholds)
    before = queue_packets(racks)
    argv = ["send", ADDRESSES["db1"], "--tags", *map(str, every), "--count", str(PER_TAG * len(every))]
    probe = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "sluice.topologies.probe"]
    racks.inside("web1", [*probe, *argv, "--bytes", "200"])
    after = queue_packets(racks)
    counted = [after[queue] - before[queue] for queue in range(QUEUES)]
    expected = [PER_TAG * sum(queue_of[tag] == queue for tag in every) for queue in range(QUEUES)]
    assert counted[1:] == expected[1:]
    assert expected[0] <= counted[0] <= expected[0] + OTHERS


def test_removal__leaves_the_switches_as_they_were(racks: Racks) -> None:
    code, text = racks.sluice("network", "remove")
    assert code == 0, text
    wait_until(lambda: racks.flows("rack1") == FORWARDING, "no rule of Sluice is left")
    for rack, bridge in BRIDGES.items():
        racks.vsctl(rack, "del-controller", bridge)
    wait_until(lambda: all(racks.reaches("web1", host) for host in HOSTS), "the bridges forward")
    assert racks.flows("rack2") == FORWARDING
