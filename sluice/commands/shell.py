# SPDX-License-Identifier: Apache-2.0
"""`sluice shell`: a shell on a host of a running testbed."""

import argparse
import os

from sluice.commands.arguments import command_parser, completed, hosts
from sluice.commands.exec import become
from sluice.testbeds import add_testbed

_EPILOG = """The shell is $SHELL, or /bin/sh. It has this machine's files, and the network and the name of the
host. `sluice exec` runs one program. The exit code is the shell's.
"""


def parser() -> argparse.ArgumentParser:
    parser = command_parser("shell", _EPILOG)
    host = parser.add_argument("host", help="as the dashboard names it, for example h1")
    completed(host, hosts)
    add_testbed(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    return become(arguments.host, [os.environ.get("SHELL") or "/bin/sh"], arguments.testbed)
