# SPDX-License-Identifier: Apache-2.0
"""`sluice attach` and `detach` on a Mininet network of somebody else's script, whose links TCLink shapes."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import spawn
from sluice.runtime.wait import wait_until
from sluice.topologies.processes import children

SCRIPT = Path(__file__).with_name("foreign_network.py")
_APART = ["unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
HOSTS = ("h1", "h3", "h4")
PORTS = ("s1-eth1", "s1-eth2", "s2-eth1", "s2-eth2", "s2-eth3")
ADDRESS_OF_H3 = "10.0.0.2"
LISTEN = "127.0.0.1:8080"
"""In the network's namespace."""


class Foreign:
    """The network, in namespaces of its own, and `sluice attach` there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ovs, self.out = folder / "ovs", folder / "out"
        self.ovs.mkdir()
        self._script = spawn([*_APART, sys.executable, str(SCRIPT), str(self.ovs)], stdin=subprocess.PIPE)
        self._pid = wait_until(self._first_pid, "the script starts")

    def _first_pid(self) -> int | None:
        return next(iter(children(self._script.pid)), None)

    def is_ready(self) -> bool:
        assert self._script.poll() is None, "the script has ended"
        return (self.ovs / "ready").exists()

    def inside(self, argv: Sequence[str]) -> list[str]:
        """The command that runs another one where the script runs."""
        there = ["nsenter", f"--target={self._pid}", "--net", "--pid", "--mount", f"--wd={Path.cwd()}"]
        return [*there, "--", "env", f"OVS_RUNDIR={self.ovs}", *argv]

    def at(self, host: str, *argv: str) -> str:
        shell = self.run("pgrep", "-f", f"is mininet:{host}$").strip()
        return self.run("nsenter", f"--net=/proc/{shell}/ns/net", "--", *argv)

    def run(self, *argv: str) -> str:
        return run(self.inside(argv), timeout_s=120)

    def with_token(self, command: str, *words: str) -> list[str]:
        """A command that changes something, with the token that `sluice attach` names."""
        (token,) = re.findall(r"/run/\S+/token", (self.folder / "attach.log").read_text())
        options = ["--url", f"http://{LISTEN}", "--token-file", token]
        return [sys.executable, "-m", "sluice", command, *options, *words]

    def settings(self, hosts: Sequence[str] = HOSTS, ports: Sequence[str] = PORTS) -> dict[str, str]:
        """What Sluice could change on hosts and at ports, without counters."""
        tc = "tc qdisc show dev $0; tc class show dev $0"
        control = "cat /proc/sys/net/ipv4/tcp_congestion_control"
        shown = {port: self.run("sh", "-c", tc, port) for port in ports}
        shown |= {host: self.at(host, "sh", "-c", f"{tc}; {control}", f"{host}-eth0") for host in hosts}
        shown["OVSDB"] = self.run("ovs-vsctl", "--columns=name,qos,external_ids", "list", "port")
        return {
            place: re.sub(r" (refcnt|direct_packets_stat) \S+", "", text) for place, text in shown.items()
        }

    def attach(self) -> None:
        """Attach, and wait until hosts and ports do what the scheme wants."""
        words = ["attach", "--replace-qdiscs", "--scheme", "pias", "--out", str(self.out), "--listen", LISTEN]
        (self.folder / "attach.log").unlink(missing_ok=True)
        self.attached = spawn(
            self.inside([sys.executable, "-m", "sluice", *words]), log_file=self.folder / "attach.log"
        )
        wait_until(self._is_attached, "Sluice is attached")

    def _is_attached(self) -> bool:
        log = (self.folder / "attach.log").read_text()
        assert self.attached.poll() is None, log
        return "detach" in log

    def kill(self) -> None:
        """Kill `sluice attach`, and wait until all of its processes have ended with it."""
        self.run("pkill", "-9", "-f", "sluice attach")
        self.attached.wait(300)
        wait_until(lambda: "-m sluice" not in self.run("ps", "-eo", "args"), "its processes have ended")

    def answer(self, path: str) -> Any:
        """What the REST API says, in the namespace of the network."""
        ask = f"import urllib.request as u; print(u.urlopen('http://{LISTEN}/api/v1/{path}').read().decode())"
        return json.loads(self.run(sys.executable, "-c", ask))

    def close(self) -> None:
        self._script.kill()  # all of its namespace end with it
        self._script.wait(300)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    foreign = Foreign(tmp_path_factory.mktemp("foreign"))
    try:
        wait_until(foreign.is_ready, "the network is ready")
        yield foreign
    finally:
        foreign.close()


@pytest.fixture(scope="module")
def before(foreign: Foreign) -> dict[str, str]:
    return foreign.settings()


def test_refused__without_leave_to_replace_qdiscs(foreign: Foreign, before: dict[str, str]) -> None:
    with pytest.raises(CommandFailed, match="--replace-qdiscs: is needed, because s1-eth1 has a qdisc"):
        foreign.run(sys.executable, "-m", "sluice", "attach", "--listen", LISTEN)
    assert foreign.settings() == before


def test_attached__hosts_tag_ports_queue_and_flows_are_recorded(
    foreign: Foreign, before: dict[str, str]
) -> None:
    foreign.attach()
    assert foreign.answer("health")["problems"] == []
    switches = foreign.answer("topology")["topology"]
    assert {(port["switch"], port["peer"]) for port in switches["ports"]} == {
        ("s1", "h1"),
        ("s1", "s2"),
        ("s2", "h3"),
        ("s2", "h4"),
        ("s2", "s1"),
    }
    assert {port["rate_bps"] for port in switches["ports"]} == {20_000_000}
    (foreign.folder / "policy.toml").write_text('scheme = "pias"\nidle_gap_ms = 60000\n')
    foreign.run(*foreign.with_token("policy", "set", str(foreign.folder / "policy.toml")))
    serve = "import socket; s = socket.create_server(('', 5000)); c, _ = s.accept(); c.makefile('rb').read()"
    send = f"import socket; socket.create_connection(('{ADDRESS_OF_H3}', 5000)).sendall(bytes(3_000_000))"
    shell = foreign.run("pgrep", "-f", "is mininet:h3$").strip()
    server = spawn(
        foreign.inside(["nsenter", f"--net=/proc/{shell}/ns/net", "--", sys.executable, "-c", serve])
    )
    wait_until(lambda: ":5000" in foreign.at("h3", "ss", "-ltn"), "the server listens")
    foreign.at("h1", sys.executable, "-c", send)
    server.wait(300)

    def flow() -> dict[str, Any] | None:
        return next((each for each in foreign.answer("flows")["flows"] if each["bytes"] == 3_000_000), None)

    found = wait_until(flow, "the flow is recorded")
    assert (found["src"], found["dst"], found["scheme"]) == ("h1", "h3", "pias")

    def demoted() -> bool:
        """Whether the flow has used several queues on its way. It never counts as idle, however slow the machine is."""
        packets = foreign.answer("ports")["now"]["s1:2"]["queue_packets"]
        return bool(sum(packets) > 2000 and sum(count > 20 for count in packets) >= 3)

    wait_until(demoted, "the queues count the flow")


def test_detached__the_network_is_as_it_was(foreign: Foreign, before: dict[str, str]) -> None:
    assert foreign.settings() != before
    assert "The network is as it was." in foreign.run(sys.executable, "-m", "sluice", "detach")
    assert foreign.settings() == before
    assert "Sluice is not attached here." in foreign.run(sys.executable, "-m", "sluice", "detach")


def test_killed__the_next_one_or_detach_gives_the_network_back(
    foreign: Foreign, before: dict[str, str]
) -> None:
    foreign.attach()
    foreign.kill()
    foreign.attach()
    ports = foreign.answer("topology")["topology"]["ports"]
    assert {port["rate_bps"] for port in ports} == {20_000_000}, "not those of the queues that were left"
    foreign.kill()
    assert foreign.settings() != before
    foreign.run(sys.executable, "-m", "sluice", "detach")
    assert foreign.settings() == before


def test_a_host_ends__sluice_gives_back_the_others_and_ends(foreign: Foreign, before: dict[str, str]) -> None:
    """As after `mn -c`."""
    foreign.attach()
    foreign.run("pkill", "-9", "-f", "is mininet:h4$")
    assert foreign.attached.wait(300) == 0
    assert "The Mininet network has ended." in (foreign.folder / "attach.log").read_text()
    after = foreign.settings(HOSTS[:2], [port for port in PORTS if port != "s2-eth2"])
    assert after | {"OVSDB": ""} == {place: before[place] for place in after} | {"OVSDB": ""}
    assert "sluice" not in after["OVSDB"]
