# SPDX-License-Identifier: Apache-2.0
"""`sluice revoke`: refuse an agent from its next request on."""

import argparse

from sluice.commands.arguments import command_parser
from sluice.remote import Remote, add_remote


def parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "revoke",
        "The agent keeps its last settings, and its traffic continues. `sluice enrol` admits it again.",
    )
    parser.add_argument("name", help="name of the agent")
    add_remote(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    answer = Remote.of(arguments).change("POST", f"agents/{arguments.name}/revocation")
    print(f"{arguments.name}: {answer['revoked']} certificates and tokens no longer work")
    return 0
