# SPDX-License-Identifier: Apache-2.0
"""`sluice port-agent`: the agent of a machine's switch ports as a service."""

from __future__ import annotations

import errno
import hashlib
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sluice.policy.errors import EnvironmentLacking
from sluice.policy.schema.entries import AGENT, entry
from sluice.policy.schema.kinds import Flag, Text
from sluice.runtime import logs
from sluice.runtime.lifecycle import Notifier, on_end
from sluice.runtime.settings import Service
from sluice.runtime.settings.kinds import EnrolmentToken, FileToRead, Folder, WebAddress


@dataclass(frozen=True)
class PortAgentOptions:
    """The settings of a port agent."""

    name: str = entry(AGENT, "Name of this agent in the dashboard.", default="port-agent")
    run_dir: Path = entry(
        Folder(),
        "Folder for the agent's reports and its last settings.",
        default=Path("/var/lib/sluice/port-agent"),
    )
    web: str = entry(WebAddress(), "The web process.", default="http://127.0.0.1:8080")
    enrol: str | None = entry(
        EnrolmentToken(),
        "Token from `sluice enrol NAME --kind port`, or /PATH of a file with it. Needed once for an https address.",
        default=None,
    )
    database: str | None = entry(
        Text(r"(unix:/|tcp:|ssl:)\S{1,200}", what='an address such as "unix:/run/openvswitch/db.sock"'),
        "Database of Open vSwitch. Without it, it is that of this machine's service.",
        default=None,
    )
    replace_qdiscs: bool = entry(
        Flag(),
        "Replace the qdisc that another program has made at a port, and make it again when the port is given back. It"
        " shapes no packet meanwhile. Without this, such a port gets no queues.",
        default=False,
    )
    release: bool = entry(
        Flag(), "Give all ports back as they were before the first agent, and end.", default=False
    )
    testbed: Path | None = entry(
        FileToRead(),
        "File with the settings and the network of a testbed, which replaces all other settings.",
        default=None,
    )


def run(options: PortAgentOptions) -> int:
    """Serve until a signal asks for the end. Raises SluiceError."""
    from sluice.dataplane.port import PortProgram
    from sluice.hostagent.port.agent import PortAgent, last_behaviour, serve
    from sluice.hostagent.port.former_qdiscs import FormerQdiscs
    from sluice.hostagent.port.network_ports import EMPTY, WATCHING, LinkPorts, NetworkPorts, OwnPorts
    from sluice.hostagent.port.settings import PortAgentSettings, load_start

    logs.start(name=options.name)
    on_end(sys.exit)
    with PortProgram() as program:
        if options.testbed is not None:
            settings, network = load_start(options.testbed)
            # The testbed has set the environment of its own Open vSwitch.
            agent = PortAgent(
                settings, network, program, partial(_tool, None), last_behaviour(settings), emulated=True
            )
            serve(agent, Notifier())
            return 0
        options.run_dir.mkdir(parents=True, exist_ok=True)
        settings = PortAgentSettings(
            run_dir=options.run_dir,
            web=options.web,
            agent_name=options.name,
            enrol=options.enrol,
            behaviour=WATCHING,
        )
        tool = partial(_tool, options.database) if shutil.which("ovs-vsctl") else _no_switch
        with sole_agent(options.database):
            agent = PortAgent(settings, EMPTY, program, tool, last_behaviour(settings))
            former = FormerQdiscs(options.run_dir / "former-qdiscs", replaces=options.replace_qdiscs)
            ports = NetworkPorts(agent, OwnPorts(tool, former), LinkPorts(former))
            if options.release:
                ports.release()
                return 0
            agent.follow = ports.follow
            serve(agent, Notifier())
    return 0


@contextmanager
def sole_agent(database: str | None) -> Iterator[None]:
    """Let no other port agent work on the same ports: two would undo each other's queues. Raises EnvironmentLacking.

    The lock is an abstract Unix address, because such an address belongs to a network namespace, as interfaces do, and
    the kernel frees it when the process ends.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        try:
            lock.bind(f"\0sluice-port-agent {hashlib.sha256((database or '').encode()).hexdigest()}")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise EnvironmentLacking(
                "another port agent works on the switch ports of this machine; end it first "
                "(`systemctl stop sluice-port-agent` if it is the installed service)"
            ) from None
        yield


def _no_switch(argv: list[str]) -> str:
    """Answer for a machine without Open vSwitch, whose ports are those of a bridge or a router: no table has a row."""
    return '{"headings": [], "data": []}'


def _tool(database: str | None, argv: list[str]) -> str:
    from sluice.runtime.command import run as run_command

    return run_command([argv[0], *([f"--db={database}"] if database else []), *argv[1:]])


SERVICE = Service(
    "port-agent",
    "The port agent: queues, marking, buffer, flow queues and shares of this machine's switch ports in the network.\n"
    "It needs root or the capabilities of sluice-port-agent.service.",
    PortAgentOptions,
    run,
    examples="""\
  sluice port-agent --web https://192.0.2.1:8443 --enrol /etc/sluice/token
  sluice port-agent --release                           give the ports back, before Sluice is removed
  sluice port-agent --check                             check /etc/sluice/port-agent.toml
""",
)
