# SPDX-License-Identifier: Apache-2.0
"""Compile stale BPF programs: bpf/<name>.bpf.c -> build/<name>.bpf.o.

`python -m sluice.dataplane.build` builds all and prints what it has built. The kernel's types (vmlinux.h) come from
its BTF at build time. The loader relocates objects (CO-RE), so one from another kernel works, too.
"""

import fcntl
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluice.policy.controls import Control
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime import control_files
from sluice.runtime.command import CommandFailed, run

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "bpf"
LAWS = HERE / "laws"
INCLUDE = HERE / "include"
"""The folder of the header for applications."""
BUILD = HERE / "build"
KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")

_CLANG_FLAGS = (
    *("-O2", "-g", "-target", "bpf", "-mcpu=v3"),
    *("-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"),
)
_LIBRARY_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


def names() -> list[str]:
    """Return the names of all programs: tag, port, cc_dctcp …"""
    return sorted(path.name.removesuffix(".bpf.c") for path in SOURCES.glob("*.bpf.c"))


def object_path(name: str) -> Path:
    """Return the path of a program's object file, which may not be built yet."""
    return BUILD / f"{name}.bpf.o"


def is_stale(name: str) -> bool:
    """Return whether the object is missing or older than its source, this file or a header (except vmlinux.h)."""
    headers = (path for folder in (SOURCES, LAWS, INCLUDE) for path in folder.glob("*.h"))
    return _is_older(object_path(name), SOURCES / f"{name}.bpf.c", *headers, Path(__file__))


def _is_older(target: Path, *inputs: Path) -> bool:
    """Return whether a file is missing or older than one of its inputs."""
    return not target.exists() or any(p.stat().st_mtime_ns > target.stat().st_mtime_ns for p in inputs)


def ensure(name: str) -> Path:
    """Return the object file of a program, and build it first if it is stale.

    Raises EnvironmentLacking if tools are missing, and CommandFailed with the compiler's output if its source is wrong.
    """
    if not (SOURCES / f"{name}.bpf.c").exists():
        raise ValueError(f"no BPF program {name!r}: choose one of {', '.join(names())}")
    if is_stale(name):
        with lock():
            if is_stale(name):
                _clang(SOURCES / f"{name}.bpf.c", object_path(name))
    return object_path(name)


@contextmanager
def lock() -> Iterator[None]:
    """Let one process build at a time, because several may find the same object stale."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tool(name: str) -> str:
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise EnvironmentLacking(
            f"{name} is needed to build the BPF programs: apt-get install clang bpftool libbpf-dev"
        )
    return path


def vmlinux_header() -> Path:
    """Return a C header of the running kernel's types, made again if the kernel has changed."""
    header, stamp = BUILD / "vmlinux.h", f"/* {platform.release()} {platform.version()} */\n"
    if header.exists() and header.open().readline() == stamp:
        return header
    if not KERNEL_BTF.exists():
        raise EnvironmentLacking(
            f"this kernel has no BTF ({KERNEL_BTF}): BPF programs need one built with CONFIG_DEBUG_INFO_BTF=y"
        )
    types = run([_tool("bpftool"), "btf", "dump", "file", str(KERNEL_BTF), "format", "c"])
    partial = header.with_suffix(".h.partial")
    partial.write_text(stamp + types)
    partial.replace(header)
    return header


def compile_source(name: str, source: str, directory: Path) -> Path:
    """Build a program from its text, which may include the headers here. Returns the object file."""
    path = directory / f"{name}.bpf.c"
    path.write_text(source)
    target = path.with_suffix(".o")
    _clang(path, target)
    return target


def control_object(control: Control) -> Path:
    """Compile the file of a control, unless the same text was compiled before, and return the object file.

    Raises EnvironmentLacking if tools are missing, and CommandFailed with the compiler's output if the file is wrong.
    """
    source = f'#include "{control.file}"\n#include "cc_file.bpf.h"\n'

    def compiler(*arguments: str) -> str:
        bounded = ["prlimit", f"--as={_MOST_COMPILER_BYTES}", *_clang_argv()]
        return run([*bounded, "-x", "c", "-c", "-", *arguments], stdin=source)

    with lock():
        return control_files.compiled(control, ".bpf.o", compiler)


_MOST_COMPILER_BYTES = 4 * 10**9
"""Address space of the compiler for a file from outside: clang 14 takes 35 GB for some expressions that BPF lacks."""


def check_types(name: str, header_folder: Path) -> None:
    """Check a program against another kernel's types, without an object. CommandFailed: they do not fit."""
    includes = [f"-I{path}" for path in (header_folder, SOURCES, INCLUDE)]
    run([_tool("clang"), *_CLANG_FLAGS, *includes, "-fsyntax-only", str(SOURCES / f"{name}.bpf.c")])


def _clang(source: Path, target: Path) -> None:
    partial = target.with_suffix(".partial")
    run([*_clang_argv(), "-c", str(source), "-o", str(partial)])
    partial.replace(target)


def _clang_argv() -> list[str]:
    folders = (vmlinux_header().parent, SOURCES, INCLUDE, LAWS)
    return [_tool("clang"), *_CLANG_FLAGS, *(f"-I{folder}" for folder in folders)]


def shared_library(source: Path) -> Path:
    """Return the shared library of a C file, and build it first if it is stale."""
    target = BUILD / f"{source.stem}.so"
    if _is_older(target, source):
        with lock():
            if _is_older(target, source):
                partial = target.with_suffix(".partial")
                run([_tool("clang"), *_LIBRARY_FLAGS, str(source), "-o", str(partial)])
                partial.replace(target)
    return target


def main() -> int:
    try:
        for name in filter(is_stale, names()):
            print(ensure(name))
    except (EnvironmentLacking, CommandFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
