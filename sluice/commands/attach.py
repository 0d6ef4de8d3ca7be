# SPDX-License-Identifier: Apache-2.0
"""`sluice attach`: agents and queues on a Mininet network that somebody else's script has started; `sluice detach`.

Its switches forward as before (`forwarding = "leave"`). What this leaves on the network, and what must come back, is
noted in a folder of /run before it is made. So `sluice detach` gives the network back also after a crash.
"""

import argparse
import errno
import json
import os
import secrets
import shutil
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sluice.commands import arguments as options
from sluice.dataplane.congestion import kernel_parts
from sluice.dataplane.shared_resource import Provided
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.schemes import SCHEMES
from sluice.remote import Remote
from sluice.runs.services import Process, Services, service_argv
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import keep_short, spawn
from sluice.runtime.wait import patient, wait_until
from sluice.terminal import console, say
from sluice.topologies import foreign

STARTS_WITHIN_S = 180.0
ENDS_WITHIN_S = 60.0
PROBLEMS_LAST_S = 15.0
"""While Sluice starts, it may name problems. Those that last longer are shown."""
CHECK_S = 0.5
HOSTS = "hosts.json"
"""Each host that Sluice has joined: its interface, its default congestion control before, its agent's folder."""
_ADDRESS = "\0sluice-attach"
_CREDENTIALS = struct.Struct("=iII")
"""Process, user and group at the other end of a Unix socket (unix(7))."""
_CONTROL = "/proc/sys/net/ipv4/tcp_congestion_control"

_ATTACH_EPILOG = """examples:
  sudo python3 my_network.py                          your script, which waits at Mininet's prompt
  sudo sluice attach --rate 100Mbit                   in another terminal: links that no one shapes have this rate
  sudo sluice attach --replace-qdiscs                 links of TCLink: its rates hold, its qdiscs come back at the end
  sudo sluice attach --scheme pias --out results/try  another scheme; records and logs go into this folder
  sudo sluice detach                                  give the network back, also after a crash

The hosts tag their packets and report their flows, and the ports of the switches have queues. Forwarding stays with the
script. Ctrl-C ends it, as `sluice detach` does.
"""
_DETACH_EPILOG = """examples:
  sudo sluice detach    in the network namespace in which `sluice attach` was called
"""


def attach_parser() -> argparse.ArgumentParser:
    parser = options.command_parser("attach", _ATTACH_EPILOG)
    parser.add_argument(
        "--rate",
        type=options.rate,
        metavar="RATE",
        help="rate of the links that nothing shapes, for example 100Mbit",
    )
    parser.add_argument(
        "--replace-qdiscs",
        action="store_true",
        help="replace the qdiscs at the ports of switches, such as those of TCLink, until the end; the ports keep their"
        " rate, but delays and losses of netem there pause",
    )
    parser.add_argument(
        "--scheme",
        choices=SCHEMES,
        default="sluice",
        metavar="NAME",
        help="first scheme (default: %(default)s)",
    )
    options.add_listen(parser)
    parser.add_argument(
        "--out",
        type=options.folder,
        default=Path("results/attach"),
        help="folder of the store, which keeps the records of flows, and of the logs (default: %(default)s)",
    )
    return parser


def attach_execute(arguments: argparse.Namespace) -> int:
    options.check_plaintext(arguments.listen, arguments.plaintext_beyond_loopback)
    options.check_free(arguments.listen)
    if os.geteuid() != 0:
        raise SluiceError("attach needs root: run it with sudo")
    state = state_folder()
    with _alone():
        give_back(state)  # what a killed one has left, before its queues are taken for the network's
        network = foreign.find_network()
        description = network.description(arguments.rate)
        if (shaped := network.shaped()) and not arguments.replace_qdiscs:
            raise FieldError(
                "--replace-qdiscs",
                f"is needed, because {shaped[0]} has a qdisc of your script. Sluice keeps the rate, and makes the qdisc"
                f" again at the end; {len(shaped)} ports have one",
            )
        state.mkdir(parents=True, mode=0o755)
        attached = Attached(network, state, arguments.out, arguments.listen, arguments.replace_qdiscs)
        try:
            attached.start(description, arguments.scheme, arguments.plaintext_beyond_loopback)
            console.print(f"dashboard: [bold]http://{arguments.listen}/[/]", highlight=False)
            say(f"  the right to change the scheme is the token in {attached.token_file}")
            console.print("Ctrl-C, or `sluice detach`, gives the network back as it was.\n")
            attached.watch()
        except KeyboardInterrupt:
            console.print("giving the network back …")
        finally:
            attached.stop()
            give_back(state)
    say(f"The network is as it was. The records are in {arguments.out}.")
    return 0


