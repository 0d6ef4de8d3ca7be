# SPDX-License-Identifier: Apache-2.0
"""The first file system of a guest: an archive in the kernel's "newc" form.

Source of the form: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path

from sluice.runtime.command import run
from tools.guests.kernels import program

_MAGIC, _TRAILER = "070701", "TRAILER!!!"
_ALIGNMENT = 4
_FOLDERS = ("bin", "dev", "proc", "sys", "root", "run", "tmp")
_LIBRARY = re.compile(r"(/\S+) \(0x")


def build(files: Mapping[str, bytes]) -> bytes:
    """Return an archive with busybox, empty folders for mounts, and `files`: path → content, executable for all."""
    busybox = Path(program("busybox")).read_bytes()
    contents = {"bin/busybox": busybox, **files}
    folders = {str(parent) for path in contents for parent in Path(path).parents if str(parent) != "."}
    entries = [_entry(folder, stat.S_IFDIR | 0o755) for folder in sorted(folders | set(_FOLDERS))]
    entries += [_entry(path, stat.S_IFREG | 0o755, content) for path, content in contents.items()]
    return b"".join([*entries, _entry(_TRAILER, 0)])


def with_libraries(path: str) -> dict[str, bytes]:
    """Return a program and the shared libraries that it needs, as files of an archive at their own paths."""
    return {path.lstrip("/"): Path(path).read_bytes(), **libraries(path)}


def libraries(path: str) -> dict[str, bytes]:
    """Return the shared libraries that a program needs, as files of an archive at their own paths."""
    return {name.lstrip("/"): Path(name).read_bytes() for name in _LIBRARY.findall(run(["ldd", path]))}


def _entry(name: str, mode: int, content: bytes = b"") -> bytes:
    encoded = name.encode() + b"\0"
    # inode, mode, owner, group, links, time, size, device (2), device of a node (2), length of the name, checksum
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    header = (_MAGIC + "".join(f"{field:08x}" for field in fields)).encode() + encoded
    return _padded(header) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
