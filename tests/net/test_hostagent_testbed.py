# SPDX-License-Identifier: Apache-2.0
"""Agents on a testbed's hosts. Their tags choose the queues of a real switch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from sluice.dataplane.link_queues import HANDLE
from sluice.hostagent.traffic import write_start
from sluice.policy.figures.metrics import ideal_fct_us
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.entries import write
from sluice.policy.tags import attained_tag
from sluice.policy.wire.agents import AgentSettings
from sluice.policy.wire.records import FINISHED, FlowRecord, ScheduledFlow
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from sluice.topologies.commands import LINK_CLASS
from sluice.topologies.testbed import Testbed
from tests.net.conftest import install
from tests.unit.hostagent.fake_web import FakeWeb

HOSTS = ("h1", "h2")
SPLIT_BYTES = 10_000
Run = Callable[[Sequence[ScheduledFlow]], dict[str, FlowRecord]]


@pytest.fixture
def web(testbed: Testbed) -> Iterator[FakeWeb]:
    with FakeWeb(testbed.settings.run_dir / "fake.sock") as server:
        policy = Policy.from_document({"scheme": "pias", "queues": 2, "thresholds": [SPLIT_BYTES]})
        server.settings = write(AgentSettings.of(1, policy))
        yield server


@pytest.fixture
def run(testbed: Testbed, web: FakeWeb, tmp_path: Path) -> Iterator[Run]:
    """run(flows) starts an agent on every host and returns the records, once all flows have one."""
    agents: list[subprocess.Popen[bytes]] = []
    install(testbed, lambda tag: 0 if tag <= attained_tag(SPLIT_BYTES) else 1)

    def run(flows: Sequence[ScheduledFlow]) -> dict[str, FlowRecord]:
        schedule = tmp_path / "schedule.json"
        addresses = {host.name: host.ipv4 for host in testbed.topology.hosts}
        document = {"scheme": "pias", "addresses": addresses, "flows": [asdict(f) for f in flows]}
        schedule.write_text(json.dumps(document))
        start_file = tmp_path / "start"
        web.heartbeats.clear()
        for host in HOSTS:
            argv = [sys.executable, "-m", "sluice", "agent", "--name", host, "--interface", f"{host}-eth0"]
            argv += ["--run-dir", str(tmp_path / host), "--web", web.target]
            argv += ["--schedule", str(schedule), "--start-file", str(start_file), "--queues-at", LINK_CLASS]
            agents.append(testbed.spawn(host, argv, log_file=tmp_path / f"{host}.log"))
        wait_until(
            lambda: len({beat["pid"] for beat in web.heartbeats}) == len(HOSTS),
            "the agents report",
        )
        write_start(start_file, time.time() + 0.5)
        wait_until(lambda: len(web.records) >= len(flows), "all records")
        assert {record.status for record in web.records.values()} == {FINISHED}
        return web.records

    yield run
    for agent in agents:
        stop(agent)


def flow(testbed: Testbed, number: int, start_s: float, src: str, dst: str, size_bytes: int) -> ScheduledFlow:
    ideal_us = ideal_fct_us(testbed.topology, src, dst, size_bytes)
    return ScheduledFlow(f"run/{number}", start_s, src, dst, size_bytes, "small", ideal_us, None)


def test_the_tag_of_each_packet_chooses_its_queue_and_no_flow_is_too_fast(testbed: Testbed, run: Run) -> None:
    """100 KB are 70 segments: 7 begin within the first 10 KB, 63 beyond. The closing RST comes after them."""
    before = testbed.port_counters("s1:1")
    records = run([flow(testbed, i, 0.1 * i, "h2", "h1", 100_000) for i in range(20)])
    after = testbed.port_counters("s1:1")
    first, second = (after[q].packets - before[q].packets for q in (0, 1))
    retransmissions = sum(record.retransmissions or 0 for record in records.values())
    assert 20 * 63 <= second <= 20 * 66 + retransmissions  # each flow has up to three packets without data
    assert first >= 20 * 9  # with the SYN and the handshake's ACK
    assert all(after[q].packets == before[q].packets for q in range(2, 8))
    at_host = [sent_on_link(testbed, "h2", queue) for queue in (0, 1)]
    assert at_host[0] >= 20 * 9
    assert 20 * 63 <= at_host[1] <= 20 * 66 + retransmissions
    # After a pause, the shapers of host and port send a few frames at once, so a flow may gain that time.
    assert all((record.fct_us or 0.0) > (record.ideal_us or 0.0) / 2 for record in records.values())


def sent_on_link(testbed: Testbed, host: str, queue: int) -> int:
    """Return the packets that a queue of a host's own link has sent."""
    text = testbed.exec(host, ["tc", "-s", "class", "show", "dev", f"{host}-eth0"])
    found = re.search(rf"class \w+ {HANDLE}{queue + 1} .*?Sent \d+ bytes (\d+) pkt", text, re.DOTALL)
    return int(found[1]) if found else 0