class Attached:
    """The processes of Sluice on a foreign network, and the kernel's parts that its hosts share."""

    def __init__(
        self, network: foreign.ForeignNetwork, state: Path, out: Path, listen: str, replace_qdiscs: bool
    ) -> None:
        self._network, self._state, self._out, self._listen = network, state, out.resolve(), listen
        self._replace_qdiscs = replace_qdiscs
        self._services = Services(state)
        self._kernel: list[Provided] = []
        self.token_file = state / "token"

    @property
    def _web(self) -> str:
        return f"unix:{self._state}/web.sock"

    def start(self, description: Mapping[str, Any], scheme: str, beyond_loopback: bool) -> None:
        """Start all processes, put description and scheme in force, and wait until they are. Raises SluiceError."""
        hosts = self._network.hosts
        before = {
            host.name: [host.interface, run(host.inside(["cat", _CONTROL])).strip(), str(self._run_dir(host))]
            for host in hosts
        }
        (self._state / HOSTS).write_text(json.dumps(before))
        switches = len({port.switch for port in self._network.ports})
        console.print(f"[bold]Sluice[/] joins {switches} switches and {len(hosts)} hosts of Mininet …")
        (self._out / "log").mkdir(parents=True, exist_ok=True)
        self.token_file.touch(mode=0o600)
        self.token_file.write_text(secrets.token_urlsafe(24))
        store = f"sqlite:///{self._out}/store.db"
        web = ["--store", store, "--unix", f"{self._state}/web.sock", "--listen", self._listen]
        web += ["--token-file", str(self.token_file)]
        web += ["--plaintext-beyond-loopback"] if beyond_loopback else []
        self._start("web", [*service_argv("web"), *web])
        remote = Remote(self._web, self.token_file)
        self._wait(lambda: remote.get("health"), "the web process answers")
        controller = ["--store", store, "--listen", f"unix:{self._state}/of.sock"]
        self._start("controller", [*service_argv("controller"), *controller])
        self._kernel.extend(kernel_parts())
        self._start("port-agent", port_agent_argv(self._state, self._web, self._replace_qdiscs))
        for host in hosts:
            self._start(f"agent-{host.name}", self._agent_argv(host))
        for finding in remote.change("PUT", "network", description)["findings"]:
            if finding["is_error"]:
                raise SluiceError(f"{finding['where']}: {finding['problem']}")
        remote.change("PUT", "policy", {"scheme": scheme})
        names = {foreign.PORT_AGENT, *(host.name for host in hosts)}

        def in_force() -> bool:
            health = remote.get("health")
            alive = {each["name"] for each in health["agents"] if each["alive"]}
            return names <= alive and (not health["problems"] or time.monotonic() > patience_s)

        patience_s = time.monotonic() + patient(PROBLEMS_LAST_S)
        self._wait(in_force, "all agents report")
        for problem in remote.get("health")["problems"]:
            said = f"{problem['where']}: {problem['problem']}"
            say(said, style="bold red")

    def watch(self) -> None:
        """Restart processes that die, until the network ends. Raises SluiceError if one dies again and again."""
        while all(Path(f"/proc/{host.pid}/ns/net").exists() for host in self._network.hosts):
            self._services.check()
            keep_short(self._out / "log")
            time.sleep(CHECK_S)
        console.print("The Mininet network has ended.")

    def stop(self) -> None:
        """End all processes. A second call does nothing."""
        for name in ("agent-", "controller", "port-agent"):
            self._services.stop(name)
        self._services.stop()
        for part in self._kernel:
            part.close()
        self._kernel.clear()

    def _start(self, name: str, argv: list[str]) -> None:
        def begin(env: Mapping[str, str]) -> Process:
            return spawn(argv, log_file=self._out / "log" / f"{name}.log", env=env)

        self._services.start(name, begin)

    def _agent_argv(self, host: foreign.ForeignHost) -> list[str]:
        argv = [*service_argv("agent"), "--name", host.name, "--interface", host.interface]
        argv += ["--web", self._web, "--run-dir", str(self._run_dir(host))]
        return host.inside(argv + (["--queues-at", host.queues_at] if host.queues_at else []))

    def _run_dir(self, host: foreign.ForeignHost) -> Path:
        return self._out / "spool" / host.name

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        def checked() -> bool:
            self._services.check()
            try:
                return bool(condition())
            except Remote.Away:
                return False

        wait_until(checked, f"{what} (the logs are in {self._out / 'log'})", timeout_s=STARTS_WITHIN_S)


