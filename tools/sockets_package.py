# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel sluice-sockets: `hostagent/sockets` alone, for programs that declare their flows.

It needs no other package and none of this project, so its modules have names of their own. The text is the same.
"""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from sluice.policy.version import VERSION

ROOT = Path(__file__).parents[1]
NAME = "sluice_sockets"
ERRORS = "policy/errors.py"
RENAMED: Mapping[str, str] = {"sluice.hostagent.sockets": NAME, "sluice.policy.errors": f"{NAME}.user_errors"}
"""Module in this project → module in the wheel."""

_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "sluice-sockets"
version = "{version}"
description = "Declare the size and the deadline of TCP flows to the kernel of a host with Sluice"
readme = "README.md"
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = "{python}"
dependencies = []

[tool.setuptools]
packages = ["sluice_sockets"]

[tool.setuptools.package-data]
sluice_sockets = ["py.typed"]
"""

_README = """\
# sluice-sockets

A program declares the size and the deadline of a TCP flow, and the kernel's congestion control meets it. A Sluice agent
must run on the machine; the program needs no privileges.

```python
import socket

from sluice_sockets import DeadlineSocket, NoAgent

with DeadlineSocket(socket.create_connection(("h3", 5000))) as flow:
    flow.declare(size_bytes=20_000, deadline_s=0.025)
    flow.sendall(bytes(20_000))
    flow.wait_acknowledged()
```

`DeadlineStream` is the same for asyncio. Without an agent, `declare` raises `NoAgent`.
"""


def modules() -> dict[str, str]:
    """Return the modules of the wheel: name of the file → its text."""
    sources = {path.name: path for path in sorted((ROOT / "hostagent/sockets").glob("*.py"))}
    sources["user_errors.py"] = ROOT / ERRORS
    texts = {name: path.read_text() for name, path in sources.items()}
    for old, new in RENAMED.items():
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    return texts


def lay_out(folder: Path) -> None:
    """Write the whole source of the wheel into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / NAME).mkdir(parents=True)
    for name, text in modules().items():
        (folder / NAME / name).write_text(text)
    (folder / NAME / "py.typed").touch()
    (folder / "pyproject.toml").write_text(project())
    (folder / "README.md").write_text(_README)
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")


def project() -> str:
    """Return pyproject.toml of the wheel."""
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    return _PROJECT.format(version=VERSION, python=python)


def build(out: Path) -> None:
    """Build the wheel into a folder. Raises CalledProcessError."""
    source = out / "sockets"
    lay_out(source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", out, source], check=True)
