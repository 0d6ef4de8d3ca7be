# SPDX-License-Identifier: Apache-2.0
"""`sluice agent`: the agent of one host as a service, in the network namespace where it was started."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import AGENT, entry
from sluice.policy.schema.kinds import Choice, Flag, ListOf, Number, Text
from sluice.runtime import logs
from sluice.runtime.lifecycle import Notifier
from sluice.runtime.settings import Service, kinds

_ROUTES = Path("/proc/net/route")


@dataclass(frozen=True)
class AgentOptions:
    """The settings of a host's agent."""

    name: str | None = entry(
        AGENT,
        "Name of this host in the network's description and in flow records. Without it, it is the machine's name.",
        default=None,
    )
    interface: str | None = entry(
        kinds.Interface(),
        "Interface whose outgoing packets the agent tags. Without it, it is the interface of the default route.",
        default=None,
    )
    cards: tuple[str, ...] = entry(
        ListOf(kinds.Interface(), longest=16),
        "Further interfaces through which the host sends, for example of a second card, or the members of a bond. What"
        " leaves there is tagged, too, and gets the same queues. The flag is repeatable.",
        default=(),
    )
    guests: tuple[str, ...] = entry(
        ListOf(
            Text(r"[^/\s\x00-\x1f\x7f-\x9f]{1,64}", what="an interface, or a pattern with * and ?"),
            longest=64,
        ),
        "Interfaces from which packets of guests come, for example `tap*` and `vnet*` of virtual machines. The agent"
        " tags these packets by their addresses and ports. What a guest writes into the DSCP is overwritten, except"
        " reserved values. The flag is repeatable.",
        default=(),
    )
    fabric: tuple[str, ...] = entry(
        ListOf(kinds.Prefix(), longest=64),
        "Prefixes of the network, for example 10.9.0.0/16. Only connections to them get the policy's congestion"
        " control, by `congctl` on their routes. All others keep the machine's. Without prefixes, all connections of"
        " the host get it. The flag is repeatable.",
        default=(),
    )
    tags: str = entry(
        Choice(("packet", "socket")),
        "What writes the tags of TCP with a control of Sluice. packet: a program at the interface, exactly. socket: the"
        " socket itself, for less CPU time. Packets that may leave at one time then have the tag of the last."
        " Containers that the host routes always have the latter.",
        default="packet",
    )
    queues_at: str | None = entry(
        Text(r"root|[0-9a-f]{1,4}:[0-9a-f]{1,4}", what='"root" or a class of a qdisc, for example 1:1'),
        "Where the interface gets the scheme's queues for the host's own packets: `root`, or a class of a qdisc that"
        " is there, for example `1:1`. The agent replaces no qdisc of others, and removes its own when it ends. Without"
        " this setting, it makes no qdisc.",
        default=None,
    )
    run_dir: Path = entry(
        kinds.Folder(),
        "Folder for journal and spool. Use the same one after a restart: it holds records to deliver.",
        default=Path("/var/lib/sluice/agent"),
    )
    web: str = entry(kinds.WebAddress(), "The web process.", default="http://127.0.0.1:8080")
    enrol: str | None = entry(
        kinds.EnrolmentToken(),
        "Token from `sluice enrol NAME`, or /PATH of a file with it. Needed once for an https address.",
        default=None,
    )
    schedule: Path | None = entry(kinds.FileToRead(), "JSON file with the flows of a run.", default=None)
    start_file: Path | None = entry(
        kinds.FileToWrite(),
        "File with the epoch second at which the schedule starts; the agent waits until it exists. "
        "Without it, the schedule starts at once.",
        default=None,
    )
    congestion_control: str | None = entry(
        AGENT,
        "Congestion control until the web process sends a policy. Without it, it is that of the schedule's scheme.",
        default=None,
    )
    bpf: bool = entry(
        Flag(), "Load BPF programs. They make tags, declared flows and Sluice's controls.", default=True
    )
    realtime: bool = entry(Flag(), "Run before ordinary processes.", default=True)
    grace_s: float = entry(
        Number(0, 1e6, "seconds"),
        "Seconds after the last start until active flows are recorded as unfinished.",
        key="grace",
        default=10.0,
    )
    release: bool = entry(
        Flag(),
        "Remove what a killed agent has left: tags, queues of the host's own link, the default control. Then end.",
        default=False,
    )
    fsync: bool = entry(
        Flag(),
        "Write flow records to the device twice a second, so that they survive a power failure.",
        default=True,
    )
    log_level: str = entry(
        Choice(("DEBUG", "INFO", "WARNING", "ERROR")),
        "Least level of the messages on standard error.",
        default="INFO",
    )


def run(options: AgentOptions) -> int:
    """Serve until SIGTERM or SIGINT. Raises SluiceError."""
    from sluice.hostagent.agent import Agent, release
    from sluice.hostagent.traffic import EMPTY, load_schedule

    name = options.name or AGENT.read("name", socket.gethostname())
    schedule = load_schedule(options.schedule, name) if options.schedule else EMPTY
    interface = options.interface or interface_of_default_route()
    logs.start(options.log_level, name)
    if options.release:
        release(options, interface)
        return 0
    Agent(options, name, interface, schedule, Notifier()).run()
    return 0


def interface_of_default_route(routes: Path = _ROUTES) -> str:
    """Return the interface of the IPv4 default route. Raises FieldError without one."""
    for line in routes.read_text().splitlines()[1:]:
        interface, destination, *_ = line.split()
        if destination == "00000000":
            return interface
    raise FieldError(
        "interface", "is missing, and this host has no default route; name the interface, for example eth0"
    )


SERVICE = Service(
    "agent",
    "The agent of one host: it tags packets, sets the congestion control, and records flows. It needs root or the\n"
    "capabilities of sluice-agent.service.",
    AgentOptions,
    run,
    examples="""\
  sluice agent --interface eth0 --web https://192.0.2.1:8443 --enrol /etc/sluice/token
  sluice agent --name h3 --interface h3-eth0 --run-dir /var/lib/sluice/h3 --web unix:/run/sluice/web.sock
  sluice agent --interface eth0 --guests 'tap*'         tag virtual machines, too
  sluice agent --interface eth0 --release               after a killed agent, before Sluice is removed
  sluice agent --check                                  check /etc/sluice/agent.toml
""",
)
