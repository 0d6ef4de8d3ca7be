# SPDX-License-Identifier: Apache-2.0
"""Delivery over a real Unix socket, through lost answers, restarts on both sides and bad records."""

import logging
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.hostagent.agent import Agent
from sluice.hostagent.loop import Loop
from sluice.hostagent.reporter import LAST_RETRY_S, Channel, Courier, Reporter
from sluice.hostagent.spool import Spool
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import AgentSettings, heartbeat_document
from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.runtime.lifecycle import Notifier
from sluice.runtime.wait import wait_until
from tests.kit.flows import record
from tests.kit.heartbeats import host_heartbeat
from tests.unit.hostagent.fake_web import FakeWeb

SETTINGS = AgentSettings.of(3, Policy.from_document({"scheme": "tcp"}))


@pytest.fixture
def web() -> Iterator[FakeWeb]:
    # A short name, because a socket path has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="sluice-"))
    with FakeWeb(folder / "web.sock") as server:
        server.settings = write(SETTINGS)
        yield server
    shutil.rmtree(folder)


def deliver_all(courier: Courier) -> None:
    while courier.deliver():
        pass


def spooled(web: FakeWeb, folder: Path, *numbers: int) -> tuple[Spool, Courier]:
    """Return a spool with these records, and its courier."""
    spool = Spool(folder, segment_bytes=2000)
    for number in numbers:
        spool.append(record(number))
    return spool, Courier(spool, HttpClient(web.target).post)


def test_delivers_once_without_faults(web: FakeWeb, tmp_path: Path) -> None:
    deliver_all(spooled(web, tmp_path, *range(60))[1])
    assert len(web.deliveries) == 60
    assert set(web.deliveries.values()) == {1}


@pytest.mark.parametrize("seed", range(3))
def test_every_record_arrives_despite_kills_and_losses(web: FakeWeb, tmp_path: Path, seed: int) -> None:
    """The web process drops requests and answers and restarts. The agent is killed within a line."""
    rng = random.Random(seed)
    web.refuse_requests = web.lose_answers = 0.2
    (spool, courier), number = spooled(web, tmp_path), 0
    for _ in range(150):
        for _ in range(rng.randrange(4)):
            spool.append(record(number))
            number += 1
        act = rng.random()
        if act < 0.1:
            newest = max(tmp_path.glob("segment-*"))
            with newest.open("ab") as file:
                file.write(b'{"id":"torn')
            spool, courier = spooled(web, tmp_path)
        elif act < 0.2:
            web.stop()
            web.start()
        elif act < 0.3:
            spool.forget_before(spool.rotate())
        try:
            courier.deliver()
        except ServerAway:
            continue
    web.refuse_requests = web.lose_answers = 0.0
    deliver_all(courier)
    assert set(web.records) == {f"run/{i}" for i in range(number)}
    assert spool.depth == 0
    assert courier.refused == 0


def test_a_bad_record_goes_to_quarantine_and_the_others_arrive(web: FakeWeb, tmp_path: Path) -> None:
    spool, courier = spooled(web, tmp_path, *range(40))
    for segment in tmp_path.glob("segment-*.jsonl"):
        text = segment.read_text().replace('"run/17","src":"h1"', '"run/17","src":"h 1"')
        segment.write_text(text.replace('{"id":"run/30"', '{id:"run/30"'))
    deliver_all(courier)
    assert set(web.records) == {f"run/{i}" for i in range(40)} - {"run/17", "run/30"}
    assert courier.refused == 2
    quarantine = (tmp_path / "quarantine.jsonl").read_text()
    assert "src: must be a host" in quarantine
    assert len(quarantine.splitlines()) == 2
    assert spool.depth == 0


@pytest.mark.parametrize("status", [404, 503])
def test_a_failing_service_loses_no_record(web: FakeWeb, tmp_path: Path, status: int) -> None:
    _, courier = spooled(web, tmp_path, 1)
    web.flow_status = status
    with pytest.raises(ServerAway, match=str(status)):
        courier.deliver()
    web.flow_status = None
    deliver_all(courier)
    assert set(web.records) == {"run/1"}
    assert not (tmp_path / "quarantine.jsonl").exists()


