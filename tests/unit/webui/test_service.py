# SPDX-License-Identifier: Apache-2.0
"""The settings of the web process, and its worker processes as their parent sees them."""

import argparse
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.cli import main
from sluice.commands.arguments import check_plaintext
from sluice.policy.errors import EnvironmentLacking, FieldError, SluiceError
from sluice.policy.retention import FOR_EVER, Retention
from sluice.runtime.settings.kinds import is_loopback
from sluice.runtime.wait import wait_until
from sluice.webui.server import Server, ServerSettings, Worker
from sluice.webui.service import SERVICE, WebOptions, add_retention, problems, retention_argv, retention_of


@pytest.mark.parametrize("key", ["alerts", "webhook"])
def test_a_removed_setting_is_refused_with_what_replaces_it(tmp_path: Path, key: str) -> None:
    file = tmp_path / "web.toml"
    file.write_text(f'{key} = "x"\n')
    with pytest.raises(SluiceError, match=rf"web.toml: {key}: is no setting any more: Prometheus judges"):
        SERVICE.load(file, {}, {})
    variable = f"SLUICE_WEB_{key.upper()}"
    with pytest.raises(SluiceError, match=rf"{variable}: is no setting any more: Prometheus judges"):
        SERVICE.load(None, {}, {variable: "x"})


def test_what_a_log_or_a_traceback_shows_has_no_secret() -> None:
    settings = ServerSettings(WebOptions(), "postgresql+psycopg://sluice:hidden1@/sluice", "hidden2")
    assert "WebOptions" in repr(settings)
    assert "hidden" not in repr(settings)


def parsed(*argv: str) -> Retention:
    parser = argparse.ArgumentParser()
    add_retention(parser)
    return retention_of(parser.parse_args(argv))


def test_retention__defaults_and_for_ever() -> None:
    assert parsed() == Retention()
    assert parsed("--keep-flows", "forever").flows_s is None
    assert parsed("--most-flows", "5").most_flows == 5


@pytest.mark.parametrize("kept", [Retention(), FOR_EVER, Retention(10.5, 60.0, None, 3)])
def test_retention__another_process_is_told_the_same(kept: Retention) -> None:
    assert parsed(*retention_argv(kept)) == kept


BEYOND = ["0.0.0.0:8080", "[2001:db8::1]:8080", "hub:8080", "localhost.evil:1"]


@pytest.mark.parametrize("address", BEYOND)
def test_an_address_beyond_the_loopback_needs_the_word(address: str) -> None:
    (problem,) = problems(WebOptions(listen=("127.0.0.1:8080", address)))
    assert problem.field == "listen"
    assert problem.problem.startswith(f"{address} is reachable from other machines")
    assert "--plaintext-beyond-loopback" in problem.problem
    assert "TLS" in problem.problem
    assert not list(problems(WebOptions(listen=(address,), plaintext_beyond_loopback=True)))
    with pytest.raises(FieldError, match="--plaintext-beyond-loopback"):
        check_plaintext(address, allowed=False)


@pytest.mark.parametrize("address", ["127.9.9.9:1", "[::1]:8080", "LOCALHOST:1"])
def test_the_loopback_needs_none(address: str) -> None:
    assert is_loopback(address)
    assert not list(problems(WebOptions(listen=(address,))))
    check_plaintext(address, allowed=False)


def test_the_process_refuses_with_the_flag_as_the_user_wrote_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--listen", "0.0.0.0:0", "--store", "sqlite://", "--check"]) == 2
    assert "--listen: 0.0.0.0:0 is reachable from other machines" in capsys.readouterr().err


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
