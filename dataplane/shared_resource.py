# SPDX-License-Identifier: Apache-2.0
"""A kernel resource that exists once on the machine and that several processes use.

The first process provides the resource, and the others use it. It ends with that process. The others call `ensure`
regularly, and one of them then provides it. Who cannot do without it for a moment calls `keep`.

Maps are such resources if several processes load programs that use them. Socket storage connects three programs that
different processes load. They are the hook by which an application declares its flow, the congestion control that
reads the declaration, and the host's tagger. A process finds such a map by name, type and layout among the maps of
the kernel. No map is pinned: a map lives as long as a program, an attachment or a process holds it.
"""

from __future__ import annotations

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

    def keep(self) -> None:
        """Provide the resource until `close`, even if another process provides it, too, and ends before."""
        self.ensure()
        self._provision = self._provision or self._hold() or self._provide()

    def _hold(self) -> Resource | None:
        """Return what keeps another process's provision. None: there is none, or it cannot be kept."""
        return None

    def close(self) -> None:
        """Stop providing the resource. Idempotent."""
        if self._provision is not None:
            self._provision.close()
            self._provision = None


class Link(Resource):
    """A link of the kernel, of this or another process. It lasts until all that hold it have closed it."""

    def __init__(self, fd: int) -> None:
        self._fds = [fd]

    @classmethod
    def to_struct_ops(cls, name: str) -> Link | None:
        """Return the link that registered the struct_ops map with this name, None if there is none."""
        for fd in _kernel_objects("link"):
            kind, _, _, map_number = _info(fd, _LINK)
            map_fd = lib().bpf_map_get_fd_by_id(map_number) if kind == _LINK_STRUCT_OPS else -1
            if map_fd >= 0:
                found = _identity(map_fd)[3] == name
                os.close(map_fd)
                if found:
                    return cls(fd)
            os.close(fd)
        return None

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())


PREFIX = "sluice_"
"""A map with this prefix is shared. Its name ends with a number that identifies its layout."""

_MAP = struct.Struct("=IIIIII16s")
"""The first fields of struct bpf_map_info: type, id, key, value, entries, flags, name."""
_LINK = struct.Struct("=III4xI4x")
"""The first fields of struct bpf_link_info: type, id, program and, of a link to struct_ops, the map."""
_LINK_STRUCT_OPS = 9
"""enum bpf_link_type."""


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
    for fd in _kernel_objects("map"):
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
    for fd in _kernel_objects("map"):
        if _identity(fd)[3] == name:
            return fd
        os.close(fd)
    return None


def _identity(fd: int) -> tuple[int, int, int, str]:
    kind, _, key, value, _, _, name = _info(fd, _MAP)
    return kind, key, value, name.split(b"\0")[0].decode(errors="replace")


def _info(fd: int, fields: struct.Struct) -> tuple[Any, ...]:
    info = bytearray(fields.size)
    length = ffi.new("uint32_t *", len(info))
    if lib().bpf_obj_get_info_by_fd(fd, ffi.from_buffer(info), length) < 0:
        raise failure("cannot read what the kernel says of a BPF map or link")
    return fields.unpack(info)


def _kernel_objects(kind: str) -> Iterator[int]:
    """Yield a file descriptor of each "map" or "link" of the kernel. The caller closes it."""
    next_id, fd_of = (getattr(lib(), f"bpf_{kind}_{call}") for call in ("get_next_id", "get_fd_by_id"))
    number = ffi.new("uint32_t *", 0)
    while next_id(number[0], number) == 0:
        fd = fd_of(number[0])
        if fd >= 0:
            yield fd
        elif ffi.errno != errno.ENOENT:  # ENOENT: it disappeared in the meantime
            raise failure(f"cannot list the BPF {kind}s of this machine")
    if ffi.errno != errno.ENOENT:  # without CAP_SYS_ADMIN, each program would get a map of its own
        raise failure(f"cannot list the BPF {kind}s of this machine")
