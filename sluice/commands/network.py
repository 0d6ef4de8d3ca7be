# SPDX-License-Identifier: Apache-2.0
"""`sluice network`: describe a network that exists already, compare the description with the switches, and leave."""

import argparse
import difflib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from rich.table import Table
from rich.text import Text

from sluice.commands.arguments import command_parser, read_toml_file
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.network.description import read_network
from sluice.remote import Remote, add_remote
from sluice.terminal import console

_EPILOG = """examples:
  sluice network discover > network.toml   what the switches report, as a description
  sluice network check network.toml        is the file correct, and does it agree with the switches?
  sluice network diff network.toml         what would change
  sluice network apply network.toml        put it in force
  sluice network show                      the description in force, hosts, and what contradicts it
  sluice network remove                    remove all rules from the switches, and add no more

check, diff, apply and show end with 1 if the description contradicts the switches.
"""


def parser() -> argparse.ArgumentParser:
    parser = command_parser("network", _EPILOG)
    add_remote(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, help_ in (
        ("check", "check a file, and compare it with the switches if a web process answers"),
        ("diff", "show what a file would change in the description in force"),
        ("apply", "put a file in force"),
    ):
        actions.add_parser(name, help=help_).add_argument("file", type=Path, metavar="FILE")
    actions.add_parser("show", help="show the description in force, the hosts, and contradictions")
    actions.add_parser("discover", help="print a description of what the switches report")
    actions.add_parser("remove", help="withdraw the description: Sluice removes its rules from all switches")
    return parser


def execute(arguments: argparse.Namespace) -> int:
    remote = Remote.of(arguments)
    match arguments.action:
        case "check":
            return _check(arguments.file, remote)
        case "diff":
            before = remote.get("network")["described"] or {}
            old, new = (tomli_w.dumps(document).splitlines() for document in (before, _read(arguments.file)))
            for line in difflib.unified_diff(old, new, "in force", str(arguments.file), lineterm=""):
                console.print(Text(line, style={"+": "green", "-": "red"}.get(line[:1], "")))
            return _check(arguments.file, remote)
        case "apply":
            return _report(remote.change("PUT", "network", _read(arguments.file))["findings"])
        case "show":
            network = remote.get("network")
            described = network["described"]
            title = (
                "described" if described is not None else "withdrawn" if network["version"] else "discovered"
            )
            sys.stdout.write(f"# {title}\n{tomli_w.dumps(described or network['discovered'])}")
            heading = "hosts that the switches have seen"
            table = Table("host", "MAC", "port", "IPv4", "IPv6", title=heading, title_justify="left")
            for host in network["hosts"]:
                table.add_row(host["name"], host["mac"], host["port"], host["ipv4"], host["ipv6"])
            console.print(table)
            return _report(network["findings"])
        case "discover":
            sys.stdout.write(tomli_w.dumps(remote.get("network")["discovered"]))
        case "remove":
            remote.change("DELETE", "network")
            console.print(
                "Sluice removes its rules. Then disconnect each switch: ovs-vsctl del-controller BRIDGE"
            )
    return 0


# ── Actions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(file: Path) -> dict[str, Any]:
    """Return the document of a file that is a correct description. Raises SluiceError."""
    document = read_toml_file(file)
    try:
        read_network(document)
    except FieldError as error:
        raise SluiceError(f"{file}: {error}") from None
    return document


def _check(file: Path, remote: Remote) -> int:
    document = _read(file)
    try:
        return _report(remote.post("network/check", document)["findings"])
    except Remote.Away as away:
        console.print(f"{file} is a correct description. It was not compared with the switches: {away}")
        return 0


def _report(findings: Iterable[Mapping[str, Any]]) -> int:
    """Print what differs. Returns 1 if there is an error among it."""
    errors = [finding for finding in findings if finding["is_error"]]
    for finding in findings:
        style = "bold red" if finding["is_error"] else "dim"
        console.print(Text(f"{finding['where']}: {finding['problem']}", style=style))
    if not errors:
        console.print("The description agrees with the switches.")
    return 1 if errors else 0
