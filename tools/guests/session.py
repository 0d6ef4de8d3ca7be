# SPDX-License-Identifier: Apache-2.0
"""A command under another kernel, which sees this machine's files.

The guest may write everywhere, but only what it writes to its output folder reaches this machine. Modules are those of
its own kernel.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.guests import initramfs
from tools.guests.kernels import Kernel, module_bytes, module_name, unpacked
from tools.guests.machine import GuestFailed, boot

MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
MEMORY_MB = 3072

_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
while read module; do insmod /modules/$module; done < /modules/order
mkdir /below /above /whole
shared=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o $shared,ro,cache=loose files /below
mount -t tmpfs none /above
mkdir /above/upper /above/work
mount -t overlay -o lowerdir=/below,upperdir=/above/upper,workdir=/above/work none /whole
mount -t proc none /whole/proc
mount -t sysfs none /whole/sys
mount -t devtmpfs none /whole/dev
mkdir -p /whole/dev/pts /whole/dev/shm @modules@ @output@
mount -t devpts none /whole/dev/pts
for folder in /dev/shm /tmp /run; do mount -t tmpfs -o mode=1777 none /whole$folder; done
mount -t bpf none /whole/sys/fs/bpf
mount -t cgroup2 none /whole/sys/fs/cgroup
mount -t 9p -o $shared,ro,cache=loose modules @modules@
mount -t 9p -o $shared,rw,cache=loose output @output@
ip link set lo up
@start@
"""
_ALONE = "exec switch_root /whole /bin/bash @script@"
"""The guest runs the command as its only process."""
_WITH_SYSTEMD = """units=/whole/etc/systemd/system
mkdir -p $units/multi-user.target.wants
echo "[Service]
ExecStart=/bin/bash @script@" > $units/inside.service
ln -s ../inside.service $units/multi-user.target.wants/
ln -s /dev/null $units/serial-getty@ttyS0.service
exec switch_root /whole /lib/systemd/systemd"""
"""systemd starts the command as one of its services."""

# The guest writes to its output folder in large parts, because each write costs milliseconds. The reset ends the
# machine, so everything must be written before.
_SCRIPT = """cd {folder}
modprobe tun  # systemd would make its device, which Open vSwitch's userspace datapath opens
while sleep 5; do sync {output}/*; done 2> /dev/null &
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root TMPDIR=/tmp LANG=C.UTF-8 {environment}
{command} > {output}/out 2>&1 < /dev/null
echo $? > {output}/code
sync
echo b > /proc/sysrq-trigger
"""


@dataclass(frozen=True)
class Ended:
    """A command that has ended in a guest: exit code and output."""

    code: int
    output: str


def run_in_guest(
    series: str,
    command: Sequence[str],
    output: Path,
    *,
    timeout_s: float,
    cpus: int = 2,
    environment: Sequence[str] = (),
    system: Path | None = None,
) -> Ended:
    """Run a command as root under Debian's kernel of a series. Guests may run side by side.

    Without `system`, the guest sees the files of this machine, and the command is alone in the current folder. `system`
    is the root folder of a Debian system: systemd starts its services and the command, which begins in /root. The guest
    writes into the folder `output`, which must be outside /tmp, /run and /dev. Raises EnvironmentLacking if the kernel
    or QEMU is missing, and GuestFailed if the guest does not end within `timeout_s`.
    """
    output = output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    kernel = unpacked(series)
    script, archive, code = output / "script", output / "initramfs", output / "code"
    code.unlink(missing_ok=True)
    text = _SCRIPT.format(
        folder="/root" if system else shlex.quote(str(Path.cwd())),
        command=shlex.join(command),
        output=shlex.quote(str(output)),
        environment=" ".join(map(shlex.quote, environment)),
    )
    script.write_text(text)
    archive.write_bytes(_archive(kernel, output, script, _WITH_SYSTEMD if system else _ALONE))
    console = output / "console"
    shares = [
        *_share("files", system or Path("/"), readonly=True),
        *_share("modules", kernel.modules, readonly=True),
        *_share("output", output, readonly=False),
    ]
    boot(kernel, archive, console, timeout_s=timeout_s, cpus=cpus, memory_mb=MEMORY_MB, devices=shares)
    if not code.exists():
        raise GuestFailed(f"the guest with kernel {kernel.release} ended early: see {console}")
    return Ended(int(code.read_text()), (output / "out").read_text(errors="replace"))


def _archive(kernel: Kernel, output: Path, script: Path, start: str) -> bytes:
    files = {module_name(path.name): path for path in kernel.module_files(MODULES)}
    places = {
        "@modules@": f"/whole/lib/modules/{kernel.release}",
        "@output@": shlex.quote(f"/whole{output}"),
        "@script@": shlex.quote(str(script)),
    }
    init = _INIT.replace("@start@", start)
    for place, path in places.items():
        init = init.replace(place, path)
    order = "".join(f"{name}\n" for name in files)
    modules = {f"modules/{name}": module_bytes(path) for name, path in files.items()}
    return initramfs.build({"init": init.encode(), "modules/order": order.encode(), **modules})


def _share(tag: str, folder: Path, *, readonly: bool) -> list[str]:
    """Return the arguments of QEMU that show a folder of this machine to the guest."""
    options = f"local,path={folder},mount_tag={tag},security_model=none,multidevs=remap"
    return ["-virtfs", options + (",readonly=on" if readonly else "")]
