# SPDX-License-Identifier: Apache-2.0
"""`sluice completion`: the script with which a shell completes the words of `sluice`."""

import argparse

from sluice.commands.arguments import command_parser
from sluice.runtime import extras

SHELLS = ("bash", "zsh")

_EPILOG = """examples:
  source <(sluice completion bash)     # for this shell; put the line into ~/.bashrc for all
  source <(sluice completion zsh)      # for this shell; put the line into ~/.zshrc, below compinit, for all

The Debian packages install both scripts.
"""


def parser() -> argparse.ArgumentParser:
    parser = command_parser("completion", _EPILOG)
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    return parser


def execute(arguments: argparse.Namespace) -> int:
    print(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """Return the script for a shell. Raises EnvironmentLacking."""
    extras.need("argcomplete", "sluice completion")
    from argcomplete.shell_integration import shellcode

    return str(shellcode(["sluice"], shell=shell))
