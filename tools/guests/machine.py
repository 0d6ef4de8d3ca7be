# SPDX-License-Identifier: Apache-2.0
"""A virtual machine that boots a kernel with an archive of files, and ends by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from sluice.policy.errors import SluiceError
from sluice.runtime.process import die_with_parent
from tools.guests.image import elf
from tools.guests.kernels import Kernel, program

# On a busy machine, the kernel measures a wrong frequency of the time stamp counter, and its clock would run many times
# too fast. The event timer does not depend on such a measurement.
# The verifier does more checks with mitigations for processes without privileges, and Sluice loads as root.
# The second line saves CPU time of the boot, and of each grace period.
# Without no_timer_check, the kernel panics at its start if a busy machine does not run the guest for some ticks.
_KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet loglevel=2 panic=-1 reboot=t tsc=unstable clocksource=hpet random.trust_cpu=on "
    "nokaslr cryptomgr.notests init_on_alloc=0 lsm=capability rcupdate.rcu_expedited=1 "
    "mitigations=off audit=0 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 no_timer_check"
)


class GuestFailed(SluiceError):
    """A guest did not end by itself. The message holds its last lines."""


def boot(
    kernel: Kernel,
    archive: Path,
    console: Path,
    *,
    timeout_s: float,
    cpus: int = 1,
    memory_mb: int = 768,
    devices: Sequence[str] = (),
) -> str:
    """Run a guest to its end and return what it wrote to its console, which is also in the file `console`.

    `devices` are further arguments of QEMU. Raises GuestFailed after `timeout_s`.
    """
    with console.open("wb") as output:
        guest = subprocess.Popen(
            [*_command(kernel, archive, cpus, memory_mb), *devices],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
        try:
            guest.wait(timeout_s)
        except subprocess.TimeoutExpired as late:
            raise GuestFailed(
                f"the guest with kernel {kernel.release} did not end within {timeout_s:g} s: see {console}"
            ) from late
        finally:
            guest.kill()
            guest.wait()
    return console.read_text(errors="replace")


def _command(kernel: Kernel, archive: Path, cpus: int, memory_mb: int) -> list[str]:
    return [
        *("nice", "-n", "10", program("qemu-system-x86_64")),
        *("-accel", "tcg,thread=multi", "-cpu", "max,la57=off", "-smp", str(cpus), "-m", f"{memory_mb}M"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"),
        *("-kernel", str(elf(kernel)), "-initrd", str(archive), "-append", _KERNEL_ARGUMENTS),
    ]
