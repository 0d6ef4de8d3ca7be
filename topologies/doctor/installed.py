# SPDX-License-Identifier: Apache-2.0
"""Checks that need no testbed: programs, kernel features, and BPF programs that load."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

from dataplane import congestion, sockopt
from dataplane.build import KERNEL_BTF
from dataplane.congestion import available, register_congestion_control
from dataplane.port import PortProgram
from dataplane.sockopt import attach_socket_hook
from policy.errors import SluiceError
from runtime.command import CommandFailed, run
from topologies import ovs
from topologies.doctor.check import Check, tried

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


def check_root() -> Check:
    uid = os.geteuid()
    return Check("root", uid == 0, f"user id {uid}", "run this with sudo")


def check_tools() -> Iterator[Check]:
    for program, (arguments, package) in TOOLS.items():
        yield _check_tool(program, arguments, package)


def _check_tool(program: str, arguments: list[str], package: str) -> Check:
    remedy = f"apt-get install {package}"
    path = shutil.which(program)
    if path is None:
        return Check(program, False, "is missing", remedy)
    return Check(program, True, _version([path, *arguments]) if arguments else path, remedy)


def _version(argv: list[str]) -> str:
    """Return the first line with a version number. iperf prints its version and ends with an error code."""
    try:
        text = run(argv, timeout_s=10)
    except CommandFailed as error:
        text = error.output
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in lines if re.search(r"\d+\.\d+|\d{6}", line)), "version unknown")


def check_btf() -> Check:
    return Check(
        "kernel types (BTF)",
        KERNEL_BTF.exists(),
        str(KERNEL_BTF) if KERNEL_BTF.exists() else f"no {KERNEL_BTF}",
        "use a kernel with CONFIG_DEBUG_INFO_BTF=y (Debian's and Ubuntu's have it)",
    )


def check_congestion_controls() -> Check:
    names = available()
    return Check("TCP congestion controls", "cubic" in names, " ".join(names), "modprobe tcp_cubic")


def check_port_program() -> Check:
    def attempt() -> str:
        with PortProgram() as program:
            program.follow_departures()
            return "the port program loads and counts departures"

    return tried("BPF programs", attempt, "needs root, BTF, clang, bpftool and libbpf1")


def check_struct_ops() -> Iterator[Check]:
    """Each of Sluice's congestion controls registers. Without one, agents use the kernel's own and mark the run."""
    for name in congestion.ours():
        yield _check_control(name)


def _check_control(name: str) -> Check:
    def attempt() -> str:
        with register_congestion_control(name) as control:
            return "registers" if control.owned else "is registered by another process"

    remedy = (
        "use Linux 5.13 or later with CONFIG_BPF_JIT=y and BTF; until then, hosts use one of the kernel's own"
    )
    return tried(f"{name} (struct_ops)", attempt, remedy)


def check_socket_hook() -> Check:
    """The hook attaches by which programs declare their flows with setsockopt()."""

    def attempt() -> str:
        with attach_socket_hook() as hook:
            if not sockopt.answers():
                raise SluiceError(f"attached to {sockopt.cgroup_root()}, but the kernel does not call it")
            return f"attaches to {sockopt.cgroup_root()}" if hook.owned else "is attached by another process"

    return tried(
        "setsockopt hook (cgroup BPF)",
        attempt,
        "use Linux 5.18 or later with CONFIG_CGROUP_BPF=y, and cgroup2",
    )


def check_datapaths() -> Check:
    kinds = (
        "kernel and userspace"
        if ovs.kernel_datapath()
        else "userspace only: the kernel has no openvswitch module"
    )
    return Check("Open vSwitch datapaths", True, kinds, "")
