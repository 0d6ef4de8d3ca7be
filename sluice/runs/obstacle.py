# SPDX-License-Identifier: Apache-2.0
"""Why this machine cannot run the testbed. This file imports the standard library alone, so that `make demo` can
ask before anything is installed: `python3 -m sluice.runs.obstacle` prints the obstacle, if there is one.
"""

import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path

KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")
PROGRAMS = {"ovs-vswitchd": "Open vSwitch", "mnexec": "Mininet", "tc": "iproute2", "clang": "clang"}
"""A program of each package that the testbed cannot do without."""

_BPF_CALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "loongarch64": 280, "ppc64le": 361, "s390x": 351}
"""Number of the bpf() system call."""
_BPF_MAP_CREATE, _BPF_MAP_TYPE_ARRAY = 0, 2


def kernel_obstacle() -> str | None:
    """Return what the kernel or the container denies to this process, in a few words; None if it denies nothing."""
    if os.geteuid() != 0:
        return "no root rights"
    if not KERNEL_TYPES.exists():
        return "a kernel without BTF"
    if not _may_make_namespaces():
        return "this container may not make namespaces"
    if not _may_use_bpf():
        return "this container may not use BPF"
    if os.statvfs("/proc/sys").f_flag & os.ST_RDONLY:
        return "this container may not change kernel settings (/proc/sys)"
    return None


def obstacle() -> str | None:
    """Return the kernel's obstacle, or the first program that is missing; None if the testbed can run."""
    return kernel_obstacle() or next(
        (f"{name} is not installed" for program, name in PROGRAMS.items() if shutil.which(program) is None),
        None,
    )


def _may_make_namespaces() -> bool:
    """Try what the testbed does first. A machine without `unshare` cannot do it, either."""
    try:
        argv = ["unshare", "--net", "--mount", "--pid", "--fork", "true"]
        return subprocess.run(argv, capture_output=True, check=False, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _may_use_bpf() -> bool:
    """Make a BPF map of one entry. On a processor whose call number is not known here, hope for the best."""
    number = _BPF_CALL.get(platform.machine())
    if number is None:
        return True
    attributes = ctypes.create_string_buffer(struct.pack("=IIII", _BPF_MAP_TYPE_ARRAY, 4, 4, 1), 128)
    descriptor: int = ctypes.CDLL(None).syscall(
        number, _BPF_MAP_CREATE, attributes, ctypes.sizeof(attributes)
    )
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True


def main() -> int:
    """Print the kernel's obstacle. The exit code is 0 if there is none: then packages are worth installing."""
    reason = kernel_obstacle()
    if reason:
        print(reason)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
