# SPDX-License-Identifier: Apache-2.0
"""What this machine can do: looked at first, then measured on a small testbed. Every check names its remedy."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import topologies
from dataplane import congestion, sockopt
from dataplane.build import KERNEL_BTF
from dataplane.congestion import available, register_congestion_control
from dataplane.port import PortProgram
from dataplane.sockopt import attach_socket_hook
from policy.behaviour import PortBehaviour
from policy.errors import SluiceError
from policy.tags import TAG_COUNT
from policy.units import format_rate
from runtime.command import CommandFailed, run
from runtime.wait import wait_until
from topologies import measure, ovs, static_flows
from topologies.commands import hosts as commands
from topologies.measure import Sender
from topologies.testbed import Testbed

RATE_BPS = 20_000_000
"""Low enough that two senders in Python overload a port also on a busy machine."""
RATE_TOLERANCE = 0.03
PER_TAG = 5
SHARES = (0.7, 0.3)
SHARES_S = 1.0
SHARES_BUFFER_BYTES = 20_000_000
"""More than two hosts send in the time: what a full buffer lets in would not be what the queues send."""
STANDING_PACKETS = 30
MARK_BYTES = 10_000
COUNTER_CHANGES = 20
COUNTER_MEDIAN_S = 0.11
"""Open vSwitch's least interval of 0.1 s, and what it takes to read the counter."""

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
"""Program → how it tells its version, and the Debian package that brings it."""


class Check(NamedTuple):
    """One finding; `remedy` says what to do when it is not ok."""

    name: str
    ok: bool
    detail: str
    remedy: str


def checks(*, measure: bool = True) -> Iterator[Check]:
    """All checks, each as it is made; with `measure`, those too that take a testbed (some 15 s)."""
    root = check_root()
    yield root
    yield from check_tools()
    yield check_btf()
    yield check_congestion_controls()
    if not root.ok:
        return
    yield check_port_program()
    yield from check_struct_ops()
    yield check_socket_hook()
    yield check_datapaths()
    if measure:
        yield from measured_checks()


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
    """The first line with a number in it; iperf ends with an error code after saying its version."""
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


def _try(name: str, attempt: Callable[[], str], remedy: str) -> Check:
    """A check that is ok when the attempt raises nothing that its user could mend."""
    try:
        return Check(name, True, attempt(), remedy)
    except (SluiceError, CommandFailed, TimeoutError) as error:
        return Check(name, False, str(error), remedy)


def check_port_program() -> Check:
    def attempt() -> str:
        with PortProgram() as program:
            program.follow_departures()
            return "the port program loads, and follows what leaves its queues"

    return _try("BPF programs", attempt, "needs root, BTF, clang, bpftool and libbpf1")


def check_struct_ops() -> Iterator[Check]:
    """Each congestion control of ours registers; without one, agents use the kernel's own and mark the run."""
    for name in congestion.ours():
        yield _check_control(name)


def _check_control(name: str) -> Check:
    def attempt() -> str:
        with register_congestion_control(name) as control:
            return "registers" if control.owned else "is registered by another process"

    remedy = "use Linux 5.13 or later with CONFIG_BPF_JIT=y and BTF; hosts use one of the kernel till then"
    return _try(f"{name} (struct_ops)", attempt, remedy)


