# SPDX-License-Identifier: Apache-2.0
"""BPF objects of the kernel, by number because other tests of this machine have some, too, and a program of others."""

import ctypes
import json
import os
import re
import socket
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from sluice.dataplane import build
from sluice.dataplane.libbpf import lib
from sluice.dataplane.loader import Program, open_object
from sluice.dataplane.rtnetlink import KIND, OPTIONS, TCMSG, Kind, make, packed
from sluice.dataplane.shared_resource import PREFIX
from sluice.runtime.command import run
from sluice.runtime.wait import wait_until
from tests.kernel.lab import Namespace


def wait_freed(programs: Iterable[int], maps: Iterable[int] = ()) -> None:
    """Wait until the kernel has none of these programs and maps."""
    by_number = lib().bpf_prog_get_fd_by_id, lib().bpf_map_get_fd_by_id
    wait_until(lambda: not any(_exists(by_number[0], n) for n in programs), "the kernel frees every program")
    wait_until(lambda: not any(_exists(by_number[1], n) for n in maps), "the kernel frees every map")


def leaves_nothing(hold: Callable[[], AbstractContextManager[object]], rounds: int = 3) -> None:
    """Check that what is held again and again leaves no program, no map and no open file."""
    me, files = os.getpid(), 0
    before, programs, maps = (programs_of(me), maps_of(me)), set[int](), set[int]()
    for number in range(rounds):
        with hold():
            programs |= programs_of(me) - before[0]
            maps |= maps_of(me) - before[1]
        files = files or _open_files()
        assert _open_files() == files, f"round {number}"
    assert len(programs) >= rounds
    wait_freed(programs, maps)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _exists(open_by_number: Callable[[int], Any], number: int) -> bool:
    fd = int(open_by_number(number))
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def programs_of(pid: int) -> set[int]:
    """Return the numbers of the programs that a process holds, by itself or by a link."""
    return _numbers("prog_id", pid)


def maps_of(pid: int) -> set[int]:
    """The same of maps, but those that all processes of the machine share."""
    shown = json.loads(run(["bpftool", "-j", "map", "show"]))
    shared = {each["id"] for each in shown if each.get("name", "").startswith(PREFIX)}
    return _numbers("map_id", pid) - shared


def _numbers(key: str, pid: int) -> set[int]:
    found: set[int] = set()
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(FileNotFoundError):  # closed in the meantime
            found |= {
                int(number) for number in re.findall(rf"^{key}:\s*(\d+)", file.read_text(), re.MULTILINE)
            }
    return found


SOURCE = """
#include "packet.bpf.h"
SEC("tc") int others(struct __sk_buff *skb) { return 0; }
char LICENSE[] SEC("license") = "GPL";
"""
EGRESS, ALL = 0xFFFFFFF3, 3
SYS_BPF, BPF_PROG_ATTACH, BPF_PROG_DETACH, BPF_TCX_INGRESS, BPF_TCX_EGRESS = 321, 8, 9, 46, 47
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def ending_program() -> Iterator[Program]:
    with tempfile.TemporaryDirectory() as folder:
        path = build.compile_source("others", SOURCE, Path(folder))
        with open_object(path) as loaded:
            yield loaded.program("others")


def add_filter(ns: Namespace, ifname: str, program: Program, priority: int, name: str = "others") -> None:
    """Add a filter of tc, as Cilium does."""
    direct_action = struct.pack("=I", 1)
    options = {
        6: struct.pack("=I", program.fd),
        7: f"{name}\0".encode(),
        8: direct_action,
    }  # TCA_BPF_FD, NAME, FLAGS
    with ns:
        place = TCMSG.pack(0, socket.if_nametoindex(ifname), 1, EGRESS, priority << 16 | socket.htons(ALL))
        make(Kind.FILTERS, place + packed({KIND: b"bpf\0", OPTIONS: packed(options)}))


def tcx(
    command: int, ns: Namespace, ifname: str, program: Program, attach_type: int = BPF_TCX_EGRESS
) -> None:
    """Attach or detach a program at TCX, which the kernel runs before all filters. Raises OSError before Linux 6.6."""
    with ns:
        index = socket.if_nametoindex(ifname)
        attributes = struct.pack("=IIIIIIQ", index, program.fd, attach_type, 0, 0, 0, 0)
        if _libc.syscall(SYS_BPF, command, attributes, len(attributes)) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