class Bench:
    """A reporter with a record to deliver. `applied` holds the settings that it applied."""

    def __init__(
        self, web: FakeWeb, folder: Path, apply: Callable[[AgentSettings], None] | None = None
    ) -> None:
        self.spool = Spool(folder)
        self.spool.append(record(1))
        self.applied: list[AgentSettings] = []
        self.failures = 0
        client = HttpClient(web.target)
        self.reporter = Reporter(
            Channel("h1", client),
            [Courier(self.spool, client.post)],
            host_heartbeat,
            apply or self.applied.append,
            self._failed,
        )

    def _failed(self) -> None:
        self.failures += 1


@pytest.mark.slow
def test_heartbeats_are_answered_and_records_delivered_while_it_runs_and_when_it_ends(
    web: FakeWeb, tmp_path: Path
) -> None:
    bench = Bench(web, tmp_path)
    bench.reporter.start()
    wait_until(lambda: "run/1" in web.records, "the first record")
    wait_until(lambda: len(bench.applied) >= 2, "two heartbeats")
    bench.spool.append(record(2))
    bench.reporter.finish()
    assert web.heartbeats[0] == heartbeat_document(host_heartbeat())
    assert bench.applied[0] == SETTINGS
    assert set(web.records) == {"run/1", "run/2"}
    assert bench.spool.depth == 0


@pytest.mark.slow
def test_web_away__one_warning_and_then_retries(
    web: FakeWeb, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="sluice.hostagent.reporter")
    web.stop()
    bench = Bench(web, tmp_path)
    bench.reporter.start()
    wait_until(lambda: bench.reporter._retry_s == LAST_RETRY_S, "the retries reach their longest pause")
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]
    web.start()
    wait_until(lambda: "run/1" in web.records, "the record arrives")
    wait_until(lambda: len(caplog.records) == 2, "the log says that the web process answers")
    assert "serves this agent again" in caplog.text
    bench.reporter.finish()


@pytest.mark.slow
def test_finish__does_not_wait_without_limit(web: FakeWeb, tmp_path: Path) -> None:
    web.stop()
    bench = Bench(web, tmp_path)
    bench.reporter.start()
    bench.reporter.finish()
    assert not bench.reporter.is_alive()
    assert bench.spool.depth == 1


@pytest.mark.slow
def test_an_error_ends_the_agent_and_is_kept(web: FakeWeb, tmp_path: Path) -> None:
    def broken(settings: object) -> None:
        raise RuntimeError("a bug")

    bench = Bench(web, tmp_path, broken)
    bench.reporter.start()
    bench.reporter.join(300)
    assert isinstance(bench.reporter.error, RuntimeError)
    assert bench.failures == 1


# ── What an agent reports to systemd: both of its threads must turn ────────────────────────────


class Recorded(Notifier):
    """Keeps the reports. systemd wants one each 5 ms."""

    def __init__(self) -> None:
        super().__init__({})
        self.interval_s = 0.005
        self.reports: list[str] = []

    def ready(self, status: str) -> None:
        self.reports.append(status)

    def alive(self) -> None:
        self.reports.append("alive")


def reports(reporter_turned_s: float) -> list[str]:
    """Run the agent's loop for 40 ms."""
    agent: Any = object.__new__(Agent)
    agent._loop, agent._notifier = Loop(), Recorded()
    agent._cards = ("eth0",)
    agent._reporter = SimpleNamespace(turned_s=reporter_turned_s)
    agent._report_life()
    agent._loop.call_at(time.monotonic_ns() + 40_000_000, agent._loop.stop)
    agent._loop.run()
    found: list[str] = agent._notifier.reports
    return found


def test_an_agent_is_ready_and_then_alive() -> None:
    first, *rest = reports(time.monotonic())
    assert first == "tags packets on eth0"
    assert len(rest) >= 2
    assert set(rest) == {"alive"}


@pytest.mark.parametrize("silent_s", [21.0, 1000.0])
def test_a_reporter_that_hangs_is_not_reported_alive(silent_s: float) -> None:
    assert reports(time.monotonic() - silent_s) == ["tags packets on eth0"]
