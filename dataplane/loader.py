# SPDX-License-Identifier: Apache-2.0
"""Load a BPF object and use its programs and maps.

    with load("port") as port:
        attach_clsact("s1-eth1", port.program("sluice_port"))
        port.map("settings").update(ifindex, struct.pack("=QQQ", rate_bps, mark_bytes, buffer_bytes))

After the object is closed, the kernel keeps programs that are attached to an interface, and their maps. A congestion
control ends with its handle. Most callers use dataplane.tagger, dataplane.port or dataplane.congestion, which know the
maps of their programs.

Tracepoints and iterators have links, and the programs of iterators write a text. A ring buffer gives new records in
order.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.dataplane import build, libbpf, shared_resource
from sluice.dataplane.libbpf import Resource, failure, ffi, lib
from sluice.policy.errors import EnvironmentLacking

Key = bytes | int
"""A key as bytes, or an integer for a native 32-bit key (an index, an ifindex, a socket's fd)."""


def load(name: str, optional: Sequence[str] = ()) -> BpfObject:
    """Load a program of dataplane/bpf by name (tag, port, cc_dctcp), and build it first if it is stale.

    `optional` names functions to load whose section begins with "?"; the others of those are left out. Raises
    EnvironmentLacking with the remedy: no root, no BTF, no tools, refused by the verifier, damaged file.
    """
    return open_object(build.ensure(name), optional)


def open_object(path: Path, optional: Sequence[str] = ()) -> BpfObject:
    """Load a BPF object file; `optional` as in `load`."""
    if os.geteuid() != 0:
        raise EnvironmentLacking("only root can load BPF programs: run this with sudo")
    if not build.KERNEL_BTF.exists():
        raise EnvironmentLacking(
            f"this kernel has no BTF ({build.KERNEL_BTF}): use a kernel with CONFIG_DEBUG_INFO_BTF=y"
        )
    return BpfObject(path, optional)


STRUCT_OPS_SINCE, LINKS_SINCE = (5, 13), (6, 4)
"""Versions of Linux: struct_ops programs that call the kernel's TCP functions, and registrations that are links."""


def kernel_version(release: str | None = None) -> tuple[int, int]:
    """Return major and minor of a release of Linux, by default the running one. (0, 0) if it names none."""
    match = re.match(r"(\d+)\.(\d+)", platform.release() if release is None else release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def kernel_has_struct_ops_links() -> bool:
    """Return whether a struct_ops registration can be a link, which ends with its process."""
    return kernel_version() >= LINKS_SINCE


def _outdated(problem: str) -> EnvironmentLacking:
    """Return the error of an object that does not fit this code, which an object of the same version always does."""
    return EnvironmentLacking(
        f"{problem}: {build.BUILD} has programs of another version; delete this folder and run `make bpf`"
    )


@dataclass(frozen=True)
class Program:
    """A loaded program."""

    name: str
    fd: int

    @property
    def id(self) -> int:
        """The program's kernel id, which `bpftool prog` and tc show."""
        info = bytearray(8)  # struct bpf_prog_info begins with type and id
        length = ffi.new("uint32_t *", len(info))
        if lib().bpf_obj_get_info_by_fd(self.fd, ffi.from_buffer(info), length) < 0:
            raise failure(f"BPF program {self.name}")
        return int(struct.unpack("=II", info)[1])


class Map:
    """A map of a loaded object. Values are bytes. A per-CPU map holds one value for each possible CPU."""

    def __init__(self, handle: Any) -> None:
        library = lib()
        self.name = libbpf.text(library.bpf_map__name(handle))
        self.fd = int(library.bpf_map__fd(handle))
        self.key_size = int(library.bpf_map__key_size(handle))
        self.value_size = int(library.bpf_map__value_size(handle))
        self.per_cpu = library.bpf_map__type(handle) in libbpf.PER_CPU_TYPES
        self._stride = (self.value_size + 7) // 8 * 8

    def lookup(self, key: Key) -> bytes | None:
        """Return the value of a key, None if there is none. For per-CPU maps, see `lookup_per_cpu`."""
        size = self._stride * libbpf.possible_cpus() if self.per_cpu else self.value_size
        value = bytearray(size)
        if lib().bpf_map_lookup_elem(self.fd, self._key(key), ffi.from_buffer(value)) == 0:
            return bytes(value)
        if ffi.errno == errno.ENOENT:
            return None
        raise self._refused("lookup")

    def lookup_per_cpu(self, key: Key) -> list[bytes] | None:
        """Return the value of each possible CPU, None if there is no such key."""
        if not self.per_cpu:
            raise TypeError(f"map {self.name} is not per CPU")
        values = self.lookup(key)
        if values is None:
            return None
        starts = range(0, len(values), self._stride)
        return [values[start : start + self.value_size] for start in starts]

    def lookup_sum(self, key: Key, layout: str) -> tuple[int, ...] | None:
        """Return the fields of a per-CPU value, each summed over the CPUs. `layout` (see struct) has only integers."""
        values = self.lookup_per_cpu(key)
        if values is None:
            return None
        return tuple(sum(column) for column in zip(*(struct.unpack(layout, v) for v in values), strict=True))

    def update(self, key: Key, value: bytes, *, only_new: bool = False) -> bool:
        """Set the value of a key (per-CPU maps: on every CPU). False if `only_new` and the key exists."""
        if len(value) != self.value_size:
            raise _outdated(f"map {self.name}: a value has {self.value_size} bytes, not {len(value)}")
        data = value.ljust(self._stride, b"\0") * libbpf.possible_cpus() if self.per_cpu else value
        if lib().bpf_map_update_elem(self.fd, self._key(key), data, 1 if only_new else 0) == 0:
            return True
        if only_new and ffi.errno == errno.EEXIST:
            return False
        raise self._refused("update")

    def delete(self, key: Key) -> bool:
        """Remove a key. False if there was none."""
        if lib().bpf_map_delete_elem(self.fd, self._key(key)) == 0:
            return True
        if ffi.errno == errno.ENOENT:
            return False
        raise self._refused("delete")

    def _key(self, key: Key) -> bytes:
        data = struct.pack("=I", key) if isinstance(key, int) else key
        if len(data) != self.key_size:
            raise _outdated(f"map {self.name}: a key has {self.key_size} bytes, not {len(data)}")
        return data

    def _refused(self, operation: str) -> OSError:
        return OSError(ffi.errno, f"BPF map {self.name}, {operation}: {os.strerror(ffi.errno)}")


class BpfObject(Resource):
    """A loaded object file. Its end releases programs and maps."""

    def __init__(self, path: Path, optional: Sequence[str] = ()) -> None:
        libbpf.forget_messages()
        self.path = path
        self._handle = lib().bpf_object__open_file(str(path).encode(), ffi.NULL)
        if self._handle == ffi.NULL:
            raise failure(f"cannot read the BPF object {path}")
        library = lib()
        for handle in self._map_handles() if kernel_has_struct_ops_links() else ():
            if library.bpf_map__type(handle) == libbpf.MAP_TYPE_STRUCT_OPS:
                library.bpf_map__set_map_flags(handle, library.bpf_map__map_flags(handle) | libbpf.BPF_F_LINK)
        for name in optional:
            library.bpf_program__set_autoload(self._program(name), True)
        try:
            self._load()
        except EnvironmentLacking:
            self.close()
            raise

    def program(self, name: str) -> Program:
        """Return a program by the name of its function."""
        return Program(name, int(lib().bpf_program__fd(self._program(name))))

    def _program(self, name: str) -> Any:
        handle = lib().bpf_object__find_program_by_name(self._open(), name.encode())
        if handle == ffi.NULL:
            raise _outdated(f"{self.path.name} has no program {name}")
        return handle

    def map(self, name: str) -> Map:
        """Return a map by its name."""
        return Map(self.map_handle(name))

    def map_handle(self, name: str) -> Any:
        """Return libbpf's handle of a map."""
        handle = lib().bpf_object__find_map_by_name(self._open(), name.encode())
        if handle == ffi.NULL:
            raise _outdated(f"{self.path.name} has no map {name}")
        return handle

    def close(self) -> None:
        if self._handle != ffi.NULL:
            lib().bpf_object__close(self._handle)
            self._handle = ffi.NULL

    def _open(self) -> Any:
        if self._handle == ffi.NULL:
            raise ValueError(f"{self.path.name} is closed")
        return self._handle

    def _load(self) -> None:
        shared_maps = [handle for handle in self._map_handles() if shared_resource.is_shared(handle)]
        with shared_resource.one_at_a_time() if shared_maps else nullcontext():
            for handle in shared_maps:
                shared_resource.reuse(handle)
            code = lib().bpf_object__load(self._handle)
        if code < 0:
            raise failure(f"cannot load the BPF object {self.path}", code)

    def _map_handles(self) -> Iterator[Any]:
        handle = ffi.NULL
        while (handle := lib().bpf_object__next_map(self._handle, handle)) != ffi.NULL:
            yield handle


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


class RingBuffer(Resource):
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
        if self._ring != ffi.NULL:
            lib().ring_buffer__free(self._ring)
            self._ring = ffi.NULL

    def _take(self, _context: Any, data: Any, size: int) -> int:
        self._taken.append(bytes(ffi.buffer(data, size)))
        return 0
