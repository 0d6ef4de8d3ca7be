# SPDX-License-Identifier: Apache-2.0
"""What this machine can do. Every check names a remedy that fits the running kernel.

The tiers say which variant of each feature this machine uses, concluded from the checks. A feature that is missing is
no failed check: another tier takes its place, and a run says so.
"""

import gzip
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sluice.dataplane import congestion, link_queues, sockopt
from sluice.dataplane.build import KERNEL_BTF
from sluice.dataplane.loader import LINKS_SINCE, STRUCT_OPS_SINCE, kernel_version
from sluice.dataplane.port import PortProgram
from sluice.dataplane.watch import Watch
from sluice.hostagent.lossless import lossless_problem, physical_cards
from sluice.policy.controls import LAST_RESORT, ours
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.runtime.command import CommandFailed, run
from sluice.topologies import ovs, qdiscs

# ── The running kernel, and remedies that fit it ─────────────────────────────────────────────────────


_CONTAINER_FILES = (Path("/.dockerenv"), Path("/run/.containerenv"))
_BOOT_ANOTHER = "boot another kernel, for example Debian 12's: apt-get install linux-image-amd64"

HOOK_SINCE = (5, 18)
"""The version of Linux whose setsockopt hook does what Sluice needs."""
_SYS_ADMIN = 21
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": _SYS_ADMIN, "CAP_PERFMON": 38, "CAP_BPF": 39}
"""Name → bit (linux/capability.h). CAP_SYS_ADMIN contains the two after it."""


@dataclass(frozen=True)
class Kernel:
    """What is known about a kernel without trying it."""

    release: str
    modules: frozenset[str] = frozenset()
    """Modules that it can load or contains, with `_` in their names."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Its build options, CONFIG_X → y, m or a value. Empty if this machine does not say."""
    in_container: bool = False
    btf: bool = True
    missing_capabilities: tuple[str, ...] = ()
    """Capabilities that the checks of root need and this process lacks."""

    @property
    def version(self) -> tuple[int, int]:
        return kernel_version(self.release)

    @property
    def where(self) -> str:
        """Where someone changes the kernel."""
        return "on the host of this container: " if self.in_container else ""

    def module_remedy(self, name: str) -> str:
        """Return what to do if a feature of a module is missing."""
        if name in self.modules:
            return f"{self.where}modprobe {name}"
        if self.in_container and not self.modules:
            return f"{self.where}modprobe {name}, or another kernel if it has no such module"
        return f"{self.where}kernel {self.release} has no module {name}: {_BOOT_ANOTHER}"

    def capabilities_remedy(self) -> str:
        """Return what to do if root has not all of its capabilities."""
        names = ", ".join(self.missing_capabilities)
        if self.in_container:
            return f"start the container with --privileged, or with {names}"
        return (
            f"start this without the restriction that takes {names} away (systemd, setpriv, a user namespace)"
        )

    def qdisc_remedy(self, module: str) -> str:
        """Return what to do if a qdisc cannot be made."""
        return self.capabilities_remedy() if self.missing_capabilities else self.module_remedy(module)

    def tool_remedy(self, package: str) -> str:
        """Return what to do if a program is there and does not run."""
        if self.missing_capabilities:
            return self.capabilities_remedy()
        return f"apt-get install --reinstall {package}"

    def btf_remedy(self) -> str:
        """Return what to do if there is no BTF."""
        if self.in_container and self.config.get("CONFIG_DEBUG_INFO_BTF") != "n":
            return "the container may hide BTF: start it with -v /sys/kernel/btf:/sys/kernel/btf:ro, or --privileged"
        return f"{self.where}kernel {self.release} is built without CONFIG_DEBUG_INFO_BTF=y: {_BOOT_ANOTHER}"

    def struct_ops_remedy(self) -> str:
        """Return what to do if a congestion control does not register."""
        if self.version < STRUCT_OPS_SINCE:
            return self._newer("struct_ops", STRUCT_OPS_SINCE)
        return self._option("CONFIG_BPF_JIT") or self.programs_remedy()

    def hook_remedy(self, cgroup2_mounted: bool) -> str:
        """Return what to do if the setsockopt hook does not attach."""
        if self.version < HOOK_SINCE:
            return self._newer("hook", HOOK_SINCE)
        if not cgroup2_mounted:
            return "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
        return self._option("CONFIG_CGROUP_BPF") or self.programs_remedy()

    def programs_remedy(self) -> str:
        """Return what to do if a BPF program does not load."""
        if self.missing_capabilities:
            return self.capabilities_remedy()
        if not self.btf:
            return self.btf_remedy()
        if self.in_container:
            return "start the container with --privileged: its seccomp profile may forbid bpf()"
        return "apt-get install clang bpftool libbpf1, and see the reason above"

    def _newer(self, feature: str, since: tuple[int, int]) -> str:
        needed = ".".join(map(str, since))
        return f"{self.where}Linux {self.release} has no {feature}: boot Linux {needed} or later"

    def _option(self, name: str) -> str | None:
        if self.config and name not in self.config:
            return f"{self.where}kernel {self.release} is built without {name}=y: {_BOOT_ANOTHER}"
        return None


