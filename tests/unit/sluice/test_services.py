# SPDX-License-Identifier: Apache-2.0
"""The services of the `sluice` command: their tables, their examples, and what they report to systemd."""

import importlib
import os
import re
import socket
import threading
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from sluice.cli import SERVICES, main, service
from sluice.controller.app import Launcher
from sluice.hostagent.service import interface_of_default_route
from sluice.policy.errors import EnvironmentLacking, FieldError
from sluice.policy.schema.entries import entries
from sluice.runtime.lifecycle import Notifier
from sluice.runtime.process import spawn, stop
from sluice.runtime.settings.service import Service, example, from_file, merge
from sluice.store.engine import with_password
from tests.kit.bundles import sluice

pytestmark = pytest.mark.slow


@pytest.fixture(params=SERVICES)
def one(request: pytest.FixtureRequest) -> Service[object]:
    return service(request.param)


def test_the_example_changes_nothing_and_shows_the_defaults(one: Service[object], tmp_path: Path) -> None:
    """The lines with one comment sign are settings, except those of a key without a default."""
    path = tmp_path / "example.toml"
    path.write_text(example(one))
    layer, wrong = from_file(one.table, path)
    assert (dict(layer), wrong) == ({}, [])
    text = example(one).partition("\n")[2]  # without the licence
    lines = [line.removeprefix("# ") for line in text.splitlines() if re.match(r"# (?!\w+ =$)", line)]
    assert lines
    path.write_text("\n".join(lines))
    assert tomllib.loads(path.read_text())
    layer, wrong = from_file(one.table, path)
    assert not wrong
    assert merge(one.table, [layer])[0] == merge(one.table, [])[0]


def test_help__names_every_setting(one: Service[object], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([one.name, "--help"])
    shown = capsys.readouterr().out
    for each in entries(one.table):
        assert re.search(rf"--{each.key.replace('_', '-')}(?![\w-])", shown), each.key
    assert str(one.file) in shown


def test_a_part_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    assert main(["web"]) == 2
    expected = "sluice web: this installation lacks webui; install the Debian package sluice-web\n"
    assert capsys.readouterr().err == expected


def test_agent__takes_the_interface_of_the_default_route(tmp_path: Path) -> None:
    routes = tmp_path / "route"
    head = "Iface\tDestination\tGateway\n"
    routes.write_text(f"{head}eth1\t0002A8C0\t0\neth0\t00000000\t0102A8C0\n")
    assert interface_of_default_route(routes) == "eth0"
    routes.write_text(head)
    with pytest.raises(FieldError, match="name the interface"):
        interface_of_default_route(routes)


def test_with_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss:word\n")
    url = "postgresql+psycopg://sluice@db/sluice"
    assert with_password(url, None) == url
    assert with_password(url, file) == "postgresql+psycopg://sluice:p%40ss%3Aword@db/sluice"
    with pytest.raises(EnvironmentLacking, match="cannot read the password file"):
        with_password(url, tmp_path / "gone")


# ── systemd ────────────────────────────────────────────────────────────────────────────────────


class EndAfter(threading.Event):
    """An event that is set after some waits, which take no time."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self._left = waits

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        return self._left < 0


def test_controller__a_loop_that_hangs_is_not_reported_alive() -> None:
    """The launcher looks at the loop's last turn until the end."""
    reports: list[str] = []

    class Loop:
        turned_s = -1e9

    class Recorded(Notifier):
        def ready(self, status: str) -> None:
            reports.append("ready")

        def alive(self) -> None:
            reports.append("alive")

    launcher = object.__new__(Launcher)
    launcher._controller, launcher._notifier = Loop(), Recorded({})  # type: ignore[assignment]
    launcher._stopping = EndAfter(2)
    launcher._report_life()
    assert reports == []
    Loop.turned_s = 1e12
    launcher._stopping = EndAfter(2)
    launcher._report_life()
    assert reports == ["ready", "alive", "alive"]


@pytest.mark.parametrize("name", ["controller", "web"])
def test_ready__when_it_serves_and_then_alive(name: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        path = tmp_path / "service.sock"
        argv = sluice(name, "--config", os.devnull, "--store", f"sqlite:///{tmp_path}/s.db")
        argv += ["--unix", str(path)] if name == "web" else ["--listen", f"unix:{path}"]
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000", "SLUICE_TOKEN": "x"}
        process = spawn(argv, log_file=tmp_path / "log", env=environ)
        try:
            while not (said := systemd.recv(4096)).startswith(b"READY=1\n"):
                assert said == b"WATCHDOG=1"
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
            assert {systemd.recv(4096) for _ in range(2)} == {b"WATCHDOG=1"}
        finally:
            assert stop(process) == 0
        rest = b""
        while b"STOPPING" not in rest:
            rest = systemd.recv(4096)


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("web", ["--store", "postgresql+psycopg://u:hunter2@db/sluice"]),
        ("controller", ["--store", "postgresql+psycopg://u@db/sluice?password=hunter2"]),
        ("agent", ["--interface", "lo", "--enrol", "hunter2", "--web", "https://192.0.2.1:8443"]),
    ],
)
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(
    name: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, *flags, "--check"]) == 2
    written = "".join(capsys.readouterr())
    assert "a command line shows" in written
    assert "hunter2" not in written


def test_a_secret_in_the_settings_file_is_allowed_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "web.toml").write_text('store = "postgresql+psycopg://u:hunter2@db/sluice"')
    assert main(["web", "--config", str(tmp_path / "web.toml"), "--check"]) == 0
    written = "".join(capsys.readouterr())
    assert "u:***@db" in written
    assert "hunter2" not in written
