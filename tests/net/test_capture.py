# SPDX-License-Identifier: Apache-2.0
"""`sluice capture` on a real testbed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sluice.commands.capture import capture
from sluice.policy.errors import FieldError, SluiceError
from sluice.runtime.command import run
from sluice.testbeds import running_testbeds
from sluice.topologies.testbed import Testbed


@pytest.fixture(scope="module")
def bed(connected_pair: Testbed) -> Testbed:
    return connected_pair


def pid_of(bed: Testbed) -> int:
    (running,) = [found for found in running_testbeds() if found.folder == bed.settings.run_dir]
    return running.pid


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
