# SPDX-License-Identifier: Apache-2.0
"""A BPF ring buffer, from which a process reads new records in order."""

from __future__ import annotations

from typing import Any

from sluice.dataplane.libbpf import failure, ffi, lib
from sluice.dataplane.loader import Map


class RingBuffer:
    """The reading end of a map of type ringbuf. There must be one reader, in one thread."""

    def __init__(self, of: Map) -> None:
        self._taken: list[bytes] = []
        self._callback: Any = ffi.callback("int(void *, void *, size_t)", self._take)
        self._ring: Any = lib().ring_buffer__new(of.fd, self._callback, ffi.NULL, ffi.NULL)
        if self._ring == ffi.NULL:
            raise failure(f"cannot read the ring buffer {of.name}")

    def read(self) -> list[bytes]:
        """Return all waiting records, without waiting for one."""
        code = lib().ring_buffer__consume(self._ring)
        if code < 0:
            raise failure("cannot read a ring buffer", code)
        taken, self._taken = self._taken, []
        return taken

    def close(self) -> None:
        """Release the reader. Idempotent."""
        if self._ring != ffi.NULL:
            lib().ring_buffer__free(self._ring)
            self._ring = ffi.NULL

    def _take(self, _context: Any, data: Any, size: int) -> int:
        self._taken.append(bytes(ffi.buffer(data, size)))
        return 0
