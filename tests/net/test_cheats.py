# SPDX-License-Identifier: Apache-2.0
"""The controller names a host with wrong tags, demotes it, and restores it when its tags are right again."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.checks.hostile import attacker
from sluice import topologies
from sluice.controller.policing.hosts import ALL_URGENT
from sluice.controller.tables import Table, cookie
from sluice.policy import tags
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from sluice.store import observed
from sluice.webui.app import create_app
from tests.net.controlled import Controlled

POLICY = {"scheme": "pias", "queues": 2, "thresholds": ["1MB"], "urgent_first": True}
TOP = tags.ATTAINED_FIRST
LINK_BPS = 30_000_000

SINK = """
import collections, json, pathlib, socket, sys, threading, time
got, out = collections.Counter(), pathlib.Path(sys.argv[1])
def drain(connection, peer):
    while data := connection.recv(1 << 18):
        got[peer] += len(data)
        if data[-1:] == b"?":
            connection.sendall(b"!")
def accept(listener):
    while True:
        connection, peer = listener.accept()
        threading.Thread(target=drain, args=(connection, peer[0]), daemon=True).start()
threading.Thread(target=accept, args=(socket.create_server(("0.0.0.0", 5000), backlog=512),), daemon=True).start()
while True:
    new = out.with_suffix(".new")
    new.write_text(json.dumps(got))
    new.rename(out)
    time.sleep(0.05)
"""

STREAM = """
import socket, sys, time
address, dscp = sys.argv[1], int(sys.argv[2])
s = socket.create_connection((address, 5000))
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
print(time.time(), flush=True)
while True:
    s.sendall(b"x" * 65536)
"""

TAGGER = """
import signal, sys
from sluice.dataplane.tagger import Tagger
tagger = Tagger()
tagger.attach(sys.argv[1])
print("ready", flush=True)
signal.pause()
"""

ENDS = """
import atexit, signal, socket, sys, time
address, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
count = 0
atexit.register(lambda: print(count))
signal.signal(signal.SIGALRM, lambda *_: sys.exit())
signal.alarm(18)
"""
"""How both programs begin. The timeouts of a connection with many losses grow to a minute; the end waits for none."""

MANY_CONNECTIONS = f"""{ENDS}
while time.monotonic() < until:
    s = socket.create_connection((address, 5000))
    s.sendall(b"x" * 3000 + b"?")
    s.recv(1)
    s.close()
    count += 1
"""

PERSISTENT = f"""{ENDS}
connections = [socket.create_connection((address, 5000)) for _ in range(20)]
while time.monotonic() < until:
    began = time.monotonic()
    for s in connections:
        s.sendall(b"x" * 2400 + b"?")
    for s in connections:
        count += len(s.recv(1))
    time.sleep(max(0, began + 0.0125 - time.monotonic()) + 0.0105)
"""


class Network(Controlled):
    """Six hosts on a switch, a sink on h1, and the API over the same store."""

    def __init__(self, folder: Path) -> None:
        super().__init__(topologies.build("single", hosts=6, host_rate_bps=LINK_BPS), folder, POLICY)
        self.api = create_app(self.engine, "token").test_client()
        self.got_file = folder / "got.json"
        self.streams: list[subprocess.Popen[bytes]] = []
        self.start_controller()
        self.wait_applied()
        self.spawn_python("h1", SINK, self.got_file)
        wait_until(self.got_file.exists, "the sink listens")

    def address(self, host: str) -> str:
        return self.topology.host_by_name[host].ipv4

    def got(self, host: str) -> int:
        """Return the bytes that the sink has received from a host."""
        return int(json.loads(self.got_file.read_text()).get(self.address(host), 0))

    def tagger(self, host: str) -> None:
        """Tag the host's packets, as its agent would."""
        self.spawn_python(host, TAGGER, f"{host}-eth0").wait_printed("ready")

    def stream(self, host: str, dscp: int) -> subprocess.Popen[bytes]:
        """Send without end under one tag."""
        script = self.spawn_python(host, STREAM, self.address("h1"), dscp)
        self.streams.append(script.process)
        script.wait_printed("\n", interval_s=0.01)
        return script.process

    def sanctions(self) -> dict[str, dict[str, Any]]:
        """Return the sanctions in force by host, as the API answers them."""
        answer = self.api.get("/api/v1/sanctions")
        assert answer.status_code == 200
        return {row["host"]: row for row in answer.get_json()["sanctions"]}

    def events(self, kind: str) -> list[Any]:
        """Return the documents of all events of a kind."""
        return [e["document"] for e in observed.events_of(self.engine, kind, 0)]

    def wait_named(self, host: str) -> None:
        """Wait until the API names the host."""
        wait_until(lambda: host in self.sanctions(), f"the API names {host}")

    def wait_restored(self, host: str) -> None:
        """Wait until the API no longer names the host."""
        wait_until(lambda: host not in self.sanctions(), f"{host} is restored")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """h3 and h4 have a tagger and are honest. The other hosts have none."""
    network = Network(tmp_path_factory.mktemp("cheats"))
    network.tagger("h3")
    network.tagger("h4")
    yield network
    network.close()


@pytest.fixture(autouse=True)
def amnesty(network: Network) -> Iterator[None]:
    """After each test, no host sends, and the controller knows of no wrong tags."""
    network.apply(POLICY)
    yield
    for process in network.streams:
        stop(process)
    network.streams.clear()
    network.apply(POLICY | {"tag_burst": 0})
    wait_until(lambda: not network.sanctions(), "no host is demoted")


@pytest.fixture
def long_flow(network: Network) -> None:
    """An honest flow that is long enough for the last queue."""
    network.stream("h3", 0)
    before = network.got("h3")
    wait_until(lambda: network.got("h3") - before > 2_000_000, "the honest flow is long")


