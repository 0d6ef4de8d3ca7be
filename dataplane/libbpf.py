# SPDX-License-Identifier: Apache-2.0
"""The part of libbpf that Sluice uses, bound by cffi in ABI mode (without a compiler), and libbpf's errors."""

import errno
import os
from abc import ABC, abstractmethod
from collections import deque
from functools import lru_cache
from typing import Any, Self

from cffi import FFI

from sluice.policy.errors import EnvironmentLacking

MAP_TYPE_PERCPU_HASH, MAP_TYPE_PERCPU_ARRAY, MAP_TYPE_LRU_PERCPU_HASH = 5, 6, 10
MAP_TYPE_STRUCT_OPS = 26
PER_CPU_TYPES = {MAP_TYPE_PERCPU_HASH, MAP_TYPE_PERCPU_ARRAY, MAP_TYPE_LRU_PERCPU_HASH}

BPF_F_LINK = 1 << 13
"""A link registers a struct_ops map with this flag (kernel 6.4 and later). The registration ends with the link."""
ATTACH_STRUCT_OPS = 44
"""enum bpf_attach_type BPF_STRUCT_OPS. libbpf 1.1 does not know it, but the system call accepts it."""
ATTACH_RAW_TRACEPOINT, ATTACH_FUNCTION_ENTRY, ATTACH_ITERATOR = 23, 24, 28
"""enum bpf_attach_type BPF_TRACE_RAW_TP, BPF_TRACE_ITER."""
ATTACH_CGROUP_SOCK_OPS, ATTACH_CGROUP_GETSOCKOPT, ATTACH_CGROUP_SETSOCKOPT = 3, 21, 22
PROGRAM_TYPE_SCHED_CLS, PROGRAM_TYPE_CGROUP_SOCKOPT = 3, 25
"""enum bpf_prog_type."""

_LIBBPF_ERRNO_START = 4000
"""libbpf's own errors begin here: not an ELF file, wrong byte order, a relocation that fails."""
_DAMAGED = (errno.ENOENT, errno.EINVAL, errno.ENOEXEC, errno.ESRCH, errno.ENODATA)

_LEVEL_DEBUG = 2
_LAST_LINES = 60

ffi = FFI()
ffi.cdef(
    """
    int vsnprintf(char *text, size_t size, const char *format, void *arguments);
    typedef int (*libbpf_print_fn_t)(int level, const char *format, void *arguments);
    libbpf_print_fn_t libbpf_set_print(libbpf_print_fn_t print);
    int libbpf_num_possible_cpus(void);
    int libbpf_strerror(int error, char *text, size_t size);
    int libbpf_probe_bpf_prog_type(int type, const void *options);

    void *bpf_object__open_file(const char *path, const void *options);
    int bpf_object__load(void *object);
    void bpf_object__close(void *object);
    void *bpf_object__find_program_by_name(void *object, const char *name);
    int bpf_program__set_autoload(void *program, bool autoload);
    int bpf_program__fd(void *program);
    void *bpf_object__find_map_by_name(void *object, const char *name);
    void *bpf_object__next_map(void *object, void *previous);

    int bpf_map__fd(void *map);
    const char *bpf_map__name(void *map);
    uint32_t bpf_map__type(void *map);
    uint32_t bpf_map__key_size(void *map);
    uint32_t bpf_map__value_size(void *map);
    uint32_t bpf_map__map_flags(void *map);
    int bpf_map__set_map_flags(void *map, uint32_t flags);
    int bpf_map__reuse_fd(void *map, int fd);
    int bpf_map_get_next_id(uint32_t id, uint32_t *next_id);
    int bpf_map_get_fd_by_id(uint32_t id);
    int bpf_map_lookup_elem(int fd, const void *key, void *value);
    int bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags);
    int bpf_map_delete_elem(int fd, const void *key);

    void *bpf_map__attach_struct_ops(void *map);
    void bpf_link__disconnect(void *link);
    int bpf_link__destroy(void *link);
    struct bpf_link_create_opts {
        size_t sz;
        uint32_t flags;
        const void *iter_info;
        uint32_t iter_info_len;
        uint32_t target_btf_id;
        uint64_t rest[2];
    };
    int bpf_link_create(int program_fd, int target_fd, int attach_type, const void *options);
    int bpf_iter_create(int link_fd);
    int bpf_link_get_next_id(uint32_t id, uint32_t *next_id);
    int bpf_link_get_fd_by_id(uint32_t id);

    typedef int (*ring_buffer_sample_fn)(void *context, void *data, size_t size);
    void *ring_buffer__new(int map_fd, ring_buffer_sample_fn take, void *context, const void *options);
    int ring_buffer__consume(void *ring);
    void ring_buffer__free(void *ring);

    int bpf_prog_get_fd_by_id(uint32_t id);
    int bpf_obj_get_info_by_fd(int fd, void *info, uint32_t *info_len);

    struct bpf_test_run_opts {
        size_t sz;
        const void *data_in;
        void *data_out;
        uint32_t data_size_in;
        uint32_t data_size_out;
        const void *ctx_in;
        void *ctx_out;
        uint32_t ctx_size_in;
        uint32_t ctx_size_out;
        uint32_t retval;
        int repeat;
        uint32_t duration;
        uint32_t flags;
        uint32_t cpu;
        uint32_t batch_size;
    };
    int bpf_prog_test_run_opts(int program_fd, struct bpf_test_run_opts *options);
    """
)

