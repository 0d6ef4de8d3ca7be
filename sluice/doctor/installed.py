# SPDX-License-Identifier: Apache-2.0
"""Checks that need no testbed: programs, kernel features, and BPF programs that load."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sluice.dataplane import congestion, sockopt
from sluice.dataplane.build import KERNEL_BTF
from sluice.dataplane.congestion import available, register_congestion_control
from sluice.dataplane.port import PortProgram
from sluice.dataplane.sockopt import attach_socket_hook
from sluice.dataplane.watch import Watch
from sluice.doctor.kernel import Kernel
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.runtime.command import CommandFailed, run
from sluice.topologies import ovs
from sluice.topologies.qdiscs import try_qdisc

REFUSALS = (SluiceError, CommandFailed, OSError, subprocess.SubprocessError)
"""What a machine that lacks something makes our code and its tools raise."""

DATAPATHS = "Open vSwitch datapaths"
HOOK = "setsockopt hook (cgroup BPF)"
PORT_PROGRAM = "BPF programs"
WATCH = "flow watch"


def struct_ops(control: str) -> str:
    """Return the name of the finding about a congestion control."""
    return f"{control} (struct_ops)"


class Check(NamedTuple):
    """One finding. `remedy` says what to do if it is not ok."""

    name: str
    ok: bool
    detail: str
    remedy: str


def tried(name: str, attempt: Callable[[], str], remedy: str) -> Check:
    """Return a check that is ok if the attempt raises none of REFUSALS."""
    try:
        return Check(name, True, attempt(), remedy)
    except REFUSALS as error:
        return Check(name, False, str(error), remedy)


def guarded(name: str, make: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Yield the checks that `make` yields. Any error becomes a finding, because the doctor must reach its end."""
    try:
        yield from make()
    except Exception as error:
        what = f"the check stopped: {type(error).__name__}: {error}"
        yield Check(name, False, what, "see the findings above; if none explains it, report this line")


TOOLS: dict[str, tuple[list[str], str]] = {
    "ovs-vswitchd": (["--version"], "openvswitch-switch"),
    "ovsdb-server": (["--version"], "openvswitch-switch"),
    "mnexec": ([], "mininet"),
    "ip": (["-V"], "iproute2"),
    "tc": (["-V"], "iproute2"),
    "ethtool": (["--version"], "ethtool"),
    "ifconfig": (["--version"], "net-tools"),
    "ping": (["-V"], "iputils-ping"),
    "unshare": (["--version"], "util-linux"),
    "sysctl": (["--version"], "procps"),
    "clang": (["--version"], "clang"),
    "bpftool": (["version"], "bpftool"),
    "iperf": (["--version"], "iperf"),
}
"""Program → the arguments that print its version, and the Debian package that contains it."""
VERSION_S = 10
TUN = Path("/dev/net/tun")
QDISCS = {"htb": ("sch_htb", "root handle 1: htb"), "clsact": ("sch_ingress", "clsact")}
"""Kind → its module, and the arguments of tc that make one."""


def check_root() -> Check:
    uid = os.geteuid()
    remedy = (
        "run this with sudo, which also checks qdiscs, BPF and Open vSwitch. "
        "Without root, the simulated fabric works: sluice demo --on simulator"
    )
    return Check("root", uid == 0, f"user id {uid}", remedy)


def check_capabilities(kernel: Kernel) -> Check:
    """In a restricted service or container, root may lack what Sluice needs."""
    missing = kernel.missing_capabilities
    detail = f"{', '.join(missing)} missing" if missing else "all that Sluice needs"
    return Check("capabilities", not missing, detail, kernel.capabilities_remedy())


def check_tools(kernel: Kernel) -> Iterator[Check]:
    for program, (arguments, package) in TOOLS.items():
        path = shutil.which(program)
        if path is None:
            yield Check(program, False, "is missing", f"apt-get install {package}")
            continue
        attempt = partial(_version, [path, *arguments]) if arguments else partial(str, path)
        yield tried(program, attempt, kernel.tool_remedy(package))


def _version(argv: list[str]) -> str:
    """Return the first line with a version number. iperf prints its version and ends with an error code."""
    try:
        text = run(argv, timeout_s=VERSION_S)
    except CommandFailed as error:
        text = error.output
    except subprocess.TimeoutExpired:  # a slow machine; the program is there
        return f"{argv[0]}, which did not print its version within {VERSION_S} s"
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in lines if re.search(r"\d+\.\d+|\d{6}", line)), "version unknown")


def check_btf(kernel: Kernel) -> Check:
    there = KERNEL_BTF.exists()
    detail = str(KERNEL_BTF) if there else f"no {KERNEL_BTF}"
    return Check("kernel types (BTF)", there, detail, kernel.btf_remedy())


def check_congestion_controls(kernel: Kernel) -> Check:
    offered = available()
    remedy = kernel.module_remedy("tcp_cubic")
    return Check("TCP congestion controls", "cubic" in offered, " ".join(offered), remedy)


def check_qdiscs(kernel: Kernel) -> Iterator[Check]:
    """The qdiscs of hosts and switch ports can be made, in a network namespace of their own."""
    for kind, (module, where) in QDISCS.items():
        yield tried(f"{kind} qdisc", partial(try_qdisc, where), kernel.qdisc_remedy(module))


def check_tun(kernel: Kernel) -> Check:
    """Open vSwitch's userspace datapath makes an interface for each bridge through this device."""
    remedy = (
        f"start the container with --device {TUN}" if kernel.in_container else kernel.module_remedy("tun")
    )
    return Check(str(TUN), TUN.exists(), "is there" if TUN.exists() else "is missing", remedy)


def check_port_program(kernel: Kernel) -> Check:
    def attempt() -> str:
        with PortProgram() as program:
            program.follow_departures()
            return "the port program loads and counts departures"

    return tried(PORT_PROGRAM, attempt, kernel.programs_remedy())


def check_watch(kernel: Kernel) -> Check:
    def attempt() -> str:
        with Watch() as watch:
            return f"attaches, and sees {len(watch.live())} connections in this network namespace"

    return tried(WATCH, attempt, kernel.programs_remedy())


def check_struct_ops(kernel: Kernel) -> Iterator[Check]:
    """Each of Sluice's congestion controls registers. Without one, agents use the kernel's own and mark the run."""

    def attempt(name: str) -> str:
        with register_congestion_control(name) as control:
            return "registers" if control.owned else "is registered by another process"

    for name in congestion.ours():
        yield tried(struct_ops(name), partial(attempt, name), kernel.struct_ops_remedy())


def check_socket_hook(kernel: Kernel) -> Check:
    """The hook attaches by which programs declare their flows with setsockopt()."""

    def attempt() -> str:
        with attach_socket_hook() as hook:
            if not sockopt.answers():
                raise SluiceError(f"attached to {sockopt.cgroup_root()}, but the kernel does not call it")
            return f"attaches to {sockopt.cgroup_root()}" if hook.owned else "is attached by another process"

    try:
        sockopt.cgroup_root()
        is_mounted = True
    except EnvironmentLacking:
        is_mounted = False
    return tried(HOOK, attempt, kernel.hook_remedy(is_mounted))


def check_datapaths() -> Check:
    kinds = (
        "kernel and userspace"
        if ovs.kernel_datapath()
        else "userspace only: the kernel has no openvswitch module"
    )
    return Check(DATAPATHS, True, kinds, "")
