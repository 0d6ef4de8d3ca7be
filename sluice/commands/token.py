# SPDX-License-Identifier: Apache-2.0
"""`sluice token`: make, list and revoke the tokens with which people and programs read and change."""

import argparse
import sys
import time

from rich.table import Table

from sluice.commands.arguments import command_parser, life
from sluice.policy.wire.access import ROLES, TOKEN_LIFE_MAX_S
from sluice.remote import Remote, add_remote
from sluice.terminal import console

_EPILOG = """examples:
  sluice token create --role read --expires 30d --name wall-display > display.token
  sluice token create --role change --expires 12h --name alice > alice.token
  sluice token list
  sluice token revoke alice

A new token is written to the standard output once; Sluice keeps only its hash. Write it into a file that only its user
can read, and give commands that file with --token-file. Making and revoking needs the token with which the web process
starts.
"""
_DAY_S = 86_400.0


def parser() -> argparse.ArgumentParser:
    parser = command_parser("token", _EPILOG)
    add_remote(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token and write it to the standard output, once")
    create.add_argument("--role", choices=ROLES, required=True, help="what it allows")
    create.add_argument(
        "--expires",
        type=life(TOKEN_LIFE_MAX_S),
        required=True,
        metavar="TIME",
        help="12h, 30d … at most 366d",
    )
    create.add_argument("--name", required=True, help="who uses it; the log of changes shows this name")
    actions.add_parser("list", help="list the tokens, without their secrets")
    actions.add_parser("revoke", help="end a token now").add_argument("name", help="name of the token")
    return parser


def execute(arguments: argparse.Namespace) -> int:
    remote = Remote.of(arguments)
    match arguments.action:
        case "create":
            wanted = {"name": arguments.name, "role": arguments.role, "valid_s": arguments.expires}
            print(remote.change("POST", "tokens", wanted)["token"])
            print(f"{arguments.name}: this is the only copy of the token", file=sys.stderr)
        case "list":
            table = Table("name", "role", "state", "ends")
            now = time.time()
            for token in remote.read("tokens")["tokens"]:
                is_valid = token["state"] == "valid"
                ends = f"in {(token['expires_at'] - now) / _DAY_S:.1f} days" if is_valid else "-"
                table.add_row(token["name"], token["role"], token["state"], ends)
            console.print(table)
        case "revoke":
            remote.change("POST", f"tokens/{arguments.name}/revocation")
            console.print(f"{arguments.name}: the token no longer works")
    return 0