def port_agent_argv(state: Path, web: str, replace_qdiscs: bool) -> list[str]:
    """Return the command of the port agent of the network's switches."""
    argv = [*service_argv("port-agent"), "--name", foreign.PORT_AGENT]
    argv += ["--run-dir", str(state / foreign.PORT_AGENT), "--web", web]
    return argv + (["--replace-qdiscs"] if replace_qdiscs else [])


# ── The end ────────────────────────────────────────────────────────────────────────────────


def detach_parser() -> argparse.ArgumentParser:
    return options.command_parser("detach", _DETACH_EPILOG)


def detach_execute(arguments: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise SluiceError("detach needs root: run it with sudo")
    state = state_folder()
    was_attached = end_attached() or state.exists()
    give_back(state)
    console.print("The network is as it was." if was_attached else "Sluice is not attached here.")
    return 0


def state_folder() -> Path:
    """Return the folder that notes what Sluice has put onto the networks of this network namespace."""
    return Path(f"/run/sluice-attach/{Path('/proc/self/ns/net').stat().st_ino}")


@contextmanager
def _alone() -> Iterator[None]:
    """Be the one that is attached, until the end. Raises SluiceError if there is another one.

    An abstract Unix address belongs to a network namespace, and the kernel frees it when the process ends.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as place:
        try:
            place.bind(_ADDRESS)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise SluiceError("Sluice is attached already: end that with `sluice detach`") from None
        place.listen()
        yield


def end_attached() -> bool:
    """Ask the process that is attached to end, and wait until it has. Returns whether there was one."""
    pid = _attached_pid()
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: _attached_pid() is None, "the attached process has ended", timeout_s=ENDS_WITHIN_S)
    return True


def _attached_pid() -> int | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asks:
        try:
            asks.connect(_ADDRESS)
        except ConnectionRefusedError:
            return None
        pid, _, _ = _CREDENTIALS.unpack(
            asks.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        return int(pid)


def give_back(state: Path) -> None:
    """Give the network back as it was before, as far as it still runs. A second call does nothing."""
    if not state.exists():
        return
    pids, switches = foreign.hosts_and_switches()
    noted = (state / HOSTS).read_text() if (state / HOSTS).exists() else "{}"
    for name, (interface, control, run_dir) in json.loads(noted).items():
        if name in pids:
            argv = [*service_argv("agent"), "--name", name, "--interface", interface, "--release"]
            argv += ["--run-dir", run_dir]
            _try(foreign.inside(pids[name], argv), name)
            _try(foreign.inside(pids[name], ["sh", "-c", f"echo {control} > {_CONTROL}"]), name)
    if switches:
        _try([*port_agent_argv(state, "http://127.0.0.1:8080", False), "--release"], "the switches")
    shutil.rmtree(state)


def _try(argv: list[str], where: str) -> None:
    try:
        run(argv, timeout_s=patient(60))
    except CommandFailed as error:
        console.print(f"{where}: what Sluice has made there may stay: {error}", style="bold red")
