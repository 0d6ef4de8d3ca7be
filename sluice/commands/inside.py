# SPDX-License-Identifier: Apache-2.0
"""`sluice exec`, `shell` and `capture`: a program or a shell on a host of a running testbed, and packets of its ports.

A command finds a testbed by its first process, so any user with root can have started it. tcpdump sees outgoing packets
as they leave the port: queued, marked and tagged. It also sees incoming packets.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.commands import arguments as options
from sluice.hostagent.port.settings import read_json
from sluice.policy.errors import EnvironmentLacking, FieldError, SluiceError, guess, shortened
from sluice.policy.network.graph import Port, Topology
from sluice.runs.files import need_root
from sluice.runtime.process import spawn
from sluice.runtime.wait import patient, wait_until
from sluice.topologies.processes import translate
from sluice.topologies.settings import NAMES, Settings, default_signals, enter_host, load_start

# ── Testbeds ─────────────────────────────────────────────────────────────────────────────────────────


MODULE = "sluice.topologies.supervisor"

HOST_STARTS_WITHIN_S = 30.0


@dataclass(frozen=True)
class Running:
    """A testbed on this machine."""

    pid: int
    """Process id of its first process, in this namespace."""
    settings: Settings
    topology: Topology

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.settings.run_dir

    @property
    def shown(self) -> str:
        """The testbed in a list."""
        hosts = len(self.topology.hosts)
        return f"{self.pid} ({self.topology.kind} with {hosts} hosts, {self.folder})"

    def host_pid(self, name: str) -> int:
        """Return the process id that holds a host's network namespace. Waits for it while the testbed starts.

        Raises FieldError, or SluiceError if the host does not start in time.
        """
        if name not in self.topology.host_by_name:
            hosts = list(self.topology.host_by_name)
            raise FieldError(
                "host",
                f"the network has no host {shortened(name)}{guess(name, hosts)}; its hosts are {', '.join(hosts)}",
            )
        pid = self._host_pid_now(name)
        if pid is not None:
            return pid
        print(f"sluice: the testbed {self.pid} starts; waiting for {name} …", file=sys.stderr)
        try:
            return wait_until(lambda: self._host_pid_now(name), "it starts", timeout_s=HOST_STARTS_WITHIN_S)
        except TimeoutError:
            raise SluiceError(
                f"the testbed {self.pid} has not started {name} within {patient(HOST_STARTS_WITHIN_S):.0f} s: see what "
                "its own output says"
            ) from None

    def _host_pid_now(self, name: str) -> int | None:
        inner = (read_json(self.settings.status_file) or {}).get("hosts", {}).get(name)
        return translate(self.pid, {inner}).get(inner) if inner is not None else None


def running_testbeds() -> list[Running]:
    """Return all testbeds of this machine, by process id."""
    by_pid = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            argv = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            is_python = (process / "exe").readlink().name.startswith("python")
        except OSError:
            continue  # the process has just ended
        # The `unshare` of a testbed's first process has the same words, but is no Python.
        if is_python and MODULE in argv and Path(argv[-1]).exists():
            by_pid[int(process.name)] = Running(int(process.name), *load_start(Path(argv[-1])))
    return [by_pid[pid] for pid in sorted(by_pid) if _parent(pid) not in by_pid]


def _parent(pid: int) -> int | None:
    """Return the parent of a process. A child has its parent's command line until it starts another program."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None  # the process has just ended


def chosen_testbed(running: list[Running], pid: int | None) -> Running:
    """Return the testbed with that process id, or the only one. Raises SluiceError that lists the testbeds."""
    listed = "; ".join(bed.shown for bed in running)
    if not running:
        raise SluiceError(
            "no testbed runs on this machine: start `sluice demo --on testbed` or `sluice run --on testbed` first; "
            "a simulated network has no hosts and ports of the kernel"
        )
    if pid is None and len(running) > 1:
        raise FieldError("--testbed", f"several testbeds run; choose one by its process id: {listed}")
    for bed in running:
        if pid in (None, bed.pid):
            return bed
    raise FieldError("--testbed", f"{pid} is not a testbed; the testbeds are {listed}")


