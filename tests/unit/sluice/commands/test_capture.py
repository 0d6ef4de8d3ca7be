# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import topologies
from policy.errors import EnvironmentLacking, FieldError, SluiceError
from sluice import cli
from sluice.commands import capture as capture_module
from sluice.commands.capture import Running, chosen_testbed, port_named, running_testbeds

ONE = topologies.build("single", hosts=2)


def bed(pid: int) -> Running:
    return Running(pid, Path(f"/tmp/bed-{pid}"), ONE)


def test_chosen_testbed__the_only_one_or_the_one_that_is_named() -> None:
    assert chosen_testbed([bed(7)], None).pid == 7
    assert chosen_testbed([bed(7), bed(9)], 9).pid == 9


def test_chosen_testbed__what_is_unclear_is_said_with_what_there_is() -> None:
    with pytest.raises(SluiceError, match="sluice demo"):
        chosen_testbed([], None)
    with pytest.raises(FieldError, match=r"7 .*; 9 "):
        chosen_testbed([bed(7), bed(9)], None)
    with pytest.raises(FieldError, match="8 is not a testbed"):
        chosen_testbed([bed(7), bed(9)], 8)


def test_port_named__or_what_there_is() -> None:
    assert port_named(ONE, "s1:2").interface
    with pytest.raises(FieldError, match="s1:1, s1:2"):
        port_named(ONE, "s1:9")


def test_capture__without_tcpdump_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentLacking, match="apt-get install tcpdump"):
        capture_module.capture("s1:1", 1, tmp_path / "x.pcap")


def test_running_testbeds__a_process_that_only_has_the_words_is_none() -> None:
    assert all(isinstance(running, Running) for running in running_testbeds())


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "1e9", "nan"])
def test_command__an_impossible_time_is_a_usage_error(seconds: str) -> None:
    with pytest.raises(SystemExit):
        cli.main(["capture", "s1:1", f"--seconds={seconds}", "--out", "x"])
