# SPDX-License-Identifier: Apache-2.0
"""The page docs/deploying/two-racks.md, followed command by command. Each test needs those before it."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.policy.version import VERSION
from sluice.runtime.wait import patient, wait_until
from tests.deploy.packaged import CGROUPS, PACKAGES, Machines, obstacle
from tests.deploy.racks import BRIDGES
from tests.kit.pages import ROOT

pytestmark = [
    pytest.mark.net,
    pytest.mark.timeout(patient(600)),
    pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "-"),
]

SERVERS = ("web1", "web2", "db1", "db2")
AGENTS = {"rack1", "rack2", *SERVERS}
EVERYONE = (*SERVERS, "plain", "outside")
UPGRADE = f"{VERSION}+next"
NAMES_S = 2.0
"""The web process reads the names of hosts this often."""


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """The racks while they forward by themselves. The server web3 is not connected yet."""
    machines = Machines(tmp_path_factory.mktemp("racks"))
    packages = sorted(PACKAGES.glob(f"sluice-*_{VERSION}_*.deb"))
    try:
        machines.up()
        machines.on("rack1", "ovs-vsctl del-port br-front nic-web3")
        home = machines.root("hub") / "root"
        subprocess.run(["cp", *packages, home], check=True)
        (home / "upgrade").mkdir()
        subprocess.run([ROOT / "packaging/next-version", UPGRADE, home / "upgrade", *packages], check=True)
        yield machines
    finally:
        machines.down()
    assert not list(CGROUPS.glob("sr-*"))
    assert str(machines.folder) not in Path("/proc/mounts").read_text()


@pytest.fixture(scope="module")
def before(machines: Machines) -> dict[str, str]:
    """What the switches and a server are without Sluice."""
    wait_until(lambda: machines.all_reach(EVERYONE), "the bridges forward", timeout_s=30)
    machines.serve("db1")
    state = {rack: machines.switch_state(rack) for rack in BRIDGES}
    return state | {"web1": machines.host_state("web1")}


def test_install__hub_runs_and_agents_wait(machines: Machines, before: dict[str, str]) -> None:
    machines.follow("1. Install")
    assert machines.on("hub", "systemctl is-active sluice-controller sluice-web").split() == ["active"] * 2
    assert "inactive" in machines.tried("web1", "systemctl is-active sluice-agent")
    assert machines.on("web1", "sluice --version").strip() == f"Sluice {VERSION}"


def test_connect__everyone_reaches_everyone(machines: Machines) -> None:
    with machines.stream("web1", "db1"):
        machines.follow("2. Connect the switches")
        wait_until(
            lambda: "br-front:tor1" in machines.tried("hub", "sluice network discover"),
            "the link is found",
            timeout_s=30,
        )
        wait_until(
            lambda: not any("NORMAL" in rule for rack in BRIDGES for rule in machines.rules(rack)),
            "the bridges forward by the rules of Sluice alone, and learn hosts",
            timeout_s=30,
        )
    wait_until(lambda: machines.all_reach(EVERYONE), "traffic flows again", timeout_s=30)


def test_describe__agrees_with_the_switches(machines: Machines) -> None:
    with machines.stream("web1", "db1"):
        printed = machines.follow("3. Describe the network")
    assert "The description agrees with the switches." in "".join(printed)
    assert machines.all_reach(EVERYONE)
    assert machines.on("rack1", "ovs-vsctl get-fail-mode br-front").strip() == "secure"


def test_enrol__every_agent_has_a_certificate(machines: Machines) -> None:
    machines.follow("4. Enrol the agents")
    wait_until(lambda: machines.up_agents() == AGENTS, "all agents report", timeout_s=30)
    shown = machines.on("hub", "sluice agents")
    assert shown.count("valid") == len(AGENTS)
    assert machines.on("db1", "sysctl -n net.ipv4.tcp_congestion_control").strip()


def test_watch_only__counts_and_changes_no_queue(machines: Machines) -> None:
    machines.follow("5. Only watch")
    machines.fetch("web1", "db1", 20, times=20)
    machines.on("web1", "iperf -c 10.9.0.21 -t 2")
    wait_until(lambda: len(machines.flows("db1", "web1")) >= 20, "the answers are watched", timeout_s=20)
    wait_until(lambda: machines.flows("web1", "db1"), "iperf's connection is watched", timeout_s=20)
    large = max(machines.flows("web1", "db1"), key=lambda flow: float(flow["bytes"]))
    assert large["dst_port"] == 5001
    assert large["fct_us"] > 1.9e6
    fct = machines.api("fct?source=watched")["classes"]
    assert fct["small"]["n"] >= 20
    assert 0 < fct["small"]["mean"] < fct["all"]["p99"]
    assert machines.queued("rack1") == machines.queued("rack2") == set()
    assert not machines.queue_bytes("br-back:1")


def test_canary__one_port_has_queues_as_tagged(machines: Machines) -> None:
    number = machines.follow_block("6. A canary", 0)
    assert number.strip() == "1"
    machines.follow_block("6. A canary", 1)
    wait_until(lambda: machines.queued("rack2") == {"nic-db1"}, "the port has its queues", timeout_s=20)
    assert machines.queued("rack1") == set()
    wait_until(lambda: len(machines.queue_bytes("br-back:1")) == 8, "the port's queues count", timeout_s=20)
    limits = [machines.threshold("br-back:1")]
    first, second, *_ = machines.queue_bytes("br-back:1")
    size = 3_000_000
    machines.on("web1", f"iperf -c 10.9.0.21 -n {size}")
    wait_until(
        lambda: sum(machines.queue_bytes("br-back:1")[:2]) - first - second >= size,
        "all is counted",
        timeout_s=20,
    )
    limits.append(machines.threshold("br-back:1"))
    now = machines.queue_bytes("br-back:1")
    assert min(limits) * 0.5 <= now[0] - first <= max(limits) * 1.5 + 20_000, "the first bytes are in queue 0"
    assert now[1] - second >= size - 1.5 * max(limits) - 20_000, "the others are in queue 1"
    assert not any(now[2:])
    assert "congctl sluice_dctcp" in machines.on("web1", "ip route show 10.9.0.0/24")
    assert "sluice" not in machines.on("web1", "sysctl -n net.ipv4.tcp_congestion_control")


def test_rollback__takes_the_queues_away(machines: Machines) -> None:
    assert "queue_packets" in machines.follow_block("6. A canary", 2)
    machines.follow_block("6. A canary", 3)
    wait_until(lambda: not machines.queued("rack2"), "the port is as it was", timeout_s=20)
    assert machines.api("policy?limit=1")["current"]["policy"]["acts_at"] == []


def test_everywhere__thresholds_follow_the_traffic(machines: Machines) -> None:
    """The answers pass the port to web1, number 1 of br-front."""
    with machines.stream("web1", "db1"):
        machines.follow("7. Everywhere")
        time.sleep(3)
    ports = {
        "rack1": {"nic-web1", "nic-web2", "tor1"},
        "rack2": {"nic-db1", "nic-db2", "nic-plain", "nic-gw", "tor2"},
    }
    wait_until(
        lambda: all(machines.queued(rack) == ports[rack] for rack in ports),
        "all ports have queues",
        timeout_s=20,
    )
    machines.fetch("web1", "db1", 5, times=150)
    wait_until(lambda: machines.threshold("br-front:1") < 20_000, "it follows small flows", timeout_s=20)
    machines.fetch("web1", "db1", 500, times=60)
    wait_until(lambda: machines.threshold("br-front:1") > 100_000, "it follows larger flows", timeout_s=20)
    assert machines.all_reach(EVERYONE)


def test_controller_restart__changes_no_rule(machines: Machines) -> None:
    def rules() -> dict[str, set[str]]:
        """Without the senders that a switch remembers (table 6): they come and expire by themselves."""
        return {rack: {rule for rule in machines.rules(rack) if ", table=6," not in rule} for rack in BRIDGES}

    before = rules()
    with machines.stream("web1", "db1"):
        machines.on("hub", "systemctl restart sluice-controller")
        wait_until(lambda: machines.api("health").get("status") == "ok", "a controller leads", timeout_s=30)
    for rack, now in rules().items():
        assert not now ^ before[rack], rack


def test_add_a_server__it_works_at_once_and_then_has_a_name(machines: Machines) -> None:
    machines.follow_block("8. Add a server", 0)
    wait_until(lambda: machines.reaches("web3", "db1"), "the new server reaches others", timeout_s=10)
    shown = machines.tried("hub", "sluice network check network.toml")
    assert "nic-web3" in shown
    for number in range(1, 6):
        machines.follow_block("8. Add a server", number)
    wait_until(lambda: "web3" in machines.hosts(), "it has the name of its agent", timeout_s=20)
    time.sleep(2 * NAMES_S)
    machines.fetch("web3", "db1", 20, times=3)
    wait_until(lambda: len(machines.flows("db1", "web3")) >= 3, "its flows have its name", timeout_s=20)
    assert machines.reaches("outside", "web3")


def test_upgrade__drops_no_connection(machines: Machines) -> None:
    with machines.stream("web1", "db1"), machines.stream("web2", "db1"):
        machines.follow("9. Upgrade")
        wait_until(lambda: machines.versions() == {UPGRADE}, "all agents are new", timeout_s=60)
    assert machines.up_agents() == AGENTS | {"web3"}
    wait_until(lambda: machines.api("health").get("status") == "ok", "all is well", timeout_s=30)
    assert "nic-db1" in machines.queued("rack2"), "the ports have kept their queues"


def test_backup__brings_back_store_and_certificates(machines: Machines) -> None:
    policy = machines.api("policy?limit=1")["current"]
    with machines.stream("web1", "db1"):
        machines.follow("10. Backup")
        wait_until(lambda: machines.up_agents() == AGENTS | {"web3"}, "all agents report again", timeout_s=60)
    assert machines.api("policy?limit=1")["current"]["policy"] == policy["policy"]
    assert machines.on("hub", "sluice agents").count("valid") == len(AGENTS) + 1


def test_remove__leaves_everything_as_before(machines: Machines, before: dict[str, str]) -> None:
    with machines.stream("web1", "db1"):
        machines.follow("11. Remove Sluice")
        wait_until(lambda: machines.all_reach(EVERYONE), "the bridges forward", timeout_s=30)
    machines.on("rack1", "ovs-vsctl del-port br-front nic-web3")
    assert machines.switch_state("rack1").splitlines() == before["rack1"].splitlines()
    assert machines.switch_state("rack2").splitlines() == before["rack2"].splitlines()
    assert machines.host_state("web1").splitlines() == before["web1"].splitlines()
    for machine in ("hub", "rack1", "web1"):
        for path in ("etc/sluice", "var/lib/sluice", "usr/lib/sluice", "usr/bin/sluice"):
            left = machines.root(machine) / path
            assert not left.exists(), f"{machine} has {list(left.rglob('*'))[:3]}"
