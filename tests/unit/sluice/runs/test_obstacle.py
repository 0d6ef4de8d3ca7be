# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.runs import obstacle

ROOT = Path(__file__).parents[4]


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Make this machine look as if nothing were denied."""
    types = tmp_path / "vmlinux"
    types.touch()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(obstacle, "KERNEL_TYPES", types)
    monkeypatch.setattr(obstacle, "_may_make_namespaces", lambda: True)
    monkeypatch.setattr(obstacle, "_may_use_bpf", lambda: True)
    monkeypatch.setattr(obstacle, "PROGRAMS", {"sh": "a shell"})
    return monkeypatch


def test_obstacle__none_if_nothing_is_denied(able: pytest.MonkeyPatch) -> None:
    assert obstacle.obstacle() is None


def test_obstacle__names_the_first_thing_that_is_denied(able: pytest.MonkeyPatch, tmp_path: Path) -> None:
    able.setattr(obstacle, "PROGRAMS", {"no-such-program": "Open vSwitch"})
    assert obstacle.kernel_obstacle() is None
    assert obstacle.obstacle() == "Open vSwitch is not installed"
    able.setattr(obstacle, "_may_use_bpf", lambda: False)
    assert obstacle.obstacle() == "this container may not use BPF"
    able.setattr(obstacle, "_may_make_namespaces", lambda: False)
    assert obstacle.obstacle() == "this container may not make namespaces"
    able.setattr(obstacle, "KERNEL_TYPES", tmp_path / "none")
    assert obstacle.obstacle() == "a kernel without BTF"
    able.setattr(os, "geteuid", lambda: 1000)
    assert obstacle.obstacle() == "no root rights"


def test_main__without_root_and_without_any_package() -> None:
    """`make demo` asks with the system's Python before anything is installed."""
    script = f"import os; os.geteuid() or os.setuid(65534); import sys; sys.path.insert(0, {str(ROOT)!r}); "
    script += "from sluice.runs.obstacle import main; sys.exit(main())"
    asked = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False
    )
    assert (asked.returncode, asked.stdout) == (1, "no root rights\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give up capabilities")
def test_kernel_obstacle__root_without_capabilities_may_not_make_namespaces() -> None:
    argv = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", sys.executable]
    asked = subprocess.run(
        [*argv, "-m", "sluice.runs.obstacle"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert asked.stdout in {"this container may not make namespaces\n", "a kernel without BTF\n"}
