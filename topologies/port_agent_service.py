# SPDX-License-Identifier: Apache-2.0
"""`sluice port-agent`: the agent of a machine's switch ports as a service."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from policy.entries import entry
from policy.errors import FieldError
from policy.graph import Port, Topology
from policy.kinds import ListOf, Rate, Text
from policy.names import AGENT
from runtime.notify import Notifier
from runtime.settings import Service
from runtime.settings.kinds import FileToRead, Folder, WebAddress

if TYPE_CHECKING:
    from topologies.settings import Settings

_PORT = re.compile(r"([^/\s=]+)-eth([0-9]{1,5})=(.+)")
_RATE = Rate(1, 10**13)


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
    interfaces: tuple[str, ...] = entry(
        ListOf(Text(_PORT.pattern, what='an interface and its rate, such as "s1-eth2=10Gbit"'), longest=1024),
        "Ports of Open vSwitch that lead to hosts, each SWITCH-ethNUMBER=RATE. NUMBER is the OpenFlow port. "
        "The flag is repeatable.",
        default=(),
    )
    testbed: Path | None = entry(
        FileToRead(),
        "File with the settings and the network of a testbed, which replaces all other settings.",
        default=None,
    )


def run(options: PortAgentOptions) -> int:
    """Serve until the process ends. Raises SluiceError."""
    from dataplane.port import PortProgram
    from topologies.port_agent import PortAgent, last_behaviour, serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings, network, tool = _start(options)
    with PortProgram() as program:
        agent = PortAgent(settings, network, program, tool, last_behaviour(settings), name=options.name)
        serve(agent, Notifier())
    return 0


def _start(options: PortAgentOptions) -> tuple[Settings, Topology, Callable[[list[str]], str]]:
    """Return settings and ports, and the function that runs a tool of their Open vSwitch."""
    from runtime.command import run as run_command
    from topologies import ovs
    from topologies.settings import Settings, load_start

    if options.testbed is not None:
        settings, network = load_start(options.testbed)
        return settings, network, partial(ovs.tool, folder=settings.ovs_dir)
    options.run_dir.mkdir(parents=True, exist_ok=True)
    settings = Settings(options.run_dir, options.run_dir, controller=None, web=options.web)
    return settings, network_of(options.interfaces), run_command


def network_of(interfaces: tuple[str, ...]) -> Topology:
    """Return the edge ports of a setting, without hosts and switches. Raises FieldError."""
    ports = []
    for text in interfaces:
        match = _PORT.fullmatch(text)
        assert match is not None, text
        rate_bps = _RATE.read("interfaces", match[3])
        ports.append(Port(match[1], int(match[2]), "", 0, rate_bps, edge=True))
    return Topology("own", (), (), tuple(ports))


def problems(options: PortAgentOptions) -> Iterator[FieldError]:
    """A port agent needs ports."""
    if options.testbed is None and not options.interfaces:
        yield FieldError(
            "interfaces", 'is missing; name the ports, for example interfaces = ["s1-eth2=10Gbit"]'
        )
    try:
        network_of(options.interfaces)
    except FieldError as error:
        yield error


SERVICE = Service(
    "port-agent",
    "The port agent: marking, buffer, flow queues and shares of this machine's switch ports. It needs root or the\n"
    "capabilities of sluice-port-agent.service.",
    PortAgentOptions,
    run,
    examples="""\
  sluice port-agent --interfaces s1-eth1=10Gbit --interfaces s1-eth2=10Gbit --web http://192.0.2.1:8080
  sluice port-agent --check                             check /etc/sluice/port-agent.toml
""",
    problems=problems,
)