def running() -> Kernel:
    """Return the kernel of this machine."""
    release = platform.release()
    modules = {path.name for path in Path("/sys/module").glob("*")}  # loaded, built in or on the disk
    for file, separator in (("modules.dep", ":"), ("modules.builtin", "\n")):
        lines = _text(Path("/lib/modules") / release / file).splitlines()
        modules |= {Path(line.partition(separator)[0]).name.partition(".ko")[0] for line in lines}
    packed, plain = Path("/proc/config.gz"), Path("/boot") / f"config-{release}"
    try:
        config = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else plain.read_text()
    except OSError:
        config = ""
    return Kernel(
        release,
        frozenset(name.replace("-", "_") for name in modules),
        dict(re.findall(r"^(CONFIG_\w+)=(\S+)", config, re.MULTILINE)),
        "container" in os.environ or any(path.exists() for path in _CONTAINER_FILES),
        KERNEL_BTF.exists(),
        missing_capabilities(_text(Path("/proc/self/status"))),
    )


def missing_capabilities(status: str) -> tuple[str, ...]:
    """Return the capabilities that a process lacks, from the text of /proc/PID/status; none if it does not say."""
    line = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    if not line:
        return ()
    effective = int(line[1], 16)
    contained = ("CAP_PERFMON", "CAP_BPF") if effective >> _SYS_ADMIN & 1 else ()
    return tuple(
        name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1 and name not in contained
    )


def _text(path: Path) -> str:
    """Return the content of a file; empty if a container hides it."""
    try:
        return path.read_text()
    except OSError:
        return ""


# ── Checks ───────────────────────────────────────────────────────────────────────────────────────────


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


def guarded(name: str, make: Callable[[Kernel], Iterable[Check]], kernel: Kernel) -> Iterator[Check]:
    """Yield the checks that `make` yields. Any error becomes a finding, because the doctor must reach its end."""
    try:
        yield from make(kernel)
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


def check_congestion_controls(kernel: Kernel) -> Iterator[Check]:
    offered = congestion.available()
    remedy = kernel.module_remedy("tcp_cubic")
    yield Check("TCP congestion controls", "cubic" in offered, " ".join(offered), remedy)


def check_qdiscs(kernel: Kernel) -> Iterator[Check]:
    """The qdiscs of hosts and switch ports can be made, in a network namespace of their own."""
    for kind, (module, where) in QDISCS.items():
        yield tried(f"{kind} qdisc", partial(qdiscs.try_qdisc, where), kernel.qdisc_remedy(module))


def check_tun(kernel: Kernel) -> Iterator[Check]:
    """Open vSwitch's userspace datapath makes an interface for each bridge through this device."""
    remedy = (
        f"start the container with --device {TUN}" if kernel.in_container else kernel.module_remedy("tun")
    )
    yield Check(str(TUN), TUN.exists(), "is there" if TUN.exists() else "is missing", remedy)


def check_port_program(kernel: Kernel) -> Iterator[Check]:
    def attempt() -> str:
        with PortProgram() as program:
            program.follow_departures()
            return "the port program loads and counts departures"

    yield tried(PORT_PROGRAM, attempt, kernel.programs_remedy())


def check_watch(kernel: Kernel) -> Iterator[Check]:
    def attempt() -> str:
        with Watch() as watch:
            return f"attaches, and sees {len(watch.live())} connections in this network namespace"

    yield tried(WATCH, attempt, kernel.programs_remedy())


def check_struct_ops(kernel: Kernel) -> Iterator[Check]:
    """Each of Sluice's congestion controls registers. Without one, agents use the kernel's own and mark the run."""

    def attempt(name: str) -> str:
        with congestion.register_congestion_control(name) as control:
            return "registers" if control.owned else "is registered by another process"

    for name in congestion.ours():
        yield tried(struct_ops(name), partial(attempt, name), kernel.struct_ops_remedy())


def check_socket_hook(kernel: Kernel) -> Iterator[Check]:
    """The hook attaches by which programs declare their flows with setsockopt()."""

    def attempt() -> str:
        with sockopt.SocketHook() as hook:
            hook.ensure()
            if not sockopt.answers():
                raise SluiceError(f"attached to {sockopt.cgroup_root()}, but the kernel does not call it")
            return f"attaches to {sockopt.cgroup_root()}" if hook.owned else "is attached by another process"

    try:
        sockopt.cgroup_root()
        is_mounted = True
    except EnvironmentLacking:
        is_mounted = False
    yield tried(HOOK, attempt, kernel.hook_remedy(is_mounted))


