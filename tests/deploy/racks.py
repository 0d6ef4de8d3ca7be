# SPDX-License-Identifier: Apache-2.0
"""The two racks of the script `two-racks`, and the processes of Sluice in them."""

import io
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, redirect_stdout
from functools import partial
from pathlib import Path
from typing import IO, Any

from sluice import cli
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.http_client import Answer, HttpClient, ServerAway
from sluice.runtime.wait import patient, wait_until
from sluice.terminal import console

SCRIPT = Path(__file__).parent / "two-racks"
FRAMES = Path(__file__).parent / "frames.py"
ROOT = SCRIPT.parents[2]
WEB = "192.0.2.100:8080"
AGENTS = "192.0.2.100:8443"
CONTROLLER = "tcp:192.0.2.100:6653"
BRIDGES = {"rack1": "br-front", "rack2": "br-back"}
ADDRESSES = {
    "web1": "10.9.0.11",
    "web2": "10.9.0.12",
    "web3": "10.9.0.13",
    "db1": "10.9.0.21",
    "db2": "10.9.0.22",
    "plain": "10.9.0.23",
    "outside": "198.51.100.2",
}
TOKEN = "a-token-for-tests"
Sent = tuple[str, str]
"""A machine, and the frame that it sends: see `frames.py`."""


