# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ extension `simulator._fabric` in place, when a source is newer. `python -m simulator.build`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from policy.errors import EnvironmentLacking

HERE = Path(__file__).parent
CORE = HERE / "core"
BUILD = HERE / "build"
LAWS = HERE.parent / "dataplane" / "laws"
STUB = HERE / "_fabric.pyi"
MODULE = HERE / f"_fabric{sysconfig.get_config_var('EXT_SUFFIX')}"


def build() -> Path:
    """Compile what has changed; the module's path. Two processes may ask at once: the second one waits.

    Raises EnvironmentLacking with what is missing or what the compiler said.
    """
    if _is_fresh():
        return MODULE
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_fresh():
            _compile()
    return MODULE


def _is_fresh() -> bool:
    sources = [CORE / "CMakeLists.txt", *CORE.rglob("*.[ch]pp"), *LAWS.glob("*.h")]
    return MODULE.exists() and MODULE.stat().st_mtime >= max(source.stat().st_mtime for source in sources)


def _compile() -> None:
    began = time.time()
    _run(["cmake", "-S", str(CORE), "-B", str(BUILD), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"])
    _run(["cmake", "--build", str(BUILD)])
    fresh = MODULE.with_suffix(".new")
    shutil.copyfile(BUILD / MODULE.name, fresh)
    os.utime(fresh, (began, began))  # a source that changed meanwhile is newer
    fresh.replace(MODULE)
    _run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "simulator._fabric", "-o", str(STUB)])


def _run(argv: list[str]) -> None:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EnvironmentLacking(
            f"the simulator is compiled with {argv[0]}, which is not installed: run `make setup`"
        ) from None
    if result.returncode:
        raise EnvironmentLacking(f"{' '.join(argv)} failed:\n{result.stdout[-3000:]}{result.stderr[-3000:]}")


if __name__ == "__main__":
    print(build())
