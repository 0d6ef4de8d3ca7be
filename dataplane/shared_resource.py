# SPDX-License-Identifier: Apache-2.0
"""A kernel resource that exists once on the machine and that several processes use.

The first process provides the resource, and the others use it. It ends with that process. The others call `ensure`
regularly, and one of them then provides it.

Maps are such resources if several processes load programs that use them. Socket storage connects three programs that
different processes load. They are the hook by which an application declares its flow, the congestion control that
reads the declaration, and the host's tagger. A process finds such a map by name, type and layout among the maps of
the kernel. No map is pinned: a map lives as long as a program, an attachment or a process holds it.
"""

import errno
import fcntl
import logging
import os
import struct
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sluice.dataplane import build
from sluice.dataplane.libbpf import MAP_TYPE_STRUCT_OPS, Resource, failure, ffi, lib, text

log = logging.getLogger(__name__)


class Provided(Resource):
    """This process's interest in a resource. `owned`: this process provides it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._provision: Resource | None = None
        self._noted = False

    @abstractmethod
    def is_present(self) -> bool:
        """Return whether a process provides the resource now."""

    @abstractmethod
    def _provide(self) -> Resource | None:
        """Provide the resource until its end or the process's. None if another process was first.

        Raises EnvironmentLacking if this is impossible.
        """

    @property
    def owned(self) -> bool:
        return self._provision is not None

    def ensure(self) -> bool:
        """Provide the resource if no process does, for example after its provider ended. True if this call did."""
        if self.is_present():
            if not (self.owned or self._noted):
                log.info("another process provides %s, and this one uses it", self._what)
                self._noted = True
            return False
        self.close()
        self._provision = self._provide()
        self._noted = False
        return self.owned

    def close(self) -> None:
        """Stop providing the resource. Idempotent."""
        if self._provision is not None:
            self._provision.close()
            self._provision = None


PREFIX = "sluice_"
"""A map with this prefix is shared. Its name ends with a number that identifies its layout."""

_INFO = struct.Struct("=IIIIII16s")
"""The first fields of struct bpf_map_info: type, id, key, value, entries, flags, name."""


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let one process at a time load a program with a shared map, because two at once would make two maps."""
    with build.KERNEL_BTF.open("rb") as machine_wide:
        fcntl.flock(machine_wide, fcntl.LOCK_EX)
        yield


def is_shared(handle: Any) -> bool:
    library = lib()
    named_so = text(library.bpf_map__name(handle)).startswith(PREFIX)
    return named_so and int(library.bpf_map__type(handle)) != MAP_TYPE_STRUCT_OPS


def reuse(handle: Any) -> bool:
    """Let an opened object use the kernel's existing map. False if there is none yet."""
    library = lib()
    identity = (
        int(library.bpf_map__type(handle)),
        int(library.bpf_map__key_size(handle)),
        int(library.bpf_map__value_size(handle)),
        text(library.bpf_map__name(handle)),
    )
    for fd in _kernel_maps():
        try:
            if _identity(fd) == identity:
                code = library.bpf_map__reuse_fd(handle, fd)
                if code < 0:
                    raise failure(f"cannot share the BPF map {identity[3]}", code)
                return True
        finally:
            os.close(fd)
    return False


def descriptor(name: str) -> int | None:
    """Return a file descriptor of the machine's map with this name, None if there is none. The caller closes it."""
    for fd in _kernel_maps():
        if _identity(fd)[3] == name:
            return fd
        os.close(fd)
    return None


def _identity(fd: int) -> tuple[int, int, int, str]:
    info = bytearray(_INFO.size)
    length = ffi.new("uint32_t *", len(info))
    if lib().bpf_obj_get_info_by_fd(fd, ffi.from_buffer(info), length) < 0:
        raise failure("cannot read a BPF map's description")
    kind, _, key, value, _, _, name = _INFO.unpack(info)
    return kind, key, value, name.split(b"\0")[0].decode(errors="replace")


def _kernel_maps() -> Iterator[int]:
    """Yield a file descriptor of each map of the kernel. The caller closes it."""
    library, number = lib(), ffi.new("uint32_t *", 0)
    while library.bpf_map_get_next_id(number[0], number) == 0:
        fd = library.bpf_map_get_fd_by_id(number[0])
        if fd >= 0:
            yield fd
        elif ffi.errno != errno.ENOENT:  # ENOENT: the map disappeared in the meantime
            raise failure("cannot list the BPF maps of this machine")
    if ffi.errno != errno.ENOENT:  # without CAP_SYS_ADMIN, each program would get a map of its own
        raise failure("cannot list the BPF maps of this machine")