_messages: deque[str] = deque(maxlen=_LAST_LINES)


@lru_cache(maxsize=1)
def lib() -> Any:
    """Return libbpf, loaded once. Raises EnvironmentLacking if it is not installed."""
    library: Any
    try:
        library = ffi.dlopen("libbpf.so.1")
    except OSError as error:
        raise EnvironmentLacking(
            "libbpf 1.x is needed to load BPF programs: apt-get install libbpf1"
        ) from error
    library.libbpf_set_print(_print)
    return library


@ffi.callback("int(int, const char *, void *)")
def _print(level: int, text_format: Any, arguments: Any) -> int:
    if level < _LEVEL_DEBUG:
        libc: Any = ffi.dlopen(None)
        message: Any = ffi.new("char[]", 1 << 16)
        # In the ABIs of x86-64 and arm64, a va_list parameter is a pointer, so this passes it on unchanged.
        libc.vsnprintf(message, len(message), text_format, arguments)
        lines = text(message)
        _messages.extend(lines.rstrip("\n").split("\n"))
    return 0


def failure(what: str, code: int | None = None) -> EnvironmentLacking:
    """Return the error to raise after a libbpf failure, with errno's reason and libbpf's last lines."""
    number = abs(code) if code is not None and code < -1 else ffi.errno
    output = "\n".join(f"  {line}" for line in _messages)
    _messages.clear()
    said = f"\noutput of libbpf:\n{output}" if output else ""
    reason = ffi.new("char[]", 256)
    lib().libbpf_strerror(number, reason, len(reason))
    return EnvironmentLacking(f"{what}: {text(reason)}. {_remedy(number, bool(output))}{said}")


def _remedy(number: int, explained: bool) -> str:
    """Return what to do about an error. `explained`: libbpf's output follows."""
    if number in (errno.EPERM, errno.EACCES) and os.geteuid() != 0:
        return "Run as root (or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)."
    if number in (errno.EPERM, errno.EACCES):
        lacking = "this process lacks CAP_BPF, CAP_NET_ADMIN or CAP_PERFMON"
        return (
            f"The kernel's verifier gives its reason below, or {lacking}."
            if explained
            else f"Probably {lacking}."
        )
    if number in _DAMAGED or number >= _LIBBPF_ERRNO_START:
        return (
            "The object file is damaged or not for this kernel: run `python -m sluice.dataplane.build` here."
        )
    return "Run `sluice doctor` to see what this machine lacks."


def forget_messages() -> None:
    """Forget libbpf's messages, because earlier ones do not explain the next failure."""
    _messages.clear()


def text(pointer: Any) -> str:
    """Return a C string of libbpf."""
    string = ffi.string(pointer)
    return string.decode(errors="replace") if isinstance(string, bytes) else string


@lru_cache(maxsize=1)
def possible_cpus() -> int:
    """Return the number of values in each entry of a per-CPU map."""
    return int(lib().libbpf_num_possible_cpus())


class Resource(ABC):
    """What this process holds in the kernel. It is a context manager, whose end closes it."""

    @abstractmethod
    def close(self) -> None:
        """Release it. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
