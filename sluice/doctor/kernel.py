# SPDX-License-Identifier: Apache-2.0
"""The running kernel, and remedies that fit it. Nothing here tries a feature; see `checks` for that."""

import gzip
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sluice.dataplane.build import KERNEL_BTF
from sluice.dataplane.loader import STRUCT_OPS_SINCE, kernel_version

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
