# SPDX-License-Identifier: Apache-2.0
"""`sluice capture` on a real testbed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import topologies
from policy.errors import FieldError, SluiceError
from runtime.command import run
from sluice.commands.capture import capture
from sluice.testbeds import running_testbeds
from topologies.testbed import Testbed

pytestmark = pytest.mark.net


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path_factory.mktemp("bed")
    with Testbed.start(topologies.build("single", hosts=2), folder, controller=None) as bed:
        for rule in ("in_port=1,actions=output:2", "in_port=2,actions=output:1"):
            bed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "add-flow", "s1", rule])
        yield bed


def pid_of(bed: Testbed) -> int:
    (running,) = [found for found in running_testbeds() if found.folder == bed.settings.run_dir]
    return running.pid


def test_capture__the_packets_of_a_port(bed: Testbed, tmp_path: Path) -> None:
    out = tmp_path / "new" / "x.pcap"
    counted: list[int] = []
    thread = threading.Thread(
        target=lambda: counted.append(capture("s1:2", 3.0, out, testbed_pid=pid_of(bed)))
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
