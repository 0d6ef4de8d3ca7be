# SPDX-License-Identifier: Apache-2.0
"""`sluice exec`, `sluice shell` and `sluice capture` on a real testbed."""

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.commands.inside import capture, running_testbeds
from sluice.policy.errors import FieldError, SluiceError
from sluice.runtime.command import run
from sluice.topologies.testbed import Testbed

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def bed(start_testbed: Callable[..., Testbed]) -> Iterator[Testbed]:
    """Two hosts at a switch that connects them without a controller."""
    with start_testbed("single", parameters={"hosts": 2}) as bed:
        for rule in ("in_port=1,actions=output:2", "in_port=2,actions=output:1"):
            bed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "add-flow", "s1", rule])
        yield bed


def pid_of(bed: Testbed) -> int:
    (running,) = [found for found in running_testbeds() if found.folder == bed.settings.run_dir]
    return running.pid


def line(bed: Testbed, host: str, *program: str, command: str = "exec") -> list[str]:
    rest = ["--", *program] if program else []
    return [sys.executable, "-m", "sluice", command, host, "--testbed", str(pid_of(bed)), *rest]


def ended(bed: Testbed, host: str, *program: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = line(bed, host, *program)
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S)


def test_a_program_has_the_hosts_network_and_all_names_and_the_machine_keeps_its_own(bed: Testbed) -> None:
    before = Path("/etc/hosts").read_text(), os.uname().nodename
    programs = "ping -c 1 h1; ip addr show h2-eth0; getent hosts ip6-h1; grep -c h2 /etc/hosts; uname -n"
    said = ended(bed, "h2", "sh", "-c", programs).stdout
    assert "1 received" in said
    assert "10.0.0.2/16" in said
    assert [line.split() for line in said.splitlines()[-3:]] == [["fd00::1", "ip6-h1"], ["2"], ["h2"]]
    assert (Path("/etc/hosts").read_text(), os.uname().nodename) == before


def test_input_output_and_exit_status_are_the_programs(bed: Testbed) -> None:
    found = ended(bed, "h1", "sh", "-c", "cat; echo wrong >&2; exit 7", stdin="some text")
    assert (found.stdout, found.stderr, found.returncode) == ("some text", "wrong\n", 7)


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGINT])
def test_a_signal_ends_the_program(bed: Testbed, number: signal.Signals) -> None:
    process = subprocess.Popen(line(bed, "h1", "sh", "-c", "echo up; exec sleep 60"), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == -number
    process.stdout.close()


def test_what_cannot_start_says_why(bed: Testbed) -> None:
    missing = ended(bed, "h1", "no-such-program")
    assert (missing.returncode, missing.stdout) == (127, "")
    assert "there is no program no-such-program on this machine" in missing.stderr
    folder = ended(bed, "h1", "/etc/hosts")
    assert folder.returncode == 126
    assert "/etc/hosts is not an executable file" in folder.stderr


def everything(terminal: int) -> str:
    """All that was written to a terminal whose other end is closed."""
    parts = []
    with suppress(OSError):  # EIO is the end
        while part := os.read(terminal, 4096):
            parts.append(part)
    return b"".join(parts).decode()


def test_a_shell_has_the_terminal(bed: Testbed) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"SHELL": "/bin/sh", "PS1": "$ "}
    process = subprocess.Popen(
        line(bed, "h2", command="shell"), stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    os.write(ours, b"tty; uname -n; exit 3\n")
    assert process.wait(TIMEOUT_S) == 3
    said = everything(ours).split()
    os.close(ours)
    assert any(word.startswith("/dev/pts/") for word in said)
    assert "h2" in said


def test_capture__the_packets_of_a_port(bed: Testbed, tmp_path: Path) -> None:
    out = tmp_path / "new" / "x.pcap"
    counted: list[int] = []
    thread = threading.Thread(
        target=lambda: counted.append(capture("s1:2", 1.5, out, testbed_pid=pid_of(bed)))
    )
    thread.start()
    while thread.is_alive():
        bed.exec("h1", ["ping", "-c", "3", "-i", "0.2", "10.0.0.2"])
    read = run(["tcpdump", "-n", "-r", str(out), "icmp"]).splitlines()
    assert any("10.0.0.1 > 10.0.0.2: ICMP echo request" in line for line in read)
    assert any("10.0.0.2 > 10.0.0.1: ICMP echo reply" in line for line in read)
    assert counted[0] >= len(read)
    assert [path.name for path in out.parent.iterdir()] == ["x.pcap"]


def test_capture__an_unknown_port_and_a_file_that_cannot_be_written(bed: Testbed, tmp_path: Path) -> None:
    with pytest.raises(FieldError, match="s1:1, s1:2"):
        capture("s7:1", 1.0, tmp_path / "x.pcap", testbed_pid=pid_of(bed))
    (tmp_path / "folder.pcap").mkdir()
    with pytest.raises(SluiceError, match="tcpdump"):
        capture("s1:1", 1.0, tmp_path / "folder.pcap", testbed_pid=pid_of(bed))
