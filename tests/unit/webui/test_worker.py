# SPDX-License-Identifier: Apache-2.0
"""The worker processes of the web process, as their parent sees them."""

import os
import signal
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.wait import wait_until
from sluice.webui.server import Server, ServerSettings, Worker


class Still(Server):
    """A server with one worker, which begins with its start and goes no further."""

    def __init__(self) -> None:
        super().__init__(cast(ServerSettings, SimpleNamespace(options=SimpleNamespace(workers=1, unix=None))))

    def _serve(self, worker: Worker) -> None:
        time.sleep(600)


def test_a_worker_that_is_killed_while_it_starts_is_replaced() -> None:
    server = Still()
    server._look()
    (first,) = server._workers
    os.kill(first.pid, signal.SIGKILL)

    def is_replaced() -> bool:
        server._look()
        return server._workers[0] is not first

    try:
        wait_until(is_replaced, "another worker starts")
        assert first.was_killed
    finally:
        for worker in server._workers:
            os.kill(worker.pid, signal.SIGKILL)
            wait_until(worker.ends, "it ends")


def test_a_worker_that_cannot_start_ends_the_server(capfd: pytest.CaptureFixture[str]) -> None:
    def fail(worker: Worker) -> Any:
        raise RuntimeError("no store")

    server = Still()
    server._workers = [Worker(fail)]
    with pytest.raises(EnvironmentLacking, match="a worker of the web process cannot start"):
        wait_until(lambda: server._look() or not server._workers, "the worker ends")  # type: ignore[func-returns-value]