def check_socket_hook() -> Check:
    """Programs tell of their flows by setsockopt()."""

    def attempt() -> str:
        with attach_socket_hook() as hook:
            if not sockopt.answers():
                raise SluiceError(f"attached to {sockopt.cgroup_root()}, but the kernel does not ask it")
            return f"attaches to {sockopt.cgroup_root()}" if hook.owned else "is attached by another process"

    return _try(
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


def measured_checks() -> Iterator[Check]:
    """On a switch with three hosts. When the testbed does not start, that is the finding."""
    graph = topologies.build("single", hosts=3, host_rate_bps=RATE_BPS)
    remedy = "see the checks above, and the log that the message names"
    with tempfile.TemporaryDirectory(prefix="sluice-doctor-") as folder:
        try:
            bed = Testbed.start(graph, Path(folder), controller=None)
        except (SluiceError, TimeoutError) as error:
            yield Check("testbed", False, _with_log(error, Path(folder)), remedy)
            return
        with bed:
            yield Check("testbed", True, f"starts, with the {bed.datapath_type} datapath", remedy)
            install_queue_per_tag(bed)
            for check in (
                measure_queues,
                measure_full_frames,
                measure_marking,
                measure_shaping,
                measure_shares,
                measure_counters,
            ):
                yield check(bed)
            yield measure_losses(bed)


def _with_log(error: Exception, folder: Path) -> str:
    log_file = folder / "log" / "testbed.log"
    return f"{error}\n{log_file.read_text() if log_file.exists() else ''}".strip()


def queue_of_tag(tag: int) -> int:
    return tag % commands.QUEUES


def install_queue_per_tag(bed: Testbed) -> None:
    for command in static_flows.install(bed.topology, queue_of_tag):
        bed.ovs(command.argv, stdin=command.stdin)


def measure_queues(bed: Testbed) -> Check:
    """Every tag counts in its queue and nowhere else, for IPv4 and for IPv6."""

    def attempt() -> str:
        for host in (bed.topology.hosts[0].ipv4, bed.topology.hosts[0].ipv6):
            before = measure.queue_packets(bed, "s1:1")
            tags = range(TAG_COUNT)
            measure.transmit(
                bed, "h1", [Sender("h2", host, tags=tags, size_bytes=200, count=PER_TAG * len(tags))]
            )
            after = measure.queue_packets(bed, "s1:1")
            counted = {q: after[q] - before[q] for q in range(commands.QUEUES)}
            expected = {q: PER_TAG * sum(queue_of_tag(t) == q for t in tags) for q in range(commands.QUEUES)}
            if counted != expected:
                raise SluiceError(f"to {host}: sent {expected}, the queues counted {counted}")
        return f"{commands.QUEUES} queues count exactly what {TAG_COUNT} tags say, IPv4 and IPv6"

    return _try("each queue counts", attempt, "the port program must be on the port: see port-agent.log")


def measure_full_frames(bed: Testbed) -> Check:
    """The priority tag makes a frame longer on its way: full packets must pass all the same."""

    def attempt() -> str:
        payload = str(commands.MTU_BYTES - 28)
        bed.exec(
            "h2",
            [
                "ping",
                "-M",
                "do",
                "-s",
                payload,
                "-c",
                "3",
                "-i",
                "0.05",
                "-W",
                "2",
                bed.topology.hosts[0].ipv4,
            ],
        )
        return f"{commands.MTU_BYTES}-byte packets pass unfragmented"

    return _try("full packets", attempt, "the switch side of a link needs a larger MTU")


def measure_marking(bed: Testbed) -> Check:
    """Two hosts overload a port: what can be marked is, what cannot is not, and the count is right."""

    def attempt() -> str:
        bed.set_marking(MARK_BYTES)
        before = bed.port_counters("s1:1")
        to = bed.topology.hosts[0].ipv4
        sender = Sender("h2", to, tags=(1,), ecn=2, for_s=1.0)
        got = measure.transmit(bed, "h1", [sender, Sender("h3", to, tags=(2,), ecn=0, for_s=1.0)])
        after = bed.port_counters("s1:1")
        marked = after[1].marked - before[1].marked
        ce = {tag: got.tos.get(tag << 2 | 3, 0) for tag in (1, 2)}
        if not marked or ce != {1: marked, 2: 0}:
            raise SluiceError(
                f"marked {marked}, arrived with CE: {ce[1]} of the ECN-capable, {ce[2]} of the others"
            )
        capable = got.tos.get(1 << 2 | 2, 0) + ce[1]
        return f"{marked} of {capable} packets marked, each arrived with its mark"

    return _try("ECN marks", attempt, "the port program must be on the port: see port-agent.log")


def measure_shaping(bed: Testbed) -> Check:
    """Two hosts overload a port: its rate is what comes out."""

    def attempt() -> str:
        to = bed.topology.hosts[0].ipv4
        senders = [Sender(host, to, size_bytes=1400, for_s=3.0) for host in ("h2", "h3")]
        rate_bps = measure.transmit(bed, "h1", senders).rate_bps
        text = f"{format_rate(rate_bps)} of {format_rate(RATE_BPS)}"
        if abs(rate_bps / RATE_BPS - 1) > RATE_TOLERANCE:
            raise SluiceError(f"{text}: more than {RATE_TOLERANCE:.0%} away")
        return text

    return _try("shaping equals the rate", attempt, "free the CPU of other work, and try again")


def measure_shares(bed: Testbed) -> Check:
    """Two hosts overload two queues of a port: each queue gets its part of the link."""

    def attempt() -> str:
        bed.set_behaviour(PortBehaviour(None, SHARES_BUFFER_BYTES, shares=(0.0, *SHARES)))
        to = bed.topology.hosts[0].ipv4
        overload = [Sender(f"h{2 + i}", to, tags=(1 + i,), size_bytes=1400, for_s=4.0) for i in range(2)]
        with (
            measure.Receiver(bed, "h1"),
            measure.sending(bed, overload[0]),
            measure.sending(bed, overload[1]),
        ):
            wait_until(
                lambda: min(_waiting_packets(bed, q) for q in (1, 2)) > STANDING_PACKETS, "both queues stand"
            )
            before = measure.queue_packets(bed, "s1:1")
            time.sleep(SHARES_S)
            after = measure.queue_packets(bed, "s1:1")
        bed.set_marking(None)
        sent = [after[q] - before[q] for q in (1, 2)]
        text = f"{sent[0] / sum(sent):.0%} and {sent[1] / sum(sent):.0%} of the link"
        if abs(sent[0] / sum(sent) - SHARES[0]) > RATE_TOLERANCE:
            raise SluiceError(f"{text}, not {SHARES[0]:.0%} and {SHARES[1]:.0%}")
        return text

    return _try("queues get their shares", attempt, "free the CPU of other work, and try again")


def _waiting_packets(bed: Testbed, queue: int) -> int:
    said = bed.exec(None, ["tc", "-s", "class", "show", "dev", "s1-eth1", "classid", f"1:{queue + 1}"])
    found = re.search(r"backlog \S+ (\d+)p", said)
    return int(found[1]) if found else 0


def measure_counters(bed: Testbed) -> Check:
    """The controller sees what goes on only through these counters."""

    def attempt() -> str:
        to = bed.topology.hosts[0].ipv4
        with (
            measure.Receiver(bed, "h1", idle_s=2.0),
            measure.sending(bed, Sender("h2", to, tags=(3,), pause_s=0.002)),
        ):
            match = "table=1,metadata=1,ip,ip_dscp=3"
            gaps_s = sorted(measure.counter_gaps_s(bed, "s1", match, changes=COUNTER_CHANGES))
        median_s = gaps_s[len(gaps_s) // 2]
        text = f"every {median_s * 1000:.0f} ms (longest {gaps_s[-1] * 1000:.0f} ms)"
        if median_s > COUNTER_MEDIAN_S:
            raise SluiceError(text)
        return text

    return _try("OpenFlow counters move", attempt, "free the CPU of other work, and try again")


def measure_losses(bed: Testbed) -> Check:
    """Whatever was dropped in these measurements was dropped by a port's own bound."""
    losses = bed.losses()
    detail = "; ".join(f"{place}: {packets}" for place, packets in losses.items()) or "none"
    return Check("losses outside the queues", not losses, detail, "free the CPU of other work, and try again")
