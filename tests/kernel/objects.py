# SPDX-License-Identifier: Apache-2.0
"""BPF objects of the kernel. Tests follow their own by number, because other tests of this machine have some, too."""

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sluice.dataplane.libbpf import lib
from sluice.dataplane.shared_resource import PREFIX
from sluice.runtime.command import run


def program_exists(number: int) -> bool:
    return _exists(lib().bpf_prog_get_fd_by_id, number)


def map_exists(number: int) -> bool:
    return _exists(lib().bpf_map_get_fd_by_id, number)


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