class Racks:
    """Two racks of Open vSwitch machines and servers, made by a script without Sluice."""

    def __init__(self, folder: Path, datapath: str = "netdev", packages: Path | None = None) -> None:
        """`datapath` is Open vSwitch's name: netdev for the one in userspace, system for the kernel's.

        `packages`: where they are unpacked, for their programs to run. None: those of this clone.
        """
        self.folder = folder
        self._datapath = datapath
        self._program, self._path = [sys.executable, "-m", "sluice"], str(ROOT)
        if packages is not None:
            library = packages / "usr/lib/sluice"
            self._program = ["/usr/bin/python3", "-P", "-m", "sluice"]
            self._path = f"{library}:{library}/vendor"
        self._prefix = f"sr{os.getpid()}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def up(self) -> None:
        self._script("up", str(self.folder), self._datapath)

    def down(self) -> None:
        for name in list(self._processes):
            self.stop(name)
        self._script("down", str(self.folder))

    @property
    def environment(self) -> dict[str, str]:
        """For scripts of the racks."""
        return os.environ | {"RACKS": self._prefix}

    def _script(self, *words: str) -> None:
        run([str(SCRIPT), *words], env=self.environment, timeout_s=60)

    def change(self, script: Path, action: str) -> None:
        """Run a script that changes the racks."""
        run([str(script), action, str(self.folder)], env=self.environment, timeout_s=60)

    # ── Machines ───────────────────────────────────────────────────────────────────────────────────────────────────

    def namespace(self, machine: str) -> str:
        """The name of a machine's network namespace, another one in each process of tests."""
        return f"{self._prefix}-{machine}"

    def inside(self, machine: str, argv: Sequence[str], timeout_s: float = 30) -> str:
        """Run a program on a machine and return its output. Raises CommandFailed."""
        return run(["ip", "netns", "exec", self.namespace(machine), *argv], timeout_s=timeout_s)

    def reaches(self, source: str, to: str, seconds: int = 200) -> bool:
        """Whether one of many pings comes back. On a busy machine, that may take long."""
        try:
            argv = ["ping", "-c", "1", "-i", "0.2", "-w", str(seconds), ADDRESSES[to]]
            self.inside(source, argv, timeout_s=seconds + 60)
        except CommandFailed:
            return False
        return True

    def heard(self, at: Sequence[str], *sent: Sent, number: int | None = None) -> dict[str, list[str]]:
        """Send frames by `frames.py`. Return what some machines hear until a frame "end", or until it is `number`."""
        program = [sys.executable, str(FRAMES)]
        with ExitStack() as stack:
            ears: dict[str, IO[str]] = {}
            for machine in at:
                argv = ["ip", "netns", "exec", self.namespace(machine), *program, "hear", "eth0"]
                argv += [] if number is None else [str(number)]
                process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
                ear = stack.enter_context(process).stdout
                assert ear is not None
                assert ear.readline() == "ready\n"
                ears[machine] = ear
            for machine, frame in sent:
                self.inside(machine, [*program, "send", "eth0", frame])
            return {machine: ear.read().splitlines() for machine, ear in ears.items()}

    def vsctl(self, rack: str, *words: str) -> str:
        return self.inside(rack, ["ovs-vsctl", f"--db=unix:{self.folder}/{rack}/db.sock", *words])

    def flows(self, rack: str, match: str = "", *, bridge: str | None = None) -> list[str]:
        """The rules of a rack's bridge, without counters and times."""
        words = ("--no-stats", "dump-flows", bridge or BRIDGES[rack])
        output = self.ofctl(rack, *words, *([match] if match else []))
        return [line.strip() for line in output.splitlines() if "actions=" in line]

    def add_flow(self, rack: str, flow: str) -> None:
        self.ofctl(rack, "add-flow", BRIDGES[rack], flow)

    def ofctl(self, rack: str, *words: str) -> str:
        env = ["env", f"OVS_RUNDIR={self.folder}/{rack}"]
        return self.inside(rack, [*env, "ovs-ofctl", "-O", "OpenFlow13", *words])

    def connect_switches(self) -> None:
        """Name the controller. Until it has written its rules, the bridges forward as before."""
        for rack, bridge in BRIDGES.items():
            home = self.folder / rack
            connect = f"ovs-vsctl --db=unix:{home}/db.sock set-controller {bridge} {CONTROLLER}"
            forward = (
                f"OVS_RUNDIR={home} ovs-ofctl add-flow {bridge} priority=1,hard_timeout=60,actions=NORMAL"
            )
            self.inside(rack, ["sh", "-c", f"{connect} && {forward}"])

    # ── Processes of Sluice ────────────────────────────────────────────────────────────────────────────────────────

    def start(self, name: str, machine: str | None, service: str, *argv: str) -> None:
        """Start a service on a machine, with its output in a file of the folder. None: in this network namespace."""
        env = os.environ | {"PYTHONPATH": self._path}
        with (self.folder / f"{name}.log").open("ab") as log:
            argv = (*self._sluice(machine), service, "--config", os.devnull, *argv)
            self._processes[name] = subprocess.Popen(argv, env=env, stdout=log, stderr=log)

    def stop(self, name: str) -> None:
        process = self._processes.pop(name)
        process.terminate()
        process.wait(patient(20))

    def _sluice(self, machine: str | None) -> list[str]:
        inside = ["ip", "netns", "exec", self.namespace(machine)] if machine else []
        return [*inside, *self._program]

    def start_hub(self) -> None:
        """Start the web process and the controller."""
        (self.folder / "token").write_text(TOKEN)
        self.start_web()
        self.start_controller()

    def start_web(self) -> None:
        token = ["--token-file", str(self.folder / "token")]
        agents = ["--agents", AGENTS, "--authority", str(self.folder / "authority")]
        listen = ["--listen", WEB, "--plaintext-beyond-loopback", "--unix", str(self.folder / "web.sock")]
        self.start("web", "hub", "web", "--store", self.store, *listen, *agents, *token)

    def start_controller(self) -> None:
        self.start("controller", "hub", "controller", "--store", self.store, "--listen", "0.0.0.0:6653")

    def start_port_agent(self, rack: str, name: str | None = None) -> None:
        name = name or f"ports-{rack}"
        token = self.folder / f"{name}.token"
        token.write_text(self.sluice("enrol", name, "--kind", "port")[1].split()[0])
        where = ["--name", name, "--run-dir", str(self.folder / name), "--web", f"https://{AGENTS}"]
        database = f"unix:{self.folder}/{rack}/db.sock"
        self.start(name, rack, "port-agent", *where, "--enrol", str(token), "--database", database)

    def release_ports(self, rack: str) -> None:
        """End the port agent with the name of its rack, and let it give the ports back."""
        self.stop(rack)
        where = ("--run-dir", str(self.folder / rack), "--database", f"unix:{self.folder}/{rack}/db.sock")
        argv = [sys.executable, "-m", "sluice", "port-agent", "--config", os.devnull, "--release", *where]
        self.inside(rack, argv, timeout_s=120)

    def wait_agents(self, *names: str) -> None:
        """Wait until agents of these names report."""

        def up() -> bool:
            return {one["name"] for one in self.answer("health")["agents"] if one["alive"]} >= set(names)

        wait_until(up, f"{', '.join(names)} report")

    def start_agent(self, name: str, machine: str | None, *argv: str) -> None:
        """Start a host agent on a machine that reaches the hub's files. None: in this network namespace."""
        where = ("--name", name, "--run-dir", str(self.folder / name), "--web", self._url)
        self.start(name, machine, "agent", *where, *argv)

    def start_left(self, description: Path, policy: Mapping[str, Any]) -> None:
        """Start the hub and the agents of switches that forward by themselves, and wait until the policy acts at ports.

        What passed a port before would be in its virtual queue until the port is next empty.
        """
        self.start_hub()
        wait_until(self.network, "the web process answers")
        self.sluice("network", "apply", str(description))
        switches = tomllib.loads(description.read_text())["switch"]
        for switch in switches:
            self.start_port_agent(switch["name"], name=switch["name"])
        answer = self.put_policy(policy)
        assert answer.ok, answer.body
        for name, port in [(switch["name"], port["name"]) for switch in switches for port in switch["port"]]:
            wait_until(partial(self.has_queues, name, port), f"{name}:{port} has queues")

    def has_queues(self, switch: str, port: str) -> bool:
        return "htb 1:8" in self.inside(switch, ["tc", "class", "show", "dev", port])

    @property
    def _url(self) -> str:
        return f"unix:{self.folder}/web.sock"

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder}/store.db"

    def network(self) -> dict[str, Any]:
        """What the REST API says of the network; empty while the web process starts."""
        try:
            return self.answer("network")
        except ServerAway:
            return {}

    def problems(self) -> list[str]:
        """What GET /health names as wrong."""
        return [f"{one['where']}: {one['problem']}" for one in self.answer("health")["problems"]]

    def answer(self, path: str) -> dict[str, Any]:
        with closing(HttpClient(self._url, 30)) as web:
            document: dict[str, Any] = web.get(f"/api/v1/{path}").json()
        return document

    def put_policy(self, document: Mapping[str, Any]) -> Answer:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with closing(HttpClient(self._url, 30)) as web:
            return web.request("PUT", "/api/v1/policy", json.dumps(document).encode(), headers)

    def told(self, *words: str) -> str:
        """Give a command of `sluice`, which must succeed, and return what it says."""
        code, text = self.sluice(*words)
        assert code == 0, f"sluice {' '.join(words)}: {text}"
        return text

    def sluice(self, *words: str) -> tuple[int, str]:
        """Run `sluice COMMAND …` in this process. Returns the exit code and the output. Raises SluiceError."""
        name, *rest = words
        parser, execute = cli.command(name)
        remote = ["--url", self._url, "--token-file", str(self.folder / "token")]
        console.width = 160
        with redirect_stdout(io.StringIO()) as output:
            code = execute(parser.parse_args([*remote, *rest]))
        return code, output.getvalue()
