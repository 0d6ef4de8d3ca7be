# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.hostagent.reporter import LAST_RETRY_S, Courier, Reporter
from sluice.hostagent.spool import Spool
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import AgentSettings, heartbeat_document
from sluice.runtime.http_client import HttpClient
from sluice.runtime.wait import wait_until
from tests.kit.heartbeats import host_heartbeat
from tests.unit.hostagent.fake_web import FakeWeb
from tests.unit.hostagent.flows import record

pytestmark = pytest.mark.slow

SETTINGS = AgentSettings.of(3, Policy.from_document({"scheme": "tcp"}))


@pytest.fixture
def web() -> Iterator[FakeWeb]:
    # A short name, because a socket path has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="sluice-"))
    server = FakeWeb(folder / "web.sock")
    server.settings = write(SETTINGS)
    yield server
    server.stop()
    shutil.rmtree(folder)


class Bench:
    """A reporter with a spool. `applied` holds the settings that it applied."""

    def __init__(
        self, web: FakeWeb, folder: Path, apply: Callable[[AgentSettings], None] | None = None
    ) -> None:
        self.spool = Spool(folder)
        self.applied: list[AgentSettings] = []
        self.failures = 0
        client = HttpClient(web.target)
        self.reporter = Reporter(
            "h1",
            client,
            [Courier(self.spool, client.post)],
            host_heartbeat,
            apply or self.applied.append,
            self._failed,
        )

    def _failed(self) -> None:
        self.failures += 1


def test_heartbeats_carry_the_status_and_their_answers_are_applied(web: FakeWeb, tmp_path: Path) -> None:
    bench = Bench(web.start(), tmp_path)
    bench.reporter.start()
    wait_until(lambda: len(bench.applied) >= 2, "two heartbeats")
    bench.reporter.finish()
    assert web.heartbeats[0] == heartbeat_document(host_heartbeat())
    assert bench.applied[0] == SETTINGS


def test_records_are_delivered_while_it_runs_and_when_it_ends(web: FakeWeb, tmp_path: Path) -> None:
    bench = Bench(web.start(), tmp_path)
    bench.spool.append(record(1))
    bench.reporter.start()
    wait_until(lambda: "run/1" in web.records, "the first record")
    bench.spool.append(record(2))
    bench.reporter.finish()
    assert set(web.records) == {"run/1", "run/2"}
    assert bench.spool.depth == 0


def test_web_away__one_warning_and_then_retries(
    web: FakeWeb, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="sluice.hostagent.reporter")
    bench = Bench(web, tmp_path)
    bench.spool.append(record(1))
    bench.reporter.start()
    wait_until(lambda: bench.reporter._retry_s == LAST_RETRY_S, "the retries reach their longest pause")
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]
    web.start()
    wait_until(lambda: "run/1" in web.records, "the record arrives")
    wait_until(lambda: len(caplog.records) == 2, "the log says that the web process answers")
    assert "serves this agent again" in caplog.text
    bench.reporter.finish()


def test_finish__does_not_wait_without_limit(web: FakeWeb, tmp_path: Path) -> None:
    bench = Bench(web, tmp_path)
    bench.spool.append(record(1))
    bench.reporter.start()
    bench.reporter.finish()
    assert not bench.reporter.is_alive()
    assert bench.spool.depth == 1


def test_an_error_ends_the_agent_and_is_kept(web: FakeWeb, tmp_path: Path) -> None:
    def broken(settings: object) -> None:
        raise RuntimeError("a bug")

    bench = Bench(web.start(), tmp_path, broken)
    bench.reporter.start()
    bench.reporter.join(60)
    assert isinstance(bench.reporter.error, RuntimeError)
    assert bench.failures == 1


@pytest.mark.parametrize("answer", [[], "text", None])
def test_an_answer_that_is_no_object_is_not_applied(web: FakeWeb, tmp_path: Path, answer: object) -> None:
    web.settings = answer
    bench = Bench(web.start(), tmp_path)
    bench.reporter.start()
    wait_until(lambda: bench.reporter._is_away, "the reporter notes that the web process is away")
    bench.reporter.finish()
    assert bench.applied == []