def check_lossless(_: Kernel) -> Iterator[Check]:
    """What a policy needs beside RDMA. It is no fault of the machine."""
    detail = lossless_problem(physical_cards(), reserved_dscp=()) or "no card has PFC by DSCP"
    yield Check("lossless classes", True, detail, "")


def check_datapaths(_: Kernel) -> Iterator[Check]:
    kinds = (
        "kernel and userspace"
        if ovs.kernel_datapath()
        else "userspace only: the kernel has no openvswitch module"
    )
    yield Check(DATAPATHS, True, kinds, "")


def _measured(_: Kernel) -> Iterable[Check]:
    """Return the checks on a testbed. Without Mininet, the import fails, and the doctor must still start."""
    from sluice.doctor.measured import measured_checks

    return measured_checks()


OF_ROOT: tuple[tuple[str, Callable[[Kernel], Iterable[Check]]], ...] = (
    ("qdiscs", check_qdiscs),
    ("tun", check_tun),
    ("BPF programs", check_port_program),
    ("struct_ops", check_struct_ops),
    ("setsockopt hook", check_socket_hook),
    ("flow watch", check_watch),
    ("lossless classes", check_lossless),
    ("Open vSwitch datapaths", check_datapaths),
)
"""Name of a group, and its checks."""


def checks(*, measure: bool = True) -> Iterator[Check]:
    """Yield each check when it is done. `measure` adds the checks that start a testbed (about 15 s).

    No error of a check ends the others.
    """
    here = running()
    yield check_root()
    yield from guarded("tools", check_tools, here)
    yield check_btf(here)
    yield from guarded("TCP congestion controls", check_congestion_controls, here)
    if os.geteuid() != 0:
        return
    yield check_capabilities(here)
    for name, make in OF_ROOT:
        yield from guarded(name, make, here)
    if measure:
        yield from guarded("testbed", _measured, here)


# ── Tiers ────────────────────────────────────────────────────────────────────────────────────────────


class Tier(NamedTuple):
    """The variant of a feature that is active."""

    feature: str
    active: str


def tiers_of(
    findings: Sequence[Check], kernel: Kernel, netem: bool, controls: Sequence[str], link: str | None
) -> list[Tier]:
    """Return the active tier of each feature.

    `controls`: congestion controls that the kernel offers. `link`: the qdisc of the hosts' own links.
    """
    ok = {finding.name for finding in findings if finding.ok}
    datapaths = next((finding.detail for finding in findings if finding.name == DATAPATHS), "")
    delays = (
        "netem" if netem else f"none beyond a hop's own: no netem here ({kernel.qdisc_remedy('sch_netem')})"
    )
    return [
        Tier("congestion control", _control(ok, kernel, controls)),
        Tier(
            "switches",
            "Open vSwitch's kernel datapath"
            if datapaths.startswith("kernel")
            else "Open vSwitch's userspace datapath",
        ),
        Tier("flow queues", "yes" if PORT_PROGRAM in ok else "no: the port program does not load"),
        Tier("hosts' own links", f"{link}: eight strict queues" if link else "one queue"),
        Tier("link delays", delays),
        Tier(
            "deadlines",
            "programs and agents declare flows by the setsockopt hook"
            if HOOK in ok
            else "none: no one can declare a flow, and runs with deadlines are marked as not valid",
        ),
        Tier("flow watch", "every TCP connection" if WATCH in ok else "only scheduled flows"),
    ]


def _control(ok: set[str], kernel: Kernel, controls: Sequence[str]) -> str:
    missing = [control for control in ours() if struct_ops(control.kernel_name) not in ok]
    if not missing:
        if kernel.version >= LINKS_SINCE:
            return "Sluice's own, in BPF; each ends with its process"
        return "Sluice's own, in BPF; a killed agent leaves its control registered"
    usable = {*controls, *(name.removeprefix("tcp_") for name in kernel.modules if name.startswith("tcp_"))}
    instead = {c.fallback if c.fallback in usable else LAST_RESORT for c in missing}
    text = f"the kernel's own {' and '.join(sorted(instead))} for {', '.join(c.kernel_name for c in missing)}"
    return f"{text}; such runs are marked as not valid"


def active_tiers(findings: Sequence[Check]) -> list[Tier]:
    """Return the active tier of each feature, concluded from the checks. Needs root."""
    netem, link = qdiscs.has_netem(), link_queues.first_kind()
    kernel = running()
    try:
        controls = congestion.available()
    except OSError:  # /proc/sys is hidden
        controls = []
    return tiers_of(findings, kernel, netem, controls, link)
