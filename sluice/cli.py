# SPDX-License-Identifier: Apache-2.0
"""The `sluice` command: finds the subcommand, runs it, and turns user errors into one line.

For completion, the shell calls it with the line in the environment. Then argcomplete answers in place of the command.
"""

import argparse
import errno
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.policy.version import VERSION
from sluice.runtime import plugins
from sluice.runtime.command import CommandFailed
from sluice.runtime.settings import Service

COMMANDS: Mapping[str, str] = {
    "run": "run one scenario and write its result bundle",
    "sweep": "run a scenario under every scheme, load and seed",
    "compare": "write one HTML report of bundles, or of a sweep",
    "demo": "the live demonstration, with the dashboard",
    "top": "show what is running, live in the terminal",
    "policy": "show the policy, change where it acts, and go back",
    "network": "describe a network that exists, and compare the description with its switches",
    "attach": "put agents and queues onto a Mininet network that another script has started",
    "detach": "end `sluice attach`, and give its network back as it was",
    "export": "write the policy as the configuration of other switches (SONiC)",
    "exec": "run a program on a host of the running testbed",
    "shell": "open a shell on a host of the running testbed",
    "capture": "record packets of a switch port as a pcap file",
    "token": "make, list and revoke the tokens of people and programs",
    "enrol": "make a token with which an agent of another machine gets a certificate",
    "revoke": "refuse an agent's certificate from now on",
    "agents": "list the agents: state, certificate, last heartbeat, version",
    "completion": "print the script that completes the words of sluice in bash or zsh",
    "doctor": "check this machine: BPF, queues, marking, shaping",
}
"""Name → its help. The code of a command is in sluice/commands, and is imported only when the command is called."""

_SHARED: Mapping[str, str] = {
    **dict.fromkeys(("run", "sweep", "compare"), "run"),
    **dict.fromkeys(("attach", "detach"), "attach"),
    **dict.fromkeys(("exec", "shell", "capture"), "inside"),
    **dict.fromkeys(("token", "enrol", "revoke", "agents"), "access"),
}
"""Command → its module, if that has several commands. Its functions have the name of the command before theirs."""

SERVICES: Mapping[str, str] = {
    "controller": "sluice.controller.service",
    "web": "sluice.webui.service",
    "agent": "sluice.hostagent.service",
    "port-agent": "sluice.hostagent.port.service",
}
"""Name → the module with its SERVICE. It is imported only when the service is called."""

SERVICE_HELP: Mapping[str, str] = {
    "controller": "the SDN controller",
    "web": "REST API, dashboard, metrics",
    "agent": "the agent of one host",
    "port-agent": "the agent of one machine's switch ports",
}

_WHERE = {
    "controller": "install the Debian package sluice-controller",
    "webui": "install the Debian package sluice-web",
    "hostagent": "install the Debian package sluice-agent",
    "topologies": "install the whole project (README.md)",
    "dataplane": "install the Debian package sluice-agent",
    "simulator": "install the wheel sluice-sim",
}
"""Room → the remedy if an installation lacks it."""

REMOVED: Mapping[str, str] = {
    "authority": "with a new authority every agent enrols again (docs/deploying/agents.md); "
    "`openssl x509 -in DIR/authority.pem -noout -subject -enddate -fingerprint -sha256` shows the present one",
    "bench": "run `make bench` in a clone of the repository",
    "sweep --staged": "give --out a folder on a file system that all nodes share",
}
"""Command, or command and option, of an earlier version → what replaces it."""

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

_DESCRIPTION = (
    "Flow scheduling for data-centre networks: run schemes on a testbed of real switches and real TCP, "
    "or on a packet simulator."
)

