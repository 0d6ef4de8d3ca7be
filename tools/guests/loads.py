# SPDX-License-Identifier: Apache-2.0
"""Every BPF program of dataplane/bpf in a guest that has nothing but busybox, bpftool and load_object."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sluice.dataplane import build
from sluice.runtime.command import run
from tools.guests import initramfs
from tools.guests.kernels import program, unpacked
from tools.guests.machine import boot

TIMEOUT_S = 540
_RESULT = re.compile(r"^== (\S+) (\S+) (\d+)$")

_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/sbin:/sbin
mount -t proc none /proc
mount -t sysfs none /sys
ip link set lo up
result() { echo "== $1 $2 $?"; }
load_object /objects/*.bpf.o
# The kernel frees maps after a grace period.
for i in 1 2 3 4 5 6 7 8 9 10; do
  [ -n "$(bpftool map show)$(bpftool prog show | grep sluice)" ] || break
  sleep 1
done
[ -z "$(bpftool map show)$(bpftool prog show | grep sluice)" ]; result nothing left
echo "== end $(uname -r) 0"
echo b > /proc/sysrq-trigger
"""


@dataclass(frozen=True)
class Loads:
    """What a kernel did with the objects: step and object → exit code. `console` holds the reasons."""

    release: str | None
    codes: dict[tuple[str, str], int]
    console: str


def loads(series: str, folder: Path) -> Loads:
    """Return how a kernel loads every program, with the files of the guest in `folder`."""
    kernel = unpacked(series)
    objects = {f"objects/{name}.bpf.o": build.ensure(name).read_bytes() for name in build.names()}
    tools = initramfs.with_libraries(str(Path(program("bpftool")).resolve())) | _load_object(folder)
    archive = folder / "initramfs"
    archive.write_bytes(initramfs.build({"init": _INIT.encode(), **tools, **objects}))
    return read(boot(kernel, archive, folder / "console", timeout_s=TIMEOUT_S))


def _load_object(folder: Path) -> dict[str, bytes]:
    """Return the program that loads one object, and its libraries."""
    source, made = Path(__file__).with_name("load_object.c"), folder / "load_object"
    run([program("cc"), "-O1", "-o", str(made), str(source), "-lbpf"])
    return {"bin/load_object": made.read_bytes(), **initramfs.libraries(str(made))}


def read(console: str) -> Loads:
    """Return the results in a guest's output. `release` is None if the guest did not reach its end."""
    found = [match for line in console.splitlines() if (match := _RESULT.match(line.strip()))]
    steps = {(match[1], match[2]): int(match[3]) for match in found if match[1] != "end"}
    release = next((match[2] for match in found if match[1] == "end"), None)
    return Loads(release, steps, console)