def _add_testbed(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses a testbed."""
    chosen = parser.add_argument(
        "--testbed", type=int, metavar="PID", help="process id of the testbed, if several run"
    )
    options.completed(chosen, options.testbeds)


def _add_host(parser: argparse.ArgumentParser) -> None:
    host = parser.add_argument("host", help="as the dashboard names it, for example h1")
    options.completed(host, options.hosts)
    _add_testbed(parser)


# ── exec and shell ───────────────────────────────────────────────────────────────────────────────────


NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""Exit codes of a program that cannot start, as in a shell."""

_EXEC_EPILOG = """examples:
  sluice exec h3 -- iperf -s                      a server on h3, until Ctrl-C
  sluice exec h1 -- iperf -c h3                   its client on h1
  sluice exec h2 --testbed 4711 -- ping -c 3 h1   in one of several testbeds

Everything after -- is the program and its arguments. It has this machine's files, and the network and the name of the
host. The names of all hosts are in its /etc/hosts: h3 is the IPv4 address, ip6-h3 the IPv6 address. The exit code is
the program's: 127 if there is no such program, 128 + N from a shell if signal N ends it.
"""


class _Parser(argparse.ArgumentParser):
    """Leaves the words after the first "--" to the program, whatever they are."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        at = words.index("--") if "--" in words else len(words)
        arguments, unknown = super().parse_known_args(words[:at], namespace)
        arguments.program = words[at + 1 :]
        if not arguments.program:
            self.error("write -- and the program after the host, as in: sluice exec h1 -- ping -c 3 h3")
        return arguments, unknown


_SHELL_EPILOG = """The shell is $SHELL, or /bin/sh. It has this machine's files, and the network and the name of the
host. `sluice exec` runs one program. The exit code is the shell's.
"""


def exec_parser() -> argparse.ArgumentParser:
    parser = options.command_parser("exec", _EXEC_EPILOG, kind=_Parser)
    parser.usage = "%(prog)s [-h] [--testbed PID] host -- program [argument ...]"
    _add_host(parser)
    return parser


def exec_execute(arguments: argparse.Namespace) -> int:
    return become(arguments.host, arguments.program, arguments.testbed)


def shell_parser() -> argparse.ArgumentParser:
    parser = options.command_parser("shell", _SHELL_EPILOG)
    _add_host(parser)
    return parser


def shell_execute(arguments: argparse.Namespace) -> int:
    return become(arguments.host, [os.environ.get("SHELL") or "/bin/sh"], arguments.testbed)


def become(host: str, program: Sequence[str], testbed: int | None) -> int:
    """Replace this process by a program on a host. Returns only if that program cannot start: its exit code.

    Raises FieldError (no such host or testbed), SluiceError (no testbed runs) and EnvironmentLacking.
    """
    need_root()
    bed = chosen_testbed(running_testbeds(), testbed)
    pid = bed.host_pid(host)
    if not NAMES.exists():
        raise EnvironmentLacking(
            f"{NAMES} is missing, which names the hosts inside: make it with `touch {NAMES}`"
        )
    try:
        enter_host(host, pid, bed.settings.names_file)
    except OSError as error:
        raise SluiceError(
            f"cannot enter {host}: {error}; check that the testbed {bed.pid} still runs, and that this root may make "
            "namespaces (CAP_SYS_ADMIN)"
        ) from None
    default_signals()
    sys.stdout.flush()
    try:
        os.execvp(program[0], list(program))
    except (FileNotFoundError, NotADirectoryError):
        print(f"sluice exec: there is no program {program[0]} on this machine: install it", file=sys.stderr)
        return NOT_FOUND
    except PermissionError:
        print(f"sluice exec: {program[0]} is not an executable file: give a program", file=sys.stderr)
        return NOT_EXECUTABLE


# ── capture ──────────────────────────────────────────────────────────────────────────────────────────


START_S, END_S = 10.0, 10.0
_COUNT = re.compile(r"^(\d+) packets? captured", re.MULTILINE)


def capture_parser() -> argparse.ArgumentParser:
    parser = options.command_parser("capture")
    port = parser.add_argument("port", help="as the dashboard names it: SWITCH:NUMBER, for example s1:2")
    options.completed(port, options.ports)
    parser.add_argument(
        "--seconds",
        type=options.seconds,
        default=5.0,
        help="how many seconds to capture (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=options.file, required=True, help="pcap file to write, for tcpdump -r or Wireshark"
    )
    _add_testbed(parser)
    return parser


def capture_execute(arguments: argparse.Namespace) -> int:
    need_root()
    count = capture(arguments.port, arguments.seconds, arguments.out, testbed_pid=arguments.testbed)
    print(f"{arguments.out}: {count} packets of {arguments.port}")
    return 0


def port_named(topology: Topology, name: str) -> Port:
    for port in topology.ports:
        if port.id == name:
            return port
    names = ", ".join(port.id for port in topology.ports)
    raise FieldError("port", f"the network has no port {name!r}; its ports are {names}")


def capture(port_id: str, seconds: float, out: Path, *, testbed_pid: int | None = None) -> int:
    """Capture packets for that many seconds and return their number.

    Raises FieldError (no such port or testbed), SluiceError (no testbed runs, or tcpdump failed)
    and EnvironmentLacking.
    """
    if shutil.which("tcpdump") is None:
        raise EnvironmentLacking("tcpdump is missing; on Debian: apt-get install tcpdump")
    bed = chosen_testbed(running_testbeds(), testbed_pid)
    interface = port_named(bed.topology, port_id).interface
    out.parent.mkdir(parents=True, exist_ok=True)
    said = out.with_name(out.name + ".log")
    said.unlink(missing_ok=True)
    try:
        process = _start_tcpdump(bed, interface, out, said)
        try:
            process.wait(seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            # At Ctrl-C, the file keeps the packets of the time before.
            process.send_signal(signal.SIGINT)
            process.wait(END_S)
        text = said.read_text(errors="replace")
    finally:
        said.unlink(missing_ok=True)
    captured = _COUNT.search(text)
    if captured is None:
        raise SluiceError(f"tcpdump ended early (did the testbed end?): {text.strip()}")
    return int(captured[1])


def _start_tcpdump(bed: Running, interface: str, out: Path, said: Path) -> subprocess.Popen[bytes]:
    """Start tcpdump; return once it captures."""
    argv = ["nsenter", f"--net=/proc/{bed.pid}/ns/net", "tcpdump", "-i", interface, "-Z", "root"]
    process = spawn([*argv, "-U", "-w", str(out)], log_file=said)

    def listens() -> bool:
        if process.poll() is not None:
            raise SluiceError(f"tcpdump ended: {said.read_text(errors='replace').strip()}")
        return "listening on" in said.read_text(errors="replace")

    try:
        wait_until(listens, "tcpdump listens", timeout_s=START_S)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process
