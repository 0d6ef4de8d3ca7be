# SPDX-License-Identifier: Apache-2.0
"""The generated C headers, and what is compiled from them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sluice.dataplane import build
from sluice.policy import controls
from sluice.policy.controls import CONTROLS, Control
from sluice.simulator import _fabric
from tools import headers


def test_stale__no_header_of_the_tree() -> None:
    assert headers.stale() == []


def test_check__names_a_stale_header_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    laws = tmp_path / "dataplane" / "laws"
    laws.mkdir(parents=True)
    monkeypatch.setattr(headers, "LAWS", laws)
    monkeypatch.setattr(sys, "argv", ["headers"])
    assert headers.main() == 0
    (laws / "tags.gen.h").write_text("changed")

    monkeypatch.setattr(sys, "argv", ["headers", "--check"])
    assert headers.main() == 1
    assert capsys.readouterr().err == "dataplane/laws/tags.gen.h is stale: run `make gen`\n"
    assert (laws / "tags.gen.h").read_text() == "changed"


def test_the_simulator_has_the_controls_of_the_records() -> None:
    assert [control.name for control in _fabric.Control] == [control.name for control in CONTROLS]


@pytest.mark.parametrize("control", controls.ours(), ids=str)
def test_a_control_for_the_kernel_is_one_short_program(control: Control) -> None:
    """A law of the window's record needs ten lines at most, and its name only once."""
    program = (build.SOURCES / f"cc_{control.name}.bpf.c").read_text()
    assert f"#define CC {control.name}\n" in program
    if control.of_window:
        assert len(program.splitlines()) <= 10
