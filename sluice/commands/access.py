# SPDX-License-Identifier: Apache-2.0
"""`sluice token`: make, list and revoke the tokens with which people and programs read and change.

`sluice enrol` makes a token with which an agent of another machine gets its certificate, `sluice revoke` refuses an
agent from its next request on, and `sluice agents` lists every agent, its certificate and its last heartbeat.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from sluice.commands.arguments import DAY_S, command_parser, life
from sluice.policy.schema.entries import read
from sluice.policy.wire.access import ENROLMENT_LIFE_MAX_S, KINDS, ROLES, TOKEN_LIFE_MAX_S
from sluice.policy.wire.agents import ForeignDscp
from sluice.remote import Remote, add_remote
from sluice.terminal import console

# ── Tokens of people and programs ────────────────────────────────────────────────────────────────────


_EPILOG = """examples:
  sluice token create --role read --expires 30d --name wall-display > display.token
  sluice token create --role change --expires 12h --name alice > alice.token
  sluice token list
  sluice token revoke alice

A new token is written to the standard output once; Sluice keeps only its hash. Write it into a file that only its user
can read, and give commands that file with --token-file. Making and revoking needs the token with which the web process
starts.
"""


def token_parser() -> argparse.ArgumentParser:
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


def token_execute(arguments: argparse.Namespace) -> int:
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
                ends = f"in {(token['expires_at'] - now) / DAY_S:.1f} days" if is_valid else "-"
                table.add_row(token["name"], token["role"], token["state"], ends)
            console.print(table)
        case "revoke":
            remote.change("POST", f"tokens/{arguments.name}/revocation")
            console.print(f"{arguments.name}: the token no longer works")
    return 0


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────


def enrol_parser() -> argparse.ArgumentParser:
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


def enrol_execute(arguments: argparse.Namespace) -> int:
    wanted = {"name": arguments.name, "kind": arguments.kind, "valid_s": arguments.valid}
    answer = Remote.of(arguments).change("POST", "enrolments", wanted)
    print(answer["token"])
    print(f"works once, for {arguments.name}, until it expires", file=sys.stderr)
    return 0


def revoke_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "revoke",
        "The agent keeps its last settings, and its traffic continues. `sluice enrol` admits it again.",
    )
    parser.add_argument("name", help="name of the agent")
    add_remote(parser)
    return parser


def revoke_execute(arguments: argparse.Namespace) -> int:
    answer = Remote.of(arguments).change("POST", f"agents/{arguments.name}/revocation")
    print(f"{arguments.name}: {answer['revoked']} certificates and tokens no longer work")
    return 0


COLUMNS = ("agent", "kind", "state", "certificate", "ends", "last heartbeat", "version")
_WIDTH_IN_SCRIPTS = 160


def agents_parser() -> argparse.ArgumentParser:
    parser = command_parser("agents")
    add_remote(parser, changes=False)
    return parser


def agents_execute(arguments: argparse.Namespace) -> int:
    remote = Remote.of(arguments)
    health = remote.get("health")
    listed = remote.get("certificates")["certificates"]
    target = console if console.is_terminal else Console(width=_WIDTH_IN_SCRIPTS)
    table = Table(*COLUMNS)
    for row in rows(health["agents"], listed, time.time()):
        table.add_row(*row)
    target.print(table)
    for line in foreign_uses(health["agents"]):
        target.print(line)
    return 0


def foreign_uses(agents: list[Mapping[str, Any]]) -> list[str]:
    """Return a line for each DSCP that others use on a host."""
    return [
        f"{agent['name']}: {read(ForeignDscp, use)}: not a tag of Sluice"
        for agent in agents
        for use in agent["status"].get("foreign_dscps", ())
    ]


def rows(
    agents: list[Mapping[str, Any]], certificates: list[Mapping[str, Any]], now: float
) -> list[tuple[str, ...]]:
    """Return a row for each name that sent a heartbeat or has a certificate, by name."""
    reporting = {agent["name"]: agent for agent in agents}
    certified = {certificate["name"]: certificate for certificate in certificates}
    table: list[tuple[str, ...]] = []
    for name in sorted({*reporting, *certified}):
        agent, certificate = reporting.get(name), certified.get(name)
        kind = (agent or certificate or {})["kind"]
        state = "no heartbeat yet" if agent is None else "up" if agent["alive"] else "away"
        heartbeat = "-" if agent is None else f"{agent['age_s']:.0f} s ago"
        version = "-" if agent is None else agent["status"]["version"] or "-"
        certificate_state, ends = "none (this machine)", "-"
        if certificate is not None:
            certificate_state = certificate["state"]
            ends = f"in {(certificate['ends_at'] - now) / DAY_S:.1f} days"
        table.append((name, kind, state, certificate_state, ends, heartbeat, version))
    return table
