# SPDX-License-Identifier: Apache-2.0
"""A testbed: reachability, frames, rates, the settings of its hosts, and commands that look into it."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import pytest

from sluice.commands.inside import capture, running_testbeds
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.schemes.ports import port_burst_bytes
from sluice.runtime.command import run
from sluice.runtime.wait import wait_until
from sluice.topologies import measure, ovs
from sluice.topologies.measure import Sender
from sluice.topologies.testbed import Testbed
from tests.net.conftest import RATE_BPS, install, iperf_server


def counter(bed: Testbed, host: str, name: str) -> int:
    """Return a kernel counter of the host since its network namespace was made."""
    counters = json.loads(bed.exec(host, ["nstat", "-a", "-s", "-z", "-j", name]))
    return int(counters["kernel"][name])


def test_all_hosts_reach_each_other_by_both_families(testbed: Testbed) -> None:
    for source, to in combinations(testbed.topology.hosts, 2):
        for address in (to.ipv4, to.ipv6):
            testbed.exec(source.name, ["ping", "-c", "1", "-W", "60", address])


@pytest.fixture(scope="module")
def small(start_testbed: Callable[..., Testbed]) -> Iterator[Testbed]:
    """Two hosts at 1 Mb/s, with a transport of their own, and no rules."""
    parameters = {"hosts": 2, "host_rate_bps": 1_000_000}
    with start_testbed("single", parameters=parameters, rto_min_ms=7, initial_window=3) as bed:
        yield bed


def test_without_rules_nothing_passes(small: Testbed) -> None:
    small.ovs(["ovs-ofctl", "-O", "OpenFlow13", "del-flows", "s1"])
    text = small.exec("h1", ["sh", "-c", "ping -c 2 -i 0.1 -W 1 10.0.0.2 || true"])
    assert "100% packet loss" in text


@pytest.mark.parametrize(("address", "headers"), [("10.0.0.1", 28), ("fd00::1", 48)])
def test_full_packets_pass_unfragmented_and_longer_ones_do_not_leave(
    testbed: Testbed, address: str, headers: int
) -> None:
    ping = ["ping", "-M", "do", "-c", "3", "-i", "0.05", "-W", "2"]
    testbed.exec("h2", [*ping, "-s", str(1500 - headers), address])
    text = testbed.exec("h2", ["sh", "-c", f"{' '.join(ping)} -s {1501 - headers} {address} 2>&1 || true"])
    assert "100% packet loss" in text


def tcp_goodput_bps(bed: Testbed, for_s: int) -> int:
    """Return the rate of iperf from h2 to h1."""
    server = iperf_server(bed, "h1", "5001")
    text = bed.exec("h2", ["iperf", "-c", "10.0.0.1", "-t", str(for_s), "-f", "k", "-y", "C"])
    server.kill()
    server.wait()
    return int(text.strip().split(",")[-1])


def test_checksums_survive_tag_queue_and_mark(testbed: Testbed, tmp_path: Path) -> None:
    """Marking changes the IPv4 header in the switch. The kernel counts bad sums, and tcpdump computes them again."""
    testbed.set_marking(1_000)  # less than a packet
    capture = tmp_path / "capture.txt"
    tcpdump = ["tcpdump", "-l", "-n", "-vv", "--immediate-mode", "-i", "h1-eth0", "-c", "400", "udp or tcp"]
    watching = testbed.spawn("h1", tcpdump, log_file=capture)
    wait_until(lambda: "listening on" in capture.read_text(), "tcpdump listens")
    for to in ("10.0.0.1", "fd00::1"):
        # The port's buffer holds what must wait, 300 KB at most.
        senders = [Sender(host, to, tags=range(1, 41), ecn=2, count=280) for host in ("h2", "h3")]
        got = measure.transmit(testbed, "h1", senders)
        assert got.packets == 560
        assert any(tos & 3 == 3 for tos in got.tos), "the port marked some packets"
    assert watching.wait(300) == 0
    text = capture.read_text()
    assert "udp sum ok" in text
    assert "bad" not in text
    testbed.set_marking(None)
    assert tcp_goodput_bps(testbed, 1) > 0
    for name in ("IpExtInCsumErrors", "UdpInCsumErrors", "Udp6InCsumErrors", "TcpInCsumErrors"):
        assert counter(testbed, "h1", name) == 0


@pytest.mark.timing
def test_tcp_carries_data_at_the_link_rate_without_loss(testbed: Testbed) -> None:
    before = counter(testbed, "h2", "TcpRetransSegs")
    assert tcp_goodput_bps(testbed, 3) == pytest.approx(RATE_BPS * 1448 / 1514, rel=0.05)
    assert counter(testbed, "h2", "TcpRetransSegs") - before <= 1, "no packet is lost on an idle path"


@pytest.mark.timing
def test_a_host_sends_at_its_link_rate(testbed: Testbed) -> None:
    got = measure.transmit(testbed, "h1", [Sender("h2", "10.0.0.1", size_bytes=1400, for_s=2.0)])
    # The rate is lower on a busy machine, because a host's shaper does not make up for late timers.
    assert 0.9 * RATE_BPS < got.rate_bps < 1.03 * RATE_BPS


def test_nothing_is_lost_outside_the_queues(testbed: Testbed) -> None:
    before = testbed.losses()
    senders = [Sender(host, "10.0.0.1", size_bytes=100, for_s=0.5) for host in ("h2", "h3")]
    measure.transmit(testbed, "h1", senders)
    assert testbed.losses() == before


def test_offloads_are_off_and_every_segment_is_one_packet(testbed: Testbed) -> None:
    for host, interface in ((None, "s1-eth1"), ("h1", "h1-eth0")):
        features = testbed.exec(host, ["ethtool", "-k", interface])
        for name in (
            "tx-checksumming",
            "tcp-segmentation-offload",
            "generic-segmentation-offload",
            "generic-receive-offload",
        ):
            assert f"{name}: off" in features
        (link,) = json.loads(testbed.exec(host, ["ip", "-d", "-j", "link", "show", interface]))
        assert link["gso_max_segs"] == 1
        assert link["mtu"] == (port_burst_bytes(RATE_BPS) if host is None else 1500)


def test_hosts_have_the_transport_of_the_settings(small: Testbed) -> None:
    read = small.exec("h1", ["sysctl", "-n", "net.ipv4.tcp_ecn", "net.ipv4.tcp_no_metrics_save"])
    assert read.split() == ["1", "1"]
    for family in ("-4", "-6"):
        assert "initcwnd 3" in small.exec("h1", ["ip", family, "route", "show", "dev", "h1-eth0"])
    rto = small.exec(
        "h1", ["sh", "-c", "sysctl -n net.ipv4.tcp_rto_min_us 2>&1 || ip route show dev h1-eth0"]
    )
    assert rto.strip() == "7000" or "rto_min 7ms" in rto


def test_the_switch_has_large_packet_sockets(testbed: Testbed) -> None:
    pid = testbed.pids["ovs-vswitchd"]
    assert ovs.smallest_send_buffer(pid) >= ovs.SEND_BYTES
    text = testbed.exec(None, ["ss", "-0", "-H", "-n", "-m", "-O"])
    assert len(re.findall(r"rb(\d+)", text)) == 5, "one for each port, and the sending one"
    assert min(map(int, re.findall(r"rb(\d+)", text))) >= ovs.RECEIVE_BYTES


def test_the_machines_settings_stay(testbed: Testbed) -> None:
    """A testbed must not change the defaults of new sockets, because they belong to the whole machine."""
    assert int(Path("/proc/sys/net/core/wmem_default").read_text()) < ovs.SEND_BYTES


@pytest.mark.timing
def test_counters_advance_every_100_ms(testbed: Testbed) -> None:
    sender = Sender("h2", "10.0.0.1", tags=(3,), pause_s=0.002)
    with measure.Receiver(testbed, "h1", idle_s=2.0), measure.sending(testbed, sender):
        gaps_s = sorted(measure.counter_gaps_s(testbed, "s1", "table=1,metadata=1,ip,ip_dscp=3", changes=30))
    assert gaps_s[len(gaps_s) // 2] < 0.11, "Open vSwitch's least interval, and the time to read the counter"
    assert gaps_s[-1] < 0.25


def test_leaf_spine__every_pair_is_connected_despite_a_dead_link(
    start_testbed: Callable[..., Testbed],
) -> None:
    parameters = {"leaves": 3, "spines": 2, "hosts_per_leaf": 1, "down": ["s1-s4"]}
    with start_testbed("leaf-spine", parameters=parameters) as bed:
        install(bed)
        names = [host.name for host in bed.topology.hosts]
        for source, to in zip(names, names[1:] + names[:1], strict=True):
            bed.exec(source, ["ping", "-c", "1", "-W", "60", bed.topology.host_by_name[to].ipv6])
        assert set(bed.port_agent_state().attached) == {port.interface for port in bed.topology.ports}
        for end in ("s1-eth2", "s4-eth1"):
            assert "DOWN" in bed.exec(None, ["ip", "link", "show", end])


def test_two_testbeds_side_by_side_do_not_meet(small: Testbed, testbed: Testbed) -> None:
    install(small)
    assert small.pids.keys() == testbed.pids.keys()
    assert not set(small.pids.values()) & set(testbed.pids.values())
    before, other = (measure.queue_packets(bed, "s1:1") for bed in (testbed, small))
    measure.transmit(small, "h1", [Sender("h2", "10.0.0.1", tags=(5,), count=50)])
    assert measure.queue_packets(small, "s1:1")[5] == other[5] + 50
    assert measure.queue_packets(testbed, "s1:1")[5] == before[5]


def test_losses__a_loss_outside_the_queues_is_counted(small: Testbed) -> None:
    """Shortens a kernel queue, because the count that guards every result must detect such losses."""
    install(small)
    assert small.losses() == {}
    small.exec(None, ["tc", "qdisc", "replace", "dev", "s1-eth1", "parent", "10:1", "pfifo", "limit", "2"])
    small.exec("h2", ["tc", "qdisc", "del", "dev", "h2-eth0", "root"])
    got = measure.transmit(small, "h1", [Sender("h2", "10.0.0.1", count=100)])
    assert got.packets < 100
    assert small.losses()["queues of s1-eth1"] > 0


# ── sluice exec, shell and capture ─────────────────────────────────────────────────────────────


TIMEOUT_S = 300.0


def pid_of(testbed: Testbed) -> int:
    (running,) = [found for found in running_testbeds() if found.folder == testbed.settings.run_dir]
    return running.pid


def line(testbed: Testbed, host: str, *program: str, command: str = "exec") -> list[str]:
    rest = ["--", *program] if program else []
    return [sys.executable, "-m", "sluice", command, host, "--testbed", str(pid_of(testbed)), *rest]


def ended(testbed: Testbed, host: str, *program: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = line(testbed, host, *program)
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S)


def test_a_program_has_the_hosts_network_and_all_names_and_the_machine_keeps_its_own(
    testbed: Testbed,
) -> None:
    """Input, output and exit status are the program's."""
    before = Path("/etc/hosts").read_text(), os.uname().nodename
    programs = "ping -c 1 h1; ip addr show h2-eth0; getent hosts ip6-h1; grep -c h2 /etc/hosts; uname -n"
    found = ended(testbed, "h2", "sh", "-c", f"{programs}; cat; echo wrong >&2; exit 7", stdin="some text")
    assert "1 received" in found.stdout
    assert "10.0.0.2/16" in found.stdout
    *_, ipv6, hosts, name, text = found.stdout.splitlines()
    assert (ipv6.split(), hosts, name, text) == (["fd00::1", "ip6-h1"], "2", "h2", "some text")
    assert (found.stderr, found.returncode) == ("wrong\n", 7)
    assert (Path("/etc/hosts").read_text(), os.uname().nodename) == before


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGINT])
def test_a_signal_ends_the_program(testbed: Testbed, number: signal.Signals) -> None:
    process = subprocess.Popen(
        line(testbed, "h1", "sh", "-c", "echo up; exec sleep 60"), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == -number
    process.stdout.close()


def test_what_cannot_start_says_why(testbed: Testbed) -> None:
    missing = ended(testbed, "h1", "no-such-program")
    assert (missing.returncode, missing.stdout) == (127, "")
    assert "there is no program no-such-program on this machine" in missing.stderr
    folder = ended(testbed, "h1", "/etc/hosts")
    assert folder.returncode == 126
    assert "/etc/hosts is not an executable file" in folder.stderr


def everything(terminal: int) -> str:
    """All that was written to a terminal whose other end is closed."""
    parts = []
    with suppress(OSError):  # EIO is the end
        while part := os.read(terminal, 4096):
            parts.append(part)
    return b"".join(parts).decode()


def test_a_shell_has_the_terminal(testbed: Testbed) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"SHELL": "/bin/sh", "PS1": "$ "}
    process = subprocess.Popen(
        line(testbed, "h2", command="shell"), stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    os.write(ours, b"tty; uname -n; exit 3\n")
    assert process.wait(TIMEOUT_S) == 3
    said = everything(ours).split()
    os.close(ours)
    assert any(word.startswith("/dev/pts/") for word in said)
    assert "h2" in said


def test_capture__the_packets_of_a_port(testbed: Testbed, tmp_path: Path) -> None:
    out = tmp_path / "new" / "x.pcap"
    counted: list[int] = []
    thread = threading.Thread(
        target=lambda: counted.append(capture("s1:2", 1.5, out, testbed_pid=pid_of(testbed)))
    )
    thread.start()
    while thread.is_alive():
        testbed.exec("h1", ["ping", "-c", "3", "-i", "0.2", "10.0.0.2"])
    read = run(["tcpdump", "-n", "-r", str(out), "icmp"]).splitlines()
    assert any("10.0.0.1 > 10.0.0.2: ICMP echo request" in line for line in read)
    assert any("10.0.0.2 > 10.0.0.1: ICMP echo reply" in line for line in read)
    assert counted[0] >= len(read)
    assert [path.name for path in out.parent.iterdir()] == ["x.pcap"]


def test_capture__an_unknown_port_and_a_file_that_cannot_be_written(testbed: Testbed, tmp_path: Path) -> None:
    with pytest.raises(FieldError, match="s1:1, s1:2"):
        capture("s7:1", 1.0, tmp_path / "x.pcap", testbed_pid=pid_of(testbed))
    (tmp_path / "folder.pcap").mkdir()
    with pytest.raises(SluiceError, match="tcpdump"):
        capture("s1:1", 1.0, tmp_path / "folder.pcap", testbed_pid=pid_of(testbed))
