# SPDX-License-Identifier: Apache-2.0
"""`sluice policy`: show the policy, change where it acts, and go back to the one before."""

from __future__ import annotations

import argparse
import json
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from policy.errors import SluiceError
from sluice.commands.arguments import command_parser
from sluice.policy_preview import print_preview
from sluice.remote import Remote, add_remote
from sluice.terminal import console

_EPILOG = """examples:
  sluice policy show                        the policy in force, and the ones before
  sluice policy history                     who changed it, from where, when, and which keys
  sluice policy set policy.toml             put a file in force: scheme = "pias", …
  sluice policy preview policy.toml         what that file would change, and why; changes nothing
  sluice policy act --at rack1:3 rack1:4    a canary: the policy acts at two ports and watches at all others
  sluice policy act --at '*'                it acts everywhere
  sluice policy act --nowhere               it only watches: counters and thresholds, no queue changes
  sluice policy rollback                    back to the version before
"""
HISTORY = 10


def parser() -> argparse.ArgumentParser:
    made = command_parser("policy", _EPILOG)
    add_remote(made)
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("show", help="show the policy in force, and the ones before")
    actions.add_parser("history", help="show who changed the policy, when, and which keys; needs any token")
    actions.add_parser("set", help="put a TOML file in force").add_argument("file", type=Path, metavar="FILE")
    preview = actions.add_parser("preview", help="show what a scheme or a TOML file would change, and why")
    preview.add_argument(
        "what", metavar="SCHEME|FILE", help='name of a scheme, or a file that ends in ".toml"'
    )
    act = actions.add_parser("act", help="choose the ports at which the policy acts")
    where = act.add_mutually_exclusive_group(required=True)
    where.add_argument("--at", nargs="+", metavar="PORT", help='names such as "rack1:3", "rack1:*" or "*"')
    where.add_argument("--nowhere", action="store_true", help="only watch")
    back = actions.add_parser("rollback", help="put an earlier version in force again")
    back.add_argument("version", type=int, nargs="?", help="number of the version (default: the one before)")
    return made


def execute(arguments: argparse.Namespace) -> int:
    remote = Remote.of(arguments)
    match arguments.action:
        case "show":
            _show(remote)
        case "history":
            _history(remote)
        case "set":
            _put(remote, _read(arguments.file))
        case "preview":
            print_preview(remote.post("policy/preview", _document(arguments.what)))
        case "act":
            policy = _current(remote)["policy"]
            _put(remote, {**policy, "acts_at": [] if arguments.nowhere else arguments.at})
        case "rollback":
            _put(remote, _earlier(remote, arguments.version))
    return 0


def _show(remote: Remote) -> None:
    history = remote.get(f"policy?limit={HISTORY}")["history"]
    console.print_json(json.dumps(history[0]["policy"]) if history else "null")
    table = Table("version", "scheme", "acts at", "by", "state")
    for version in history:
        policy = version["policy"]
        acts_at = ", ".join(policy["acts_at"]) or "no port"
        table.add_row(str(version["version"]), policy["scheme"], acts_at, version["author"], version["state"])
    console.print(table)


def _history(remote: Remote) -> None:
    table = Table("version", "when", "by", "from", "replaced", "changed")
    for one in remote.read("audit?limit=100")["changes"]:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["at"]))
        before = "-" if one["before"] is None else str(one["before"])
        changed = ", ".join(one["changed"]) or "nothing"
        table.add_row(str(one["version"]), when, one["by"], one["address"], before, changed)
    console.print(table)


def _current(remote: Remote) -> dict[str, Any]:
    current: dict[str, Any] | None = remote.get("policy?limit=1")["current"]
    if current is None:
        raise SluiceError("there is no policy yet: put one in force with `sluice policy set FILE`")
    return current


def _earlier(remote: Remote, version: int | None) -> Mapping[str, Any]:
    history = remote.get("policy?limit=500")["history"]
    wanted = version if version is not None else (history[0]["version"] - 1 if history else 0)
    for one in history:
        if one["version"] == wanted:
            policy: Mapping[str, Any] = one["policy"]
            return policy
    known = ", ".join(str(one["version"]) for one in history[:HISTORY]) or "none"
    raise SluiceError(f"there is no version {wanted}; the newest are {known}")


def _document(what: str) -> dict[str, Any]:
    """Return the document of a file, or of a scheme with nothing else named."""
    return _read(Path(what)) if what.endswith(".toml") else {"scheme": what}


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise SluiceError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SluiceError(f"{file} is not TOML: {error}") from None


def _put(remote: Remote, document: Mapping[str, Any]) -> None:
    version = remote.change("PUT", "policy", document)
    console.print(f"version {version['version']} is {version['state']}")
