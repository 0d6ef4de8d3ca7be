# SPDX-License-Identifier: Apache-2.0
"""Compile the C++ core if a source is newer: `python -m sluice.simulator.build [release|sanitize|races|coverage]`.

`release` makes the extension `sluice.simulator._fabric` in place. `sanitize`, `races` and `coverage` make instrumented
ones below simulator/build/, which tests/sim/instrumented.py loads. The command prints the path of what it has built.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sluice.policy.controls import Control, Need
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.runtime import control_files

HERE = Path(__file__).parent
CORE = HERE / "core"
BUILD = HERE / "build"
_IN_A_WHEEL = HERE / "laws"
LAWS = _IN_A_WHEEL if _IN_A_WHEEL.exists() else HERE.parent / "dataplane" / "laws"
STUB = HERE / "_fabric.pyi"
NAME = f"_fabric{sysconfig.get_config_var('EXT_SUFFIX')}"
MODULE = HERE / NAME
INSTRUMENTED = ("sanitize", "races", "coverage")
"""Build types of core/CMakeLists.txt besides `release`."""


def build() -> bool:
    """Compile the extension if a source has changed, and return whether one had.

    If two processes call it at once, the second one waits. Raises EnvironmentLacking with what is missing
    or with the compiler's output.
    """
    if is_fresh(MODULE):
        return False
    with _lock():
        if is_fresh(MODULE):
            return False
        _compile_release()
        return True


def build_instrumented(build_type: str) -> Path:
    """Compile the extension as one of INSTRUMENTED and return its path. Raises as `build` does."""
    module = BUILD / build_type / NAME
    if not is_fresh(module):
        with _lock():
            began = time.time()
            _compile(module.parent, build_type)
            os.utime(module, (began, began))
    return module


def control_library(control: Control) -> Path:
    """Compile the file of a control, unless the same text was compiled before, and return the shared library.

    Raises EnvironmentLacking without a compiler, and SluiceError with the compiler's output if the file is wrong.
    """
    return control_files.compiled(control, ".so", partial(_cc, control))


def _cc(control: Control, *arguments: str) -> str:
    is_transport, roots = control.needs is Need.GRANTS, (LAWS, LAWS.parent, CORE)
    source = f'#include "{control.file}"\n' + ("" if is_transport else '#include "hooks_table.h"\n')
    compiler, *language = ("c++", "-x", "c++", "-std=c++20") if is_transport else ("cc", "-x", "c")
    argv = [_tool(compiler), *_CONTROL_FLAGS, *(f"-I{root}" for root in roots), *language, "-", *arguments]
    try:
        done = subprocess.run(argv, input=source, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EnvironmentLacking(
            f"control {control.file} needs a compiler: on Debian, install {'g++' if is_transport else 'gcc'}"
        ) from None
    if done.returncode:
        raise SluiceError(f"control {control.file} does not compile:\n{done.stderr[-3000:]}")
    return done.stdout


_CONTROL_FLAGS = ("-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror")


@contextmanager
def _lock() -> Iterator[None]:
    """One process at a time."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_fresh(module: Path = MODULE) -> bool:
    """Whether the extension is newer than its sources."""
    project = CORE / "CMakeLists.txt"
    if not project.exists():  # an installed wheel has the compiled core, and of its sources the headers
        return module.exists()
    sources = [project, *CORE.rglob("*.[ch]pp"), *LAWS.glob("*.h")]
    return module.exists() and module.stat().st_mtime >= max(source.stat().st_mtime for source in sources)


def _compile_release() -> None:
    began = time.time()
    _compile(BUILD, "release")
    fresh = MODULE.with_suffix(".new")
    shutil.copyfile(BUILD / NAME, fresh)
    os.utime(fresh, (began, began))  # a source that changes during the compilation is newer
    fresh.replace(MODULE)
    _run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "sluice.simulator._fabric", "-o", str(STUB)])


def _compile(folder: Path, build_type: str) -> None:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():  # Debian installs Python without its headers
        raise EnvironmentLacking(
            f"{header} is missing, and the simulator needs it to compile: on Debian, install python3-dev; "
            "elsewhere, use a Python that has its headers"
        )
    cmake = _tool("cmake")
    options = [f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_BUILD_TYPE={build_type.capitalize()}"]
    options += [f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"]
    _run([cmake, "-S", str(CORE), "-B", str(folder), "-G", "Ninja", *options])
    _run([cmake, "--build", str(folder)])


def _tool(name: str) -> str:
    """Return a build tool: the system's, or the one that pip installed beside Python."""
    return shutil.which(name) or str(Path(sys.executable).parent / name)


def _run(argv: list[str]) -> None:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EnvironmentLacking(
            f"{argv[0]} is not installed, and the simulator needs it to compile; run `make setup`"
        ) from None
    if result.returncode:
        raise EnvironmentLacking(f"{' '.join(argv)} failed:\n{result.stdout[-3000:]}{result.stderr[-3000:]}")


def main(arguments: list[str]) -> int:
    """The command. Returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m sluice.simulator.build", description=__doc__)
    types = ("release", *INSTRUMENTED)
    parser.add_argument("type", nargs="?", choices=types, default="release", help="(default: release)")
    what = parser.parse_args(arguments).type
    try:
        if what != "release":
            print(build_instrumented(what))
        elif build():
            print(MODULE)
    except SluiceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
