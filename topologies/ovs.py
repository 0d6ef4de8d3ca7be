# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch: its own database, sockets and processes in one folder, next to the system's service.

ovs-vswitchd gets larger buffers for its packet sockets. The userspace datapath sends on one AF_PACKET socket for all
ports. The kernel charges packets in any port's queue to that socket's send buffer. The default buffer holds about 90
full packets for all switches together. Beyond it, packets are lost without a counter.

The default for new sockets belongs to the whole machine. So the testbed takes the sockets of this one process by
pidfd_getfd(2) and enlarges each. It enlarges receive buffers, too, so that a late switch delays packets and does not
lose them.
"""

import ctypes
import logging
import os
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import SWITCH_NICE, Priority, raised
from sluice.runtime.wait import patient

log = logging.getLogger(__name__)

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")

LIFE_S = round(patient(6))
"""A process that gives no answer for so many seconds hangs."""


def environment(folder: Path) -> dict[str, str]:
    """Return the variables that make the Open vSwitch tools use the instance in a folder."""
    return {f"OVS_{name}": str(folder) for name in ("RUNDIR", "DBDIR", "LOGDIR", "SYSCONFDIR")}


def tool_argv(argv: Sequence[str], folder: Path) -> list[str]:
    """Return the argument vector of an Open vSwitch tool, with the socket for ovs-appctl.

    Without it, ovs-appctl reads the process id from a pid file. Outside the PID namespace, that id names another
    process.
    """
    if argv[0] == "ovs-appctl" and not {"-t", "--target"} & set(argv):
        return ["ovs-appctl", "-t", str(folder / "ovs-vswitchd.ctl"), *argv[1:]]
    return list(argv)


def tool(argv: Sequence[str], folder: Path, *, stdin: str | None = None) -> str:
    """Run ovs-vsctl, ovs-ofctl, ovs-appctl, … against the instance in a folder, from any namespace."""
    env = {**os.environ, **environment(folder)}
    return run(tool_argv(argv, folder), stdin=stdin, env=env, timeout_s=30.0)


def make_database(folder: Path) -> None:
    """Make an empty database in a new folder. Raises EnvironmentLacking if Open vSwitch is not installed."""
    if not SCHEMA.exists():
        raise EnvironmentLacking(f"Open vSwitch is missing ({SCHEMA}): apt-get install openvswitch-switch")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(["ovsdb-tool", "create", str(folder / "conf.db"), str(SCHEMA)])


def database_argv(folder: Path) -> list[str]:
    return [
        "ovsdb-server",
        str(folder / "conf.db"),
        f"--remote=punix:{folder}/db.sock",
        f"--unixctl={folder}/ovsdb-server.ctl",
        "-vconsole:warn",
    ]


def switch_argv(folder: Path, priority: Priority) -> list[str]:
    """Return the command of ovs-vswitchd, which runs before ordinary processes if this place allows it.

    One thread of it moves every packet, and a hardware switch never waits for a CPU. Next to two busy processes
    (10 KB flows, 50 Mb/s), the p99 FCT is 37 ms above the ideal with nice. In real time it is 0.4 ms.
    """
    argv = [
        "ovs-vswitchd",
        f"unix:{folder}/db.sock",
        f"--unixctl={folder}/ovs-vswitchd.ctl",
        "-vconsole:warn",
    ]
    return raised(argv, priority, SWITCH_NICE)


def life_argv(folder: Path, name: str) -> list[str]:
    """Return the command that asks a process of this Open vSwitch for an answer. It gives up by itself."""
    return ["ovs-appctl", f"--timeout={LIFE_S}", "-t", str(folder / f"{name}.ctl"), "version"]


def database_answers(folder: Path) -> bool:
    return _succeeds(["ovs-vsctl", "--timeout=2", "--no-wait", "init"], folder)


def switch_answers(folder: Path) -> bool:
    """Return whether ovs-vswitchd has applied the whole database: bridges, ports and queues exist.

    ovs-vsctl waits for ovs-vswitchd only if it changes a value, so each call writes a new one.
    """
    new_value = f"external_ids:asked={time.monotonic_ns()}"
    return _succeeds(["ovs-appctl", "--timeout=2", "version"], folder) and _succeeds(
        ["ovs-vsctl", "--timeout=5", "set", "Open_vSwitch", ".", new_value], folder
    )


def _succeeds(argv: Sequence[str], folder: Path) -> bool:
    try:
        tool(argv, folder)
    except CommandFailed:
        return False
    return True


def controller_targets(controllers: Sequence[str], folder: Path) -> list[str]:
    """Return the targets to configure in the switches.

    Open vSwitch connects only to Unix sockets in its own folder, so this makes a link there for each.
    """
    targets = []
    for number, controller in enumerate(controllers):
        if not controller.startswith("unix:"):
            targets.append(controller)
            continue
        link = folder / f"openflow-{number}.sock"
        link.symlink_to(controller.removeprefix("unix:"))
        targets.append(f"unix:{link}")
    return targets


def kernel_datapath() -> bool:
    """Return whether this kernel has Open vSwitch's datapath. Loads its module if there is one."""
    if shutil.which("modprobe"):
        with suppress(CommandFailed):  # no such module: ovs-dpctl then fails
            run(["modprobe", "-q", "openvswitch"])
    try:
        run(["ovs-dpctl", "dump-dps"])
    except (CommandFailed, FileNotFoundError):
        return False
    return True


