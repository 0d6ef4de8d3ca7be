# SPDX-License-Identifier: Apache-2.0
"""The settings of a testbed, the paths of its files, and the way of a process into one of its hosts.

A process enters a host just before it becomes the command of a user. It keeps its terminal, its process group and its
process id. So signals, job control and the exit status need no help.
"""

import ctypes
import json
import os
import signal
import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from sluice.hostagent.port.settings import PortAgentSettings, write_json
from sluice.policy.network.graph import Host, Topology
from sluice.policy.schema.desired import PortBehaviour
from sluice.policy.schema.entries import read


@dataclass(frozen=True, kw_only=True)
class Settings(PortAgentSettings):
    """All settings of a testbed except its graph."""

    log_dir: Path
    controllers: tuple[str, ...] = ("tcp:127.0.0.1:6653",)
    """OpenFlow targets of all switches: "unix:/PATH", or "tcp:…" in their network namespace."""
    datapath: str = "auto"
    """"netdev" (userspace), "system" (kernel), or "auto" (the kernel's if it has one)."""
    rto_min_ms: int = 10
    initial_window: int = 10
    """Packets."""
    cheap_turns: bool = True
    """Whether ovs-vswitchd has the library of topologies/turns.c (userspace datapath). False is for comparison."""

    @property
    def ovs_dir(self) -> Path:
        """Database, sockets and pid files of the private Open vSwitch."""
        return self.run_dir / "ovs"

    @property
    def status_file(self) -> Path:
        """Written by the testbed's first process: ready or not, and the process ids."""
        return self.run_dir / "status.json"

    @property
    def names_file(self) -> Path:
        """The names of all hosts, as /etc/hosts, for commands that people run in a host."""
        return self.run_dir / "hosts"

    @property
    def start_file(self) -> Path:
        """These settings and the graph, for the processes inside."""
        return self.run_dir / "testbed.json"

    def save(self, topology: Topology) -> None:
        """Write `start_file` and `names_file`."""
        self.names_file.write_text(names_of(topology.hosts))
        values = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}
        write_json(self.start_file, {"settings": values, "topology": topology.to_document()})


def load_start(path: Path) -> tuple[Settings, Topology]:
    """Return what `Settings.save` has written."""
    document = json.loads(path.read_text())
    values = document["settings"]
    for name in ("run_dir", "log_dir"):
        values[name] = Path(values[name])
    values["behaviour"] = read(PortBehaviour, values["behaviour"])
    values["controllers"] = tuple(values["controllers"])
    return Settings(**values), Topology.from_document(document["topology"])


CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x0002_0000, 0x0400_0000, 0x4000_0000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000
NAMES = Path("/etc/hosts")

_libc = ctypes.CDLL(None, use_errno=True)


def names_of(hosts: Iterable[Host]) -> str:
    """Return the text of /etc/hosts inside. A plain name is the IPv4 address, ip6-NAME the IPv6 address.

    Many servers listen for IPv4 only, but most clients would try the IPv6 address of a name first.
    """
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    for host in hosts:
        lines += [f"{host.ipv4} {host.name}", f"{host.ipv6} ip6-{host.name}"]
    return "".join(f"{line}\n" for line in lines)


def enter_host(name: str, pid: int, names: Path) -> None:
    """Move this process into the network namespace that `pid` holds, with the host's name and its /etc/hosts.

    `names` is the file that becomes /etc/hosts, for this process and its children only. Raises OSError.
    """
    netns = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    _call("setns", netns, CLONE_NEWNET)
    os.close(netns)
    _call("unshare", CLONE_NEWNS | CLONE_NEWUTS)
    _call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    _call("mount", os.fsencode(names), os.fsencode(NAMES), None, ctypes.c_ulong(MS_BIND), None)
    socket.sethostname(name)


def default_signals() -> None:
    """Let signals that Python ignores end the process again. A command would inherit that they are ignored."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
