# SPDX-License-Identifier: Apache-2.0
"""`sluice policy`: show the policy, change where it acts, and go back to the one before."""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from sluice.commands.arguments import add_plugin, command_parser, completed, policy_keys, read_toml_file
from sluice.policy.errors import SluiceError, shortened
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.fields import field_text
from sluice.policy.schema.fitting import DEFAULT, changed, frozen, is_list, unfrozen
from sluice.remote import Remote, add_remote
from sluice.runs.files import setting, toml_value
from sluice.terminal import console


def print_preview(preview: Mapping[str, Any]) -> None:
    """Print the answer of `POST /policy/preview`."""
    against = preview["against"]
    if not preview["changes"]:
        console.print(f"nothing changes against version {against}")
        return
    title = "there is no policy yet" if against is None else f"changes against version {against}"
    table = Table("field", "now", "then", "because", title=title, title_justify="left")
    scheme = preview["policy"]["scheme"]
    for change in preview["changes"]:
        before, after = (field_text(scheme, change["field"], change[key]) for key in ("before", "after"))
        table.add_row(change["field"], before, after, change["because"])
    console.print(table)


_EPILOG = """examples:
  sluice policy show                        the policy in force, and the ones before
  sluice policy history                     who changed it, from where, when, and which keys
  sluice policy set policy.toml             put a file in force: scheme = "pias", …
  sluice policy preview policy.toml         what that file would change, and why; changes nothing
  sluice policy set mark_at=18KB queues=4   change some keys; the rest stays, and what changes is printed
  sluice policy set thresholds=10KB,100KB   a list; thresholds=default gives a key its default again
  sluice policy freeze s1:2 s3:*            these ports keep the thresholds that are in force
  sluice policy unfreeze s1:2               this port adapts again
  sluice policy act --at rack1:3 rack1:4    it acts at two ports, watches at all others, and acts on all hosts
  sluice policy act --at rack1:3 --on web1  a canary: it acts at one port and on one host
  sluice policy act --at '*'                it acts everywhere
  sluice policy act --nowhere               it only watches: no packet, host or port changes
  sluice policy rollback                    repeat the version before, as a new version; a second one goes further back
  sluice policy rollback 3                  repeat version 3
"""
HISTORY = 10
APPLIED_WITHIN_S = 30.0
"""A command waits so long for every switch to apply a version, a tenth of it if not all are connected."""
_NO_POLICY = "there is no policy yet: put one in force with `sluice policy set FILE`"
_PORTS = 'names such as "rack1:3", "rack1:*" or "*"'


def parser() -> argparse.ArgumentParser:
    parser = command_parser("policy", _EPILOG)
    add_remote(parser)
    add_plugin(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("show", help="show the policy in force, and the ones before")
    actions.add_parser("history", help="show who changed the policy, when, and which keys; needs any token")
    change = actions.add_parser("set", help="change some keys and keep the rest, or put a TOML file in force")
    keys = change.add_argument(
        "change", nargs="+", metavar="FILE|KEY=VALUE", help="a TOML file, or keys of the policy"
    )
    completed(keys, policy_keys, files=("toml",))
    preview = actions.add_parser("preview", help="show what a scheme or a TOML file would change, and why")
    preview.add_argument(
        "what", metavar="SCHEME|FILE", help='name of a scheme, or a file that ends in ".toml"'
    )
    freeze = actions.add_parser("freeze", help="let ports keep the thresholds that are in force")
    freeze.add_argument("ports", nargs="+", metavar="PORT", help=_PORTS)
    unfreeze = actions.add_parser("unfreeze", help="let frozen ports adapt again")
    unfreeze.add_argument("ports", nargs="+", metavar="PORT", help="names with which they were frozen")
    act = actions.add_parser("act", help="choose the ports and hosts on which the policy acts")
    where = act.add_mutually_exclusive_group(required=True)
    where.add_argument("--at", nargs="+", metavar="PORT", help=_PORTS)
    where.add_argument("--nowhere", action="store_true", help="only watch")
    act.add_argument(
        "--on",
        nargs="+",
        metavar="HOST",
        default=["*"],
        help='names of agents such as "web1" or "web*" (default: all)',
    )
    back = actions.add_parser("rollback", help="repeat an earlier version, as a new version")
    back.add_argument("version", type=int, nargs="?", help="number of the version (default: the one before)")
    return parser


def execute(arguments: argparse.Namespace) -> int:
    remote = Remote.of(arguments)
    match arguments.action:
        case "show":
            _show(remote)
        case "history":
            table = Table("version", "when", "by", "from", "replaced", "changed")
            for change in remote.read("audit?limit=100")["changes"]:
                when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(change["at"]))
                before = "-" if change["before"] is None else str(change["before"])
                keys = ", ".join(change["changed"]) or "nothing"
                table.add_row(str(change["version"]), when, change["by"], change["address"], before, keys)
            console.print(table)
        case "set":
            _set(remote, arguments.change)
        case "preview":
            what = arguments.what
            document = read_toml_file(Path(what)) if what.endswith(".toml") else {"scheme": what}
            print_preview(remote.post("policy/preview", document))
        case "freeze":
            _change(remote, lambda policy: frozen(policy, arguments.ports))
        case "unfreeze":
            _change(remote, lambda policy: unfrozen(policy, arguments.ports))
        case "act":
            acts = (
                {"acts_at": []} if arguments.nowhere else {"acts_at": arguments.at, "acts_on": arguments.on}
            )
            _change(remote, lambda policy: acts)
        case "rollback":
            _roll_back(remote, arguments.version)
    return 0


