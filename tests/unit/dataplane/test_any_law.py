# SPDX-License-Identifier: Apache-2.0
"""Every law on any input: no behaviour that C leaves undefined, and no number that wraps around by mistake."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from sluice.dataplane import build
from sluice.runtime.command import run
from tests.unit.dataplane import law_driver

pytestmark = pytest.mark.slow

_WRAPS_ON_PURPOSE = (
    "sl_window_",  # sequence numbers and running counts, whose differences are taken modulo 2^32
    "sl_tag_",  # likewise
    "sl_vq_arrive",  # multiplies a length by the units before it refuses too long ones
    "sl_ranked_arrive",  # likewise
    "sl_if_",  # a comparison without a branch: the sign of a difference
    "sl_ahead_",  # calls it
    "sl_backlog_that_marks",  # likewise
    "sl_vq_phantom",  # callers pass only times in which the queue could drain all that was sent
    "sl_dqs_",  # a multiplicative hash
)
_CLANG_TRAPS = "-fsanitize=undefined,unsigned-integer-overflow", "-fsanitize-trap=all"


def compiled(
    compiler: str, laws: ModuleType, flags: tuple[str, ...], directory: Path, omit: tuple[str, ...] = ()
) -> Path:
    """Build the driver, without laws whose names begin with one of `omit`."""
    source, program = directory / "driver.c", directory / "driver"
    source.write_text(law_driver.source(laws, omit))
    command = [compiler, "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{build.LAWS}", *flags]
    run([*command, str(source), "-o", str(program)])
    return program


def require_ubsan(directory: Path) -> None:
    """Skip the test if the C compiler has no library of the sanitizer."""
    source = directory / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    command = ["cc", "-fsanitize=undefined", str(source), "-o", str(directory / "empty")]
    missing = subprocess.run(command, capture_output=True, text=True, check=False)
    if missing.returncode:
        pytest.skip(
            f"cc has no undefined-behaviour sanitizer here: {missing.stderr.strip().splitlines()[-1]}"
        )


def ran(program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=300)


def test_driver__calls_every_law(laws: ModuleType) -> None:
    source = law_driver.source(laws)
    assert len(law_driver.laws_of(laws)) > 40
    assert all(f"try_{name}();" in source for name in law_driver.laws_of(laws))


def test_laws__no_undefined_behaviour(laws: ModuleType, tmp_path: Path) -> None:
    require_ubsan(tmp_path)
    flags = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    ended = ran(compiled("cc", laws, flags, tmp_path))
    assert ended.returncode == 0, f"{ended.stdout.splitlines()[-1]}: {ended.stderr}"


def test_laws__no_wrap_around(laws: ModuleType, tmp_path: Path) -> None:
    """clang's sanitizer also finds unsigned numbers that wrap. It needs no library, because it traps."""
    if shutil.which("clang") is None:
        pytest.skip("no clang")
    ended = ran(compiled("clang", laws, _CLANG_TRAPS, tmp_path, omit=_WRAPS_ON_PURPOSE))
    assert ended.returncode == 0, f"a number wraps around in {ended.stdout.splitlines()[-1]}"
