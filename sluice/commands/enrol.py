# SPDX-License-Identifier: Apache-2.0
"""`sluice enrol`: a token with which an agent of another machine gets its certificate."""

import argparse
import sys

from sluice.commands.arguments import command_parser, life
from sluice.policy.wire.access import ENROLMENT_LIFE_MAX_S, KINDS
from sluice.remote import Remote, add_remote


def parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "enrol",
        "The token works once. Write it into a file on its host, and start the agent there with --enrol /PATH.",
    )
    parser.add_argument("name", help="name of the agent: of a host, as the network names it")
    parser.add_argument(
        "--kind", choices=KINDS, default="host", help="host agent or port agent (default: host)"
    )
    parser.add_argument(
        "--valid",
        type=life(ENROLMENT_LIFE_MAX_S),
        default=3600,
        metavar="TIME",
        help="how long the token can be used: 10min, 12h, 7d …, at most 30d (default: 1h)",
    )
    add_remote(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    wanted = {"name": arguments.name, "kind": arguments.kind, "valid_s": arguments.valid}
    answer = Remote.of(arguments).change("POST", "enrolments", wanted)
    print(answer["token"])
    print(f"works once, for {arguments.name}, until it expires", file=sys.stderr)
    return 0
