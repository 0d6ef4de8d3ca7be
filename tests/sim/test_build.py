# SPDX-License-Identifier: Apache-2.0
"""The command that compiles the core."""

from __future__ import annotations

import pytest

from sluice.simulator import build


def test_main__says_nothing_if_the_extension_is_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main([]) == 0
    assert capsys.readouterr().out == ""


def test_main__names_what_it_has_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "_is_fresh", lambda module: False)
    monkeypatch.setattr(build, "_compile_release", lambda: None)
    assert build.main([]) == 0
    assert capsys.readouterr().out == f"{build.MODULE}\n"


def test_main__refuses_other_build_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["debug"]) == 2
    assert "'debug' is not a build type; give release, sanitize, races or coverage" in capsys.readouterr().err
