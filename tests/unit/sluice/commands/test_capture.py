# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sluice import cli, topologies
from sluice.commands import capture as capture_module
from sluice.commands.capture import port_named
from sluice.policy.errors import EnvironmentLacking, FieldError

ONE = topologies.build("single", hosts=2)


def test_port_named__or_what_there_is() -> None:
    assert port_named(ONE, "s1:2").interface
    with pytest.raises(FieldError, match="s1:1, s1:2"):
        port_named(ONE, "s1:9")


def test_capture__without_tcpdump_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentLacking, match="apt-get install tcpdump"):
        capture_module.capture("s1:1", 1, tmp_path / "x.pcap")


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "1e9", "nan"])
def test_command__an_impossible_time_is_a_usage_error(seconds: str) -> None:
    with pytest.raises(SystemExit):
        cli.main(["capture", "s1:1", f"--seconds={seconds}", "--out", "x"])
