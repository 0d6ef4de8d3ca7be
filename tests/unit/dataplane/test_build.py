# SPDX-License-Identifier: Apache-2.0

import os
import shutil
from pathlib import Path

import pytest

from sluice.dataplane import build
from sluice.policy import controls
from sluice.policy.controls import CONTROLS
from sluice.policy.errors import EnvironmentLacking
from sluice.simulator import _fabric


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree with one program, and an object newer than its sources."""
    for name in ("bpf", "laws", "build"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(build, "SOURCES", tmp_path / "bpf")
    monkeypatch.setattr(build, "LAWS", tmp_path / "laws")
    monkeypatch.setattr(build, "BUILD", tmp_path / "build")
    (tmp_path / "bpf" / "one.bpf.c").write_text("int x;")
    (tmp_path / "bpf" / "one.h").write_text("")
    (tmp_path / "laws" / "law.h").write_text("")
    (tmp_path / "build" / "one.bpf.o").write_text("")
    return tmp_path


def test_names__every_control_of_sluice_has_its_program() -> None:
    programs = {name for name in build.names() if name.startswith("cc_")}
    assert programs == {f"cc_{control.name}" for control in controls.ours()}


def test_is_stale__only_when_an_input_is_newer(tree: Path) -> None:
    assert not build.is_stale("one")
    later = (tree / "build" / "one.bpf.o").stat().st_mtime_ns + 10**9
    for changed in ("bpf/one.bpf.c", "bpf/one.h", "laws/law.h"):
        times = (tree / changed).stat().st_mtime_ns
        os.utime(tree / changed, ns=(later, later))
        assert build.is_stale("one"), changed
        os.utime(tree / changed, ns=(times, times))
    assert not build.is_stale("one")
    (tree / "build" / "one.bpf.o").unlink()
    assert build.is_stale("one")


def test_ensure__only_a_stale_object_needs_a_compiler_and_btf(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "KERNEL_BTF", tree)
    with monkeypatch.context() as without_compiler:
        without_compiler.setattr(shutil, "which", lambda *_, **__: None)
        assert build.ensure("one") == tree / "build" / "one.bpf.o"
        (tree / "build" / "one.bpf.o").unlink()
        with pytest.raises(EnvironmentLacking, match="apt-get install"):
            build.ensure("one")
    monkeypatch.setattr(build, "KERNEL_BTF", tree / "nothing")
    with pytest.raises(EnvironmentLacking, match="BTF"):
        build.ensure("one")


def test_ensure__no_such_program() -> None:
    with pytest.raises(ValueError, match=", ".join(build.names())):
        build.ensure("none")


def test_shared_library__is_built_again_if_its_source_is_newer(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tree / "one.c"
    source.write_text("int one(void) { return 1; }")
    built = build.shared_library(source).stat().st_mtime_ns
    assert build.shared_library(source).stat().st_mtime_ns == built
    os.utime(source, ns=(built + 1, built + 1))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(EnvironmentLacking, match="clang"):
        build.shared_library(source)


def test_main__names_only_what_it_has_built(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "bpf" / "two.bpf.c").write_text("int y;")
    monkeypatch.setattr(build, "_clang", lambda source, target: target.write_text(""))
    assert build.main() == 0
    assert capsys.readouterr().out == f"{build.object_path('two')}\n"
    assert build.main() == 0
    assert capsys.readouterr().out == ""


# ── The generated C headers, and what is compiled from them ────────────────────────────────────


def test_the_simulator_has_the_controls_of_the_records() -> None:
    assert [control.name for control in _fabric.Control] == [control.name for control in CONTROLS]


def test_the_program_of_a_control_has_the_name_and_the_echo_of_its_record() -> None:
    for control in controls.ours():
        program = (build.SOURCES / f"cc_{control.name}.bpf.c").read_text()
        macro = "SL_CONTROL" if control.of_window else "CC"
        assert f"#define {macro} {control.name}\n" in program
        assert ("#define CC_EXACT_ECHO 0" in program) == (control.echo is controls.Echo.STANDARD)
