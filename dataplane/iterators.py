# SPDX-License-Identifier: Apache-2.0
"""BPF links to tracepoints, and to iterators, whose programs write a text."""

from __future__ import annotations

import os
from typing import Any

from sluice.dataplane.libbpf import failure, ffi, lib
from sluice.dataplane.loader import Program

_READ_BYTES = 1 << 16


def attach(program: Program, attach_type: int, over_map_fd: int | None = None) -> int:
    """Return the file descriptor of a link, which ends with it. `over_map_fd`: the map that an iterator walks."""
    options: Any = ffi.new("struct bpf_link_create_opts *", {"sz": ffi.sizeof("struct bpf_link_create_opts")})
    walked = ffi.new("uint32_t *", over_map_fd or 0)
    if over_map_fd is not None:
        options.iter_info, options.iter_info_len = walked, ffi.sizeof("uint32_t")
    link_fd = int(lib().bpf_link_create(program.fd, 0, attach_type, options))
    if link_fd < 0:
        raise failure(f"cannot attach {program.name}", link_fd)
    return link_fd


def read(iterator_link_fd: int) -> bytes:
    """Run an iterator and return what its program writes."""
    fd = int(lib().bpf_iter_create(iterator_link_fd))
    if fd < 0:
        raise failure("cannot run a BPF iterator", fd)
    try:
        parts = []
        while part := os.read(fd, _READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)