def test_a_host_with_top_priority_tags_is_named_and_loses_its_gain(network: Network, long_flow: None) -> None:
    cheat = network.stream("h2", TOP)
    network.wait_named("h2")
    row = network.sanctions()["h2"]
    assert (row["port"], row["tag"], row["offences"]) == ("s1:2", TOP, 1)
    assert row["sent_bytes"] > row["limit_bytes"]
    assert network.address("h2") in row["flow"]
    demoted = cookie(Table.INGRESS, 2, tags.BACKGROUND, 0)
    wait_until(
        lambda: network.rules("s1", Table.INGRESS)[demoted].packets > 100,
        "the host's traffic is background traffic",
    )
    first, last = network.queue_packets("s1", 1)[:2]
    assert row["rate_bps"] == 0.05 * LINK_BPS
    wait_until(lambda: network.queue_packets("s1", 1)[1] > last + 1000, "both flows send")
    assert network.queue_packets("s1", 1)[0] - first < 100
    stop(cheat)
    network.wait_restored("h2")
    assert network.events("host-demoted")[-1]["host"] == "h2"
    assert network.events("host-restored")[-1]["host"] == "h2"
    assert demoted_rules(network) == 0
    assert not meters(network)


def meters(network: Network) -> str:
    """Return the meters of the switch, without the header of the answer."""
    text = network.ofctl("dump-meters", "s1")
    return "".join(line for line in text.splitlines() if "meter=" in line)


def demoted_rules(network: Network) -> int:
    return sum("set_field" in rule.actions for rule in network.rules("s1", Table.EDGE).values())


def test_a_sanction_outlives_the_controller_and_a_change_of_scheme(network: Network) -> None:
    network.stream("h5", TOP)
    network.wait_named("h5")
    row, restored = network.sanctions()["h5"], len(network.events("host-restored"))
    wait_until(lambda: demoted_rules(network) == 6, "the rules are installed")
    before, limit = network.rules("s1", Table.EDGE), meters(network)
    assert "meter=" in limit
    network.kill_controller()
    network.take_over()
    after = network.rules("s1", Table.EDGE)
    assert {n: rule.actions for n, rule in after.items()} == {n: rule.actions for n, rule in before.items()}
    assert all(after[n].duration_s > before[n].duration_s for n in before), (
        "the controller wrote no rule again"
    )
    assert meters(network) == limit
    network.apply({"scheme": "mlfq-adaptive", "queues": 2})
    assert demoted_rules(network) == 6
    assert meters(network) == limit
    assert network.sanctions()["h5"] == row
    assert len(network.events("host-restored")) == restored
    network.tagger("h5")
    network.wait_restored("h5")
    received = network.got("h5")
    wait_until(lambda: network.got("h5") > received + 1_000_000, "the flow continues with right tags")
    assert not network.sanctions()


def test_a_host_without_an_agent_has_no_urgency(network: Network) -> None:
    """No host of this network has one, so no deadline explains an urgency tag."""
    network.apply({"scheme": "aemon"})
    forger = network.stream("h2", tags.URGENCY_LAST)
    network.wait_named("h2")
    row = network.sanctions()["h2"]
    assert (row["tag"], row["flow"]) == (tags.URGENCY_LAST, ALL_URGENT)
    first = network.queue_packets("s1", 1)
    wait_until(lambda: network.queue_packets("s1", 1)[-1] > first[-1] + 20, "it is background traffic")
    stop(forger)
    network.wait_restored("h2")


def test_no_host_is_demoted_if_tags_decide_nothing(network: Network) -> None:
    network.stream("h6", TOP)
    network.wait_named("h6")
    network.apply({"scheme": "tcp"})
    network.wait_restored("h6")
    assert demoted_rules(network) == 0


@pytest.mark.parametrize(
    ("traffic", "buffer_bytes"),
    [(PERSISTENT, 360_000), (MANY_CONNECTIONS, 9_000)],
    ids=["persistent", "many connections and retransmissions"],
)
def test_honest_hosts_are_suspected_at_most(network: Network, traffic: str, buffer_bytes: int) -> None:
    """Two hosts share a link. With a buffer of six packets, TCP sends many packets twice or more often."""
    network.bed.set_marking(None, buffer_bytes)
    accused = len(network.events("host-demoted"))
    network.stream("h4", 0)
    busy = network.spawn_python("h3", traffic, network.address("h1"), 5)
    watched: list[bool] = []

    def done() -> bool:
        watched.append(cookie(Table.EDGE, 3, 6, 0) in network.rules("s1", Table.EDGE))
        return busy.process.poll() is not None

    wait_until(done, "the busy host has finished", interval_s=0.2)
    assert int(busy.printed()) > 0
    if traffic == PERSISTENT:
        assert any(watched), "the switch counted its flows one by one"
    network.bed.set_marking(None)
    assert len(network.events("host-demoted")) == accused


@pytest.mark.parametrize("kind", ["no-ports", "fragments"])
def test_what_no_counter_can_name_does_not_stay_in_the_first_queue(network: Network, kind: str) -> None:
    """Tagged packets without ports, by far more than a network needs."""
    places = [f"{network.topology.host_by_name[host].mac},{network.address(host)}" for host in ("h6", "h1")]
    first, last = network.queue_packets("s1", 1)[:2]
    argv = [sys.executable, attacker.__file__, kind, "h6-eth0", *places, "500"]
    sender = network.bed.spawn("h6", argv)
    network.streams.append(sender)
    wait_until(lambda: network.queue_packets("s1", 1)[1] - last > 300, "the flood arrives")
    now_first, now_last = network.queue_packets("s1", 1)[:2]
    assert now_last - last > 4 * (now_first - first)
    assert not network.sanctions()