def datapath_type(setting: str) -> str:
    """Return "netdev" or "system" for a setting. Raises EnvironmentLacking for "system" if the kernel lacks it."""
    if setting == "netdev":
        return "netdev"
    if kernel_datapath():
        return "system"
    if setting == "system":
        raise EnvironmentLacking(
            'this kernel has no openvswitch datapath: use datapath "netdev" (userspace), or a kernel with the module'
        )
    return "netdev"


SEND_BYTES = 64 << 20
RECEIVE_BYTES = 16 << 20

_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_PIDFD_GETFD = 438
"""The system call has the same number on all architectures."""
_libc = ctypes.CDLL(None, use_errno=True)


def take_descriptor(pid: int, descriptor: int) -> int:
    """Return a duplicate of another process's file descriptor. OSError: either is gone, or this is not allowed."""
    pidfd = os.pidfd_open(pid)
    try:
        taken = int(_libc.syscall(_PIDFD_GETFD, pidfd, descriptor, 0))
        if taken < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"pidfd_getfd: {os.strerror(code)}")
        return taken
    finally:
        os.close(pidfd)


def socket_descriptors(pid: int) -> dict[str, int]:
    """Return inode name → descriptor of every socket of a process, nothing if the process is gone."""
    descriptors = {}
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = str(entry.readlink())
            if target.startswith("socket:"):
                descriptors[target] = int(entry.name)
    except (FileNotFoundError, ProcessLookupError):
        pass  # the socket was closed since the listing, or the process is gone
    return descriptors


def packet_sockets(pid: int, known: frozenset[str] = frozenset()) -> Iterator[tuple[str, socket.socket]]:
    """Yield (inode, duplicate) of a process's AF_PACKET sockets, without the known inodes."""
    for inode, descriptor in socket_descriptors(pid).items():
        if inode in known:
            continue
        try:
            duplicate = socket.socket(fileno=take_descriptor(pid, descriptor))
        except OSError as error:
            if error.errno in (1, 38):  # EPERM, ENOSYS
                raise EnvironmentLacking(
                    f"cannot enlarge the switch's packet sockets ({error.strerror}): needs root and Linux 5.6"
                ) from error
            continue
        with duplicate:
            if duplicate.family == socket.AF_PACKET:
                yield inode, duplicate


def enlarge(pid: int, known: frozenset[str]) -> frozenset[str]:
    """Enlarge the buffers of a process's packet sockets, except known ones. Returns the inodes of the enlarged."""
    done = set()
    for inode, packet_socket in packet_sockets(pid, known):
        packet_socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SEND_BYTES)
        packet_socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BYTES)
        done.add(inode)
    return frozenset(done)


def smallest_send_buffer(pid: int) -> int:
    """Return the smallest send buffer in bytes of a process's packet sockets, 0 if it has none.

    The kernel reports twice the size that was set.
    """
    sizes = [s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for _, s in packet_sockets(pid)]
    return min(sizes, default=0)
