# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels, unpacked in a folder of the user.

Nothing is installed, and /boot and /lib/modules stay as they are.
"""

from __future__ import annotations

import fcntl
import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.command import CommandFailed, run

SERIES = ("6.1", "6.12")
"""The kernel of Debian 12, and the newer one that Debian has packaged for it."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice" / "kernels"
DOWNLOAD_S = 300
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "zstd": "zstd",
}
"""Program that the guests need → Debian package."""
_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel. `modules` is the folder that the guest sees as /lib/modules/RELEASE."""

    release: str
    image: Path
    modules: Path

    def module_files(self, names: Iterable[str]) -> list[Path]:
        """Return the files of these modules and of all that they need, in the order of loading.

        A module that is part of the kernel's image has no file.
        """
        needs = self._dependencies()
        built_in = {module_name(path) for path in (self.modules / "modules.builtin").read_text().split()}
        ordered: dict[str, None] = {}
        for name in (name for name in names if name not in built_in):
            path = next((path for path in needs if module_name(path) == name), None)
            if path is None:
                raise EnvironmentLacking(f"kernel {self.release} has no module {name}")
            ordered.update(dict.fromkeys([*reversed(needs[path]), path]))
        return [self.modules / path for path in ordered]

    def _dependencies(self) -> dict[str, list[str]]:
        lines = (self.modules / "modules.dep").read_text().splitlines()
        return {path: needs.split() for path, _, needs in (line.partition(":") for line in lines)}


def module_name(path: str) -> str:
    return Path(path).name.partition(".ko")[0].replace("-", "_")


def module_bytes(path: Path) -> bytes:
    """Return a module without compression, because busybox's insmod reads no other."""
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def program(name: str) -> str:
    """Return the path of a program that the guests need. EnvironmentLacking names its package."""
    path = shutil.which(name) or shutil.which(name, path=_PATH)
    if path is None:
        raise EnvironmentLacking(
            f"{name} is missing: make guests (Debian package {PROGRAMS.get(name, name)})"
        )
    return path


def unpacked(series: str) -> Kernel:
    """Return a kernel that `fetch` has unpacked. Raises EnvironmentLacking if there is none."""
    folder = CACHE / series
    if not (folder / "complete").exists():
        raise EnvironmentLacking(f"Debian's kernel {series} is not in {CACHE}: make guests")
    image = next((folder / "boot").glob("vmlinuz-*"))
    release = image.name.removeprefix("vmlinuz-")
    return Kernel(release, image, _modules_root(folder) / "lib" / "modules" / release)


def fetch(series: str) -> Kernel:
    """Return a kernel, and download and unpack its package first if necessary.

    Raises EnvironmentLacking if the package cannot be had.
    """
    with _locked():
        if not (CACHE / series / "complete").exists():
            shutil.rmtree(CACHE / series, ignore_errors=True)
            try:
                _unpack(_package(series), CACHE / series)
            except (CommandFailed, OSError, subprocess.TimeoutExpired) as error:
                raise EnvironmentLacking(f"cannot get Debian's kernel {series}: {error}") from error
        return unpacked(series)


def _package(series: str) -> str:
    """Return the name of the newest package of a series that apt knows, for example linux-image-6.1.0-50-amd64."""
    for meta in (f"linux-image-{series}-amd64", "linux-image-amd64"):
        try:
            answer = run(["apt-cache", "depends", meta])
        except CommandFailed:
            continue
        found = re.search(rf"Depends: (linux-image-{re.escape(series)}\.\S+)", answer)
        if found:
            return found[1]
    raise EnvironmentLacking(f"apt knows no kernel {series} for amd64: run `apt-get update` on Debian 12")


def _unpack(package: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    run(
        ["sh", "-c", 'cd "$1" && apt-get download -qq "$2"', "sh", str(folder), package], timeout_s=DOWNLOAD_S
    )
    archive = next(folder.glob("*.deb"))
    run(["dpkg-deb", "-x", str(archive), str(folder)], timeout_s=DOWNLOAD_S)
    archive.unlink()
    release = next((folder / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
    run([program("depmod"), "-b", str(_modules_root(folder)), release], timeout_s=DOWNLOAD_S)
    (folder / "complete").touch()


def _modules_root(folder: Path) -> Path:
    return folder if (folder / "lib" / "modules").is_dir() else folder / "usr"


@contextmanager
def _locked() -> Iterator[None]:
    """Let one process at a time unpack, because tests of several kernels run at once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
