# SPDX-License-Identifier: Apache-2.0
"""The testbeds that run on this machine, for commands that look into one.

A command finds a testbed by its first process, so any user with root can have started it.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sluice.commands.arguments import completed, testbeds
from sluice.hostagent.port.settings import read_json
from sluice.policy.errors import FieldError, SluiceError, guess, shortened
from sluice.policy.network.graph import Topology
from sluice.runtime.wait import patient, wait_until
from sluice.topologies.processes import translate
from sluice.topologies.settings import Settings, load_start

MODULE = "sluice.topologies.supervisor"

HOST_STARTS_WITHIN_S = 30.0

Ask = Callable[[str], str]
"""Shows a question and returns the answer, as `input` does."""


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


def add_testbed(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses a testbed."""
    chosen = parser.add_argument(
        "--testbed",
        type=int,
        metavar="PID",
        help="process id of the testbed, if several run; in a terminal, the command asks for it",
    )
    completed(chosen, testbeds)


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


def chosen_testbed(running: list[Running], pid: int | None, ask: Ask | None = None) -> Running:
    """Return the testbed with that process id, or the only one, or the one that the user chooses.

    `ask` is None if there is no one to ask. Raises SluiceError that lists the testbeds.
    """
    listed = "; ".join(bed.shown for bed in running)
    by_pid = {bed.pid: bed for bed in running}
    if not running:
        raise SluiceError(
            "no testbed runs on this machine: start `sluice demo --on testbed` or `sluice run --on testbed` first; "
            "a simulated network has no hosts and ports of the kernel"
        )
    if pid is None and len(running) > 1:
        if ask is None:
            raise FieldError("--testbed", f"several testbeds run; choose one by its process id: {listed}")
        pid = _asked(running, ask)
    if pid is None:
        return running[0]
    if pid not in by_pid:
        raise FieldError("--testbed", f"{pid} is not a testbed; the testbeds are {listed}")
    return by_pid[pid]


def _asked(running: list[Running], ask: Ask) -> int:
    """Return the process id that the user chooses, by its place in the list or by itself. Asks until it is clear."""
    lines = [f"  {place}  {bed.shown}" for place, bed in enumerate(running, start=1)]
    answers = {str(place): bed.pid for place, bed in enumerate(running, start=1)}
    answers |= {str(bed.pid): bed.pid for bed in running}
    question = "\n".join(["several testbeds run:", *lines, f"which one (1 to {len(running)})? "])
    while True:
        try:
            answer = ask(question).strip()
        except EOFError:
            raise SluiceError("no testbed is chosen: name one with --testbed") from None
        if answer in answers:
            return answers[answer]
        question = f"{shortened(answer)} is not in the list; which one (1 to {len(running)})? "


def the_testbed(pid: int | None) -> Running:
    """Return the testbed that a command means. If several run, it asks in a terminal. Raises SluiceError."""
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    return chosen_testbed(running_testbeds(), pid, _ask if is_terminal else None)


def _ask(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)  # the standard output may go into a file
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line
