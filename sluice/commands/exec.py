# SPDX-License-Identifier: Apache-2.0
"""`sluice exec`: a program on a host of a running testbed, in place of this process."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from sluice.commands.arguments import command_parser, completed, hosts
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.runs.files import need_root
from sluice.testbeds import add_testbed, the_testbed
from sluice.topologies.settings import NAMES, default_signals, enter_host

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""Exit codes of a program that cannot start, as in a shell."""

_EPILOG = """examples:
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


def parser() -> argparse.ArgumentParser:
    parser = command_parser("exec", _EPILOG, kind=_Parser)
    parser.usage = "%(prog)s [-h] [--testbed PID] host -- program [argument ...]"
    host = parser.add_argument("host", help="as the dashboard names it, for example h1")
    completed(host, hosts)
    add_testbed(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    return become(arguments.host, arguments.program, arguments.testbed)


def become(host: str, program: Sequence[str], testbed: int | None) -> int:
    """Replace this process by a program on a host. Returns only if that program cannot start: its exit code.

    Raises FieldError (no such host or testbed), SluiceError (no testbed runs) and EnvironmentLacking.
    """
    need_root()
    bed = the_testbed(testbed)
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
