# SPDX-License-Identifier: Apache-2.0
"""`sluice exec` and `sluice shell` on a real testbed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.testbeds import running_testbeds
from sluice.topologies.testbed import Testbed

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def bed(connected_pair: Testbed) -> Testbed:
    return connected_pair


def line(bed: Testbed, host: str, *program: str, command: str = "exec") -> list[str]:
    (running,) = [found for found in running_testbeds() if found.folder == bed.settings.run_dir]
    rest = ["--", *program] if program else []
    return [sys.executable, "-m", "sluice", command, host, "--testbed", str(running.pid), *rest]


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
