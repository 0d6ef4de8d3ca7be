# SPDX-License-Identifier: Apache-2.0
"""The setsockopt hook (bpf/sockopt.bpf.c) for all processes of the machine. It implements include/sluice.h.

Links attach it to the root of the cgroup2 hierarchy. They end with this process.
"""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from sluice.dataplane import build, libbpf
from sluice.dataplane.libbpf import Resource, ffi, lib
from sluice.dataplane.loader import BpfObject, open_object
from sluice.dataplane.shared_resource import Provided
from sluice.policy.errors import EnvironmentLacking

SOL_SLUICE = 0x5C1C
SLUICE_FLOW, SLUICE_STATE = 1, 2
STATE_BYTES = 64

MOUNTS = Path("/proc/self/mountinfo")

_PROGRAMS = (
    ("sluice_set", libbpf.ATTACH_CGROUP_SETSOCKOPT),
    ("sluice_get", libbpf.ATTACH_CGROUP_GETSOCKOPT),
    ("sluice_socket", libbpf.ATTACH_CGROUP_SOCK_OPS),
)


class SocketHook(Provided):
    """This process's interest in the hook. `ensure` attaches it if no process of the machine has.

    `ensure` raises EnvironmentLacking with the remedy: no root, no cgroup2, no CONFIG_CGROUP_BPF, damaged object.
    """

    def __init__(self) -> None:
        super().__init__("the setsockopt hook")

    def is_present(self) -> bool:
        return answers()

    def _provide(self) -> Attachment:
        return Attachment()


def answers() -> bool:
    """Return whether a hook, of this or another process, serves the sockets of this process."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.getsockopt(SOL_SLUICE, SLUICE_STATE, STATE_BYTES)
        except OSError as error:
            if error.errno in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):
                return False
            raise
    return True


def cgroup_root() -> Path:
    """Return the mount point of the cgroup2 hierarchy. Raises EnvironmentLacking if it is not mounted."""
    for line in MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] == "cgroup2":
            return Path(before.split()[4].encode().decode("unicode_escape"))
    raise EnvironmentLacking(
        "the setsockopt hook needs a mounted cgroup2 hierarchy: "
        "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
    )


class Attachment(Resource):
    """An attached instance of the hook. Several do no harm, because the first one handles a call."""

    def __init__(self, object_file: Path | None = None, cgroup: Path | None = None) -> None:
        """Attach to the root of all cgroups or to `cgroup`, a folder of the hierarchy. Raises EnvironmentLacking."""
        folder = cgroup or cgroup_root()
        self._links: list[int] = []
        self._loaded = _load(object_file)
        try:
            self._attach(folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        while self._links:
            os.close(self._links.pop())
        self._loaded.close()

    def _attach(self, folder: Path) -> None:
        cgroup_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name, attach_type in _PROGRAMS:
                program_fd = self._loaded.program(name).fd
                link_fd = int(lib().bpf_link_create(program_fd, cgroup_fd, attach_type, ffi.NULL))
                if link_fd < 0:
                    number = ffi.errno
                    problem = f"{os.strerror(number)}. {_REMEDIES.get(number, _DOCTOR)}"
                    raise EnvironmentLacking(f"cannot attach the setsockopt hook to {folder}: {problem}")
                self._links.append(link_fd)
        finally:
            os.close(cgroup_fd)


def _load(object_file: Path | None) -> BpfObject:
    try:
        return open_object(object_file or build.ensure("sockopt"))
    except EnvironmentLacking as lacking:
        if os.geteuid() == 0 and _kernel_lacks_the_hook():
            raise EnvironmentLacking(
                "this kernel has no setsockopt hook: use Linux 5.18 or later with CONFIG_CGROUP_BPF=y"
            ) from lacking
        raise


def _kernel_lacks_the_hook() -> bool:
    """Whether the kernel loads other programs of root, but not this type. Without capabilities it loads none."""
    hook, other = (
        lib().libbpf_probe_bpf_prog_type(kind, ffi.NULL)
        for kind in (libbpf.PROGRAM_TYPE_CGROUP_SOCKOPT, libbpf.PROGRAM_TYPE_SCHED_CLS)
    )
    libbpf.forget_messages()
    return bool(hook == 0 and other > 0)


_DOCTOR = "Run `sluice doctor` to see what this machine lacks."
_REMEDIES = {
    errno.EPERM: "Another program has an exclusive hook there (bpftool cgroup tree), or CAP_NET_ADMIN is missing.",
    errno.EACCES: "CAP_NET_ADMIN is missing in this container.",
    errno.EINVAL: "The kernel needs CONFIG_CGROUP_BPF=y and links to cgroups (Linux 5.7 and later).",
    errno.E2BIG: "64 programs are attached there, which is the limit (bpftool cgroup tree).",
}
