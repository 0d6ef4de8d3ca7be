# SPDX-License-Identifier: Apache-2.0
"""Maps of which the machine has one, whatever process loaded the first program that uses them.

Socket storage joins programs that different processes load: the hook through which an application tells of its flow,
the congestion control that reads it, the tagger of the host. Such a map is found again by its name, type and layout
among the maps of the kernel, and nothing is pinned: it lives as long as a program, an attachment or a process holds it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dataplane import build
from dataplane.libbpf import MAP_TYPE_STRUCT_OPS, failure, ffi, lib, text

PREFIX = "sluice_"
"""Every map of ours whose name begins so is shared. Its name ends with a number that stands for its layout."""

_INFO = struct.Struct(
    "=IIIIII16s"
)  # struct bpf_map_info begins so: type, id, key, value, entries, flags, name


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """While a program that uses a shared map is loaded: two first ones at once would make two maps."""
    with build.KERNEL_BTF.open("rb") as machine_wide:
        fcntl.flock(machine_wide, fcntl.LOCK_EX)
        yield


def is_shared(handle: Any) -> bool:
    library = lib()
    named_so = text(library.bpf_map__name(handle)).startswith(PREFIX)
    return named_so and int(library.bpf_map__type(handle)) != MAP_TYPE_STRUCT_OPS


def reuse(handle: Any) -> bool:
    """Make a map of an opened object the one that the kernel has already; False when there is none yet."""
    library = lib()
    wanted = (
        int(library.bpf_map__type(handle)),
        int(library.bpf_map__key_size(handle)),
        int(library.bpf_map__value_size(handle)),
        text(library.bpf_map__name(handle)),
    )
    for fd in _kernel_maps():
        try:
            if _identity(fd) == wanted:
                code = library.bpf_map__reuse_fd(handle, fd)
                if code < 0:
                    raise failure(f"cannot share the BPF map {wanted[3]}", code)
                return True
        finally:
            os.close(fd)
    return False


def descriptor(name: str) -> int | None:
    """A file descriptor of the machine's map of this name, which the caller closes; None when there is none."""
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
    """A file descriptor of each map of the kernel; the caller closes it."""
    library, number = lib(), ffi.new("uint32_t *", 0)
    while library.bpf_map_get_next_id(number[0], number) == 0:
        fd = library.bpf_map_get_fd_by_id(number[0])
        if fd >= 0:
            yield fd
        elif ffi.errno != errno.ENOENT:  # else it has gone meanwhile
            raise failure("cannot look through the BPF maps of this machine")
