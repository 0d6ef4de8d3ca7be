# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ extension `simulator._fabric` in place, when a source is newer. `python -m simulator.build`."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from policy.errors import EnvironmentLacking

HERE = Path(__file__).parent
CORE = HERE / "core"
BUILD = HERE / "build"
LAWS = HERE.parent / "dataplane" / "laws"
MODULE = HERE / f"_fabric{sysconfig.get_config_var('EXT_SUFFIX')}"


def build() -> Path:
    """Compile what has changed; the module's path. Raises EnvironmentLacking with what is missing or what the compiler said."""
    sources = [*CORE.iterdir(), *LAWS.glob("*.h")]
    if MODULE.exists() and MODULE.stat().st_mtime >= max(source.stat().st_mtime for source in sources):
        return MODULE
    _run(["cmake", "-S", str(CORE), "-B", str(BUILD), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"])
    _run(["cmake", "--build", str(BUILD)])
    built = BUILD / MODULE.name
    built.replace(MODULE)
    return MODULE


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
