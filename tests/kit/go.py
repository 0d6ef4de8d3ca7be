# SPDX-License-Identifier: Apache-2.0
"""Programs of the Go module in hostagent/go. Without Go, a test that needs them is skipped with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kit.pages import ROOT

MODULE = ROOT / "hostagent" / "go"
GRPC = MODULE / "grpc"


def command(*argv: str, folder: Path = MODULE) -> subprocess.CompletedProcess[str]:
    """Run a Go command in a module, without the network."""
    if shutil.which("go") is None:
        pytest.skip("needs Go: `make test-go` installs Debian's golang-go")
    cache = os.environ.get("GOCACHE", str(Path.home() / ".cache/go-build"))
    env = {
        **os.environ,
        "GOCACHE": cache,
        "GOPROXY": "off",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
    }
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)


def program(package: str, out: Path, folder: Path = MODULE) -> Path:
    """Build a program. The gRPC module is skipped if its packages are not on this machine or Go is too old for it."""
    done = command("go", "build", "-o", str(out), package, folder=folder)
    lacks = next((sign for sign in _LACKS if sign in done.stderr), None)
    if folder == GRPC and lacks is not None:
        pytest.skip(
            f"Go says {lacks!r}: `make test-go` fetches the packages of the gRPC module; it needs Go 1.26"
        )
    assert done.returncode == 0, done.stderr
    return out


_LACKS = ("module lookup disabled by GOPROXY=off", "go.mod requires go >=", "invalid go version")
