# SPDX-License-Identifier: Apache-2.0
"""`sluice capture`, and a capture through the API, on a real testbed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from sluice import topologies
from sluice.commands.capture import capture
from sluice.policy.errors import FieldError, SluiceError
from sluice.runtime.command import run
from sluice.runtime.wait import wait_until
from sluice.store.desired import put_topology
from sluice.store.engine import open_store
from sluice.testbeds import running_testbeds
from sluice.topologies.testbed import Testbed
from tests.web.conftest import TOKEN, Server

pytestmark = pytest.mark.net


@pytest.fixture(scope="module")
def bed(connected_pair: Testbed) -> Testbed:
    return connected_pair


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.start()
    yield server
    server.stop()


def test_api__the_port_agent_captures_and_delivers(web: Server, tmp_path: Path) -> None:
    """The request, the agent with tcpdump in the switches' namespace, and the file."""
    graph, folder = topologies.build("single", hosts=2), tmp_path / "bed"
    folder.mkdir()
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    captures = f"{web.url}/api/v1/captures"
    with Testbed.start(graph, folder, controller=None, web=f"unix:{web.socket_path}") as bed:
        for rule in ("in_port=1,actions=output:2", "in_port=2,actions=output:1"):
            bed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "add-flow", "s1", rule])
        engine = open_store(web.store_url)
        put_topology(engine, graph)
        engine.dispose()

        def begun() -> str:
            answer = requests.post(captures, json={"port": "s1:2", "seconds": 3}, headers=bearer, timeout=30)
            return str(answer.json().get("id", ""))

        capture = wait_until(begun, "the port agent reports its ports")

        def state() -> str:
            bed.exec("h1", ["ping", "-c", "3", "-i", "0.2", "10.0.0.2"])
            return str(requests.get(f"{captures}/{capture}", headers=bearer, timeout=30).json()["state"])

        wait_until(lambda: state() != "running", "the capture is delivered")
        found = requests.get(f"{captures}/{capture}", headers=bearer, timeout=30).json()
    assert (found["state"], found["problem"], found["full"]) == ("done", "", False)
    out = tmp_path / "x.pcap"
    out.write_bytes(requests.get(f"{captures}/{capture}/pcap", headers=bearer, timeout=30).content)
    read = run(["tcpdump", "-n", "-r", str(out), "icmp"]).splitlines()
    assert any("10.0.0.1 > 10.0.0.2: ICMP echo request" in line for line in read)
    assert any("10.0.0.2 > 10.0.0.1: ICMP echo reply" in line for line in read)
    assert found["packets"] >= len(read)


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
