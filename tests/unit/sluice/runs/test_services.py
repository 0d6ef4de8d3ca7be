# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from sluice.policy.errors import SluiceError
from sluice.runs.services import Services
from sluice.runtime.lifecycle import Watchdog
from sluice.runtime.process import spawn
from sluice.runtime.wait import wait_until


def test_check__restarts_what_died() -> None:
    services = Services()
    service = services.start("sleeper", lambda _: spawn(["sleep", "600"]))
    first = service.process
    first.kill()
    first.wait()
    services.check()
    assert service.process.pid != first.pid
    assert service.restarts == 1
    services.stop()
    assert service.process.returncode is not None
    assert services.running == []


def test_check__gives_up_on_what_keeps_dying() -> None:
    services = Services()
    service = services.start("broken", lambda _: spawn(["false"]))

    def gives_up() -> str:
        service.process.wait()
        try:
            services.check()
        except SluiceError as error:
            return str(error)
        return ""

    assert "broken ends right after each start" in wait_until(gives_up, "the supervisor gives up")


def test_stop__only_those_with_the_prefix() -> None:
    services = Services()
    for name in ("web", "agent-h1", "agent-h2"):
        services.start(name, lambda _: spawn(["sleep", "600"]))
    services.stop("agent-")
    assert [service.name for service in services.running] == ["web"]
    assert services["web"].process.poll() is None
    services.stop()


def test_check__stays_quiet_while_all_live() -> None:
    services = Services()
    services.start("sleeper", lambda _: spawn(["sleep", "600"]))
    services.check()
    assert services["sleeper"].restarts == 0
    with pytest.raises(StopIteration):
        services["nobody"]
    services.stop()


_LIVING = """
import time
from sluice.runtime.lifecycle import Notifier
notifier = Notifier()
notifier.ready("lives")
while True:
    notifier.alive()
    time.sleep(0.05)
"""


def test_check__restarts_what_lives_but_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.runs.services.Watchdog", partial(Watchdog, limit_s=2.0))
    services = Services(tmp_path)
    service = services.start("living", lambda env: spawn([sys.executable, "-c", _LIVING], env=env))
    first = service.process

    def checked() -> int:
        services.check()
        return service.restarts

    with pytest.raises(TimeoutError):
        wait_until(checked, "a living process is restarted", timeout_s=4.0)
    os.kill(first.pid, signal.SIGSTOP)
    wait_until(checked, "the stopped process is restarted", timeout_s=60.0)
    assert first.returncode == -signal.SIGKILL
    assert service.process.poll() is None
    services.stop()
    assert list(tmp_path.iterdir()) == []
