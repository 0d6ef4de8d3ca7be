# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.doctor import installed
from sluice.doctor.check import Check, guarded, tried
from sluice.doctor.kernel import Kernel
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.command import CommandFailed

FINE = Check("first", True, "fine", "")


@pytest.mark.parametrize(
    "error",
    [
        EnvironmentLacking("no BTF"),
        CommandFailed(["tc"], 2, "no such qdisc"),
        subprocess.TimeoutExpired(["clang"], 10),
        PermissionError("not allowed"),
        TimeoutError("too late"),
    ],
)
def test_tried__a_refusal_of_the_machine_is_a_finding_with_its_remedy(error: Exception) -> None:
    def attempt() -> str:
        raise error

    assert tried("thing", attempt, "do this") == Check("thing", False, str(error), "do this")


def test_guarded__an_unexpected_error_is_a_finding_after_those_before_it() -> None:
    def make() -> Iterator[Check]:
        yield FINE
        raise KeyError("odd")

    first, second = guarded("group", make)
    assert first == FINE
    assert not second.ok
    assert "KeyError: 'odd'" in second.detail


def test_a_tool_that_is_too_slow_for_its_version_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(argv: list[str], *, timeout_s: float) -> str:
        raise subprocess.TimeoutExpired(argv, timeout_s)

    monkeypatch.setattr(installed, "run", slow)
    assert all(
        check.ok or check.detail == "is missing" for check in installed.check_tools(Kernel("6.1.0-56-amd64"))
    )


def test_a_tool_that_cannot_run_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(argv: list[str], *, timeout_s: float) -> str:
        raise OSError(8, "Exec format error")

    monkeypatch.setattr(installed, "run", broken)
    found = {check.name: check for check in installed.check_tools(Kernel("6.1.0-56-amd64"))}
    assert "Exec format error" in found["tc"].detail
    assert found["tc"].remedy == "apt-get install --reinstall iproute2"


@pytest.mark.parametrize(("in_container", "remedy"), [(True, "--device"), (False, "modprobe tun")])
def test_without_the_tun_device_the_remedy_fits_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_container: bool, remedy: str
) -> None:
    monkeypatch.setattr(installed, "TUN", tmp_path / "tun")
    check = installed.check_tun(Kernel("6.1.0", frozenset({"tun"}), in_container=in_container))
    assert not check.ok
    assert remedy in check.remedy
