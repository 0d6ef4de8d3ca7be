# SPDX-License-Identifier: Apache-2.0
"""The `sluice` command: finds the subcommand, runs it, and turns user errors into one line."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Mapping, Sequence

from policy.errors import SluiceError
from runtime.command import CommandFailed
from sluice.terminal import end_in_order

COMMANDS: Mapping[str, str] = {
    "run": "run one scenario and write its result bundle",
    "sweep": "run a scenario under every scheme, load and seed",
    "compare": "write one HTML report of bundles, or of a sweep",
    "demo": "the live demonstration, with the dashboard",
    "top": "show what is running, live in the terminal",
    "capture": "record packets of a switch port as a pcap file",
    "enrol": "make a token with which an agent of another machine gets a certificate",
    "revoke": "refuse an agent's certificate from now on",
    "agents": "list the agents: state, certificate, last heartbeat, version",
    "authority": "show or rotate the authority that certifies agents",
    "doctor": "check this machine: BPF, queues, marking, shaping",
    "bench": "measure the cost of data plane, control loop and simulator",
}
"""Name → its help. Each command is a module in sluice/commands that is imported only when it is called."""

_DESCRIPTION = (
    "Flow scheduling for data-centre networks: run schemes on a testbed of real switches and real TCP, "
    "or on a packet simulator."
)

_EXAMPLES = """examples:
  sluice doctor                                        check and measure this machine
  sluice demo --duration 60                            the live demonstration, for a minute
  sluice run paper-mix --on testbed --out results/mix  one scenario; its results in a folder
  sluice run my.toml --on simulator --out results/sim  the same on the simulator; no root needed
  sluice sweep my.toml --schemes dctcp pias --loads 0.5 0.8 --seeds 1 2 3 --out results/sweep
  sluice compare results/sweep --baseline dctcp        one HTML page: tables, distributions, FCT against load
  sluice top                                           show what is running, in the terminal
  sluice capture s1:2 --seconds 5 --out x.pcap         packets of a switch port

`sluice COMMAND --help` explains a command. Example scenarios are in experiments/scenarios.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and run the command. A user error becomes one line on standard error
    and exit code 2."""
    given = _parser().parse_args(argv)
    command = importlib.import_module(f"sluice.commands.{given.command}")
    arguments = command.parser().parse_args(given.arguments)
    level = logging.DEBUG if given.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    end_in_order()
    try:
        return int(command.execute(arguments))
    except (SluiceError, CommandFailed, TimeoutError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sluice: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {what}" for name, what in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="sluice",
        description=f"{_DESCRIPTION}\n\ncommands:\n{commands}",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log every step and every command")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands above")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    return parser