def _show(remote: Remote) -> None:
    history = remote.get(f"policy?limit={HISTORY}")["history"]
    console.print_json(json.dumps(history[0]["policy"]) if history else "null")
    table = Table("version", "scheme", "acts at", "on", "by", "state")
    for version in history:
        policy = version["policy"]
        ports = ", ".join(policy["acts_at"]) or "no port"
        hosts = ", ".join(policy["acts_on"]) if policy["acts_at"] else "no host"
        table.add_row(
            str(version["version"]), policy["scheme"], ports, hosts, version["author"], version["state"]
        )
    console.print(table)


def _set(remote: Remote, words: Sequence[str]) -> None:
    """Put a file in force, or change keys."""
    plain = [word for word in words if "=" not in word or Path(word).exists()]
    if len(words) == 1 and plain:
        remedy = "give a TOML file, or KEY=VALUE as in mark_at=18KB"
        _put(remote, read_toml_file(Path(words[0]), remedy))
    elif plain:
        raise SluiceError(f"policy set: give one file, or only KEY=VALUE; {shortened(plain[0])} has no =")
    else:
        _change(remote, lambda policy: dict(_setting(word, policy) for word in words))


def _setting(word: str, policy: Policy) -> tuple[str, Any]:
    """Return a key and its value. A list may also be written as 10KB,100KB."""
    key, value = setting(word, "policy set", "mark_at=18KB")
    if not is_list(key, policy) or isinstance(value, list) or value == DEFAULT:
        return key, value
    return key, [toml_value(part.strip()) for part in word.partition("=")[2].split(",") if part.strip()]


def _change(remote: Remote, settings: Callable[[Policy], Mapping[str, Any]]) -> None:
    current = remote.get("policy?limit=1")["current"]
    if not current:
        raise SluiceError(_NO_POLICY)
    policy = Policy.from_document(current["policy"])
    _put(remote, changed(policy, settings(policy)))


def _roll_back(remote: Remote, version: int | None) -> None:
    """Repeat an earlier version as a new one, and say where another rollback would lead."""
    history = remote.get("policy?limit=500")["history"]
    if not history:
        raise SluiceError(_NO_POLICY)
    *before, _ = _way_to(history)
    newest = history[0]["version"]
    wanted = version if version is not None else before[-1]["version"] if before else None
    if wanted is None:
        raise SluiceError(
            f"version {newest} has the first policy: there is none before it; `sluice policy show` lists the others"
        )
    earlier = next((change for change in history if change["version"] == wanted), None)
    if earlier is None:
        numbers = ", ".join(str(change["version"]) for change in history[:HISTORY])
        raise SluiceError(f"there is no version {wanted}; the newest are {numbers}")
    if _put(remote, earlier["policy"]) is None:
        console.print(f"version {wanted} is the same policy; give the number of another version")
        return
    console.print(
        f"it repeats version {wanted}. `sluice policy rollback {newest}` undoes that, and another"
        " `sluice policy rollback` goes further back"
    )


def _way_to(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the versions that led to the newest one, oldest first, without those that a rollback has left."""
    way: list[Mapping[str, Any]] = []
    for change in reversed(history):
        same = [index for index, earlier in enumerate(way) if earlier["policy"] == change["policy"]]
        way = way[: same[-1] + 1] if same else [*way, change]
    return way


def _put(remote: Remote, document: Mapping[str, Any]) -> int | None:
    """Print what the document changes, and put it in force if it changes anything. Returns the new version."""
    preview = remote.post("policy/preview", document)
    if not preview["changes"]:
        console.print("nothing changes: this policy is in force")
        return None
    if preview["against"] is not None:
        print_preview(preview)
    controller = remote.get("health")["controller"]
    is_whole = controller["alive"] and controller["connected"] >= controller["expected"]
    wait_s = APPLIED_WITHIN_S if is_whole else APPLIED_WITHIN_S / 10
    version = remote.change("PUT", f"policy?wait_s={wait_s:g}", document)
    number: int = version["version"]
    console.print(f"version {number} is {version['state']}")
    pending = [_pending(remote.get("health")["controller"], number)] if version["state"] == "pending" else []
    for warning in (*pending, *version["warnings"]):
        console.print(f"[bold]warning:[/] {escape(warning)}")
    return number


def _pending(controller: Mapping[str, Any], version: int) -> str:
    """Return why a version is not in force everywhere. `controller` is that of `GET /health`."""
    if not controller["alive"]:
        return "no controller runs; one that starts puts the version in force"
    late = [switch["name"] for switch in controller["switches"] if switch["policy_version"] != version]
    where = f"at {', '.join(late)}" if late else "everywhere"
    return f"it is not yet in force {where}; `sluice policy show` says when it is"