_EXAMPLES = """examples:
  sluice doctor                                        check and measure this machine
  sluice demo --duration 60                            the live demonstration, for a minute
  sluice run my.toml --out results/sim                 one scenario on the simulator; its results in a folder
  sluice run paper-mix --on testbed --out results/mix  on real switches and real TCP; needs root
  sluice sweep my.toml --schemes dctcp pias --loads 0.5 0.8 --seeds 1 2 3 --out results/sweep
  sluice compare results/sweep --baseline dctcp        one HTML page: tables, distributions, FCT against load
  sluice top                                           show what is running, in the terminal
  sluice exec h1 -- ping -c 3 h3                       a program on a host of the running testbed
  sluice capture s1:2 --seconds 5 --out x.pcap         packets of a switch port

`sluice COMMAND --help` explains a command. Example scenarios are in sluice/data/scenarios.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and run the command. A user error becomes one line on standard error
    and exit code 2."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(_whole_parser(os.environ.get("COMP_LINE", "").split()))
    words = list(sys.argv[1:] if argv is None else argv)
    first, *options = [word for word in words if word not in ("-v", "--verbose")] or [""]
    for name in (first, *(f"{first} {option.partition('=')[0]}" for option in options)):
        if name in REMOVED:
            print(f"sluice: {name} was removed: {REMOVED[name]}", file=sys.stderr)
            return 2
    given = _parser().parse_args(words)
    try:
        plugins.load()
        return _run(given)
    except plugins.PluginError as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        room = (error.name or "").removeprefix("sluice.").partition(".")[0]
        if room not in _WHERE:
            raise
        print(f"sluice {given.command}: this installation lacks {room}; {_WHERE[room]}", file=sys.stderr)
        return 2


def service(name: str) -> Service[Any]:
    """Return a service by its name."""
    service: Service[Any] = importlib.import_module(SERVICES[name]).SERVICE
    return service


def command(name: str) -> tuple[argparse.ArgumentParser, Callable[[argparse.Namespace], int]]:
    """Return the parser of a command, and the function that executes what it has read and returns the exit code."""
    module = importlib.import_module(f"sluice.commands.{_SHARED.get(name, name)}")
    prefix = f"{name}_" if name in _SHARED else ""
    return getattr(module, f"{prefix}parser")(), getattr(module, f"{prefix}execute")


def _run(given: argparse.Namespace) -> int:
    if given.command in SERVICES:
        return service(given.command).main(given.arguments)
    from sluice.terminal import end_in_order

    parser, execute = command(given.command)
    arguments = parser.parse_args(given.arguments)
    level = logging.DEBUG if given.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    end_in_order()
    try:
        return execute(arguments)
    except (SluiceError, CommandFailed, TimeoutError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print(f"sluice: stopped{f': {stopped}' if str(stopped) else ''}", file=sys.stderr)
        return 130
    except OSError as error:
        if error.errno in _DISK:
            said = f"the disk does not take a file: {error}; make room and repeat"
        elif error.filename and not given.verbose:
            said = f"{error.filename}: {error.strerror} (sluice -v shows where)"
        else:
            raise
        print(f"sluice: {said}", file=sys.stderr)
        return 2


def _list(helps: Mapping[str, str]) -> str:
    width = max(map(len, [*COMMANDS, *SERVICES]))
    return "\n".join(f"  {name:{width}}  {what}" for name, what in helps.items())


def _parser() -> argparse.ArgumentParser:
    commands = _list(COMMANDS)
    services = _list(SERVICE_HELP)
    parser = argparse.ArgumentParser(
        prog="sluice",
        description=f"{_DESCRIPTION}\n\ncommands:\n{commands}\n\nservices:\n{services}",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log every step and every command")
    parser.add_argument("--version", action="version", version=f"Sluice {VERSION}")
    parser.add_argument(
        "command", choices=[*COMMANDS, *SERVICES], metavar="COMMAND", help="one of the commands above"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    return parser


def _whole_parser(words: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser of the whole line. Only the command that the line names is imported, because that takes time."""
    whole = argparse.ArgumentParser(prog="sluice")
    for action in _parser()._actions:
        if action.option_strings and not isinstance(action, argparse._HelpAction):
            whole._add_action(action)
    below = whole.add_subparsers(metavar="COMMAND")
    commands = {**COMMANDS, **SERVICE_HELP}
    for name, what in commands.items():
        below.add_parser(name, help=what)
    named = next((word for word in words if word in commands), None)
    if named is not None:
        # A service is no module of the commands, and an installation may lack the packages of a command.
        with suppress(ModuleNotFoundError):
            below.choices[named], _ = command(named)
    return whole
