# SPDX-License-Identifier: Apache-2.0
"""docs/reference/commands.md: every command and its options, from the parsers."""

from __future__ import annotations

import argparse
import importlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.cli import COMMANDS
from tools.reference.markdown import code, fence, page, sentence, table

WIDTH = "100"

_INTRODUCTION = """\
`make setup` installs the command as `.venv/bin/sluice`. A user error is one line on standard error, and the exit code
is 2. After Ctrl-C it is 130. `sluice -v COMMAND` logs every step and every command that it runs.

[`sluice completion`](#sluice-completion) lets bash or zsh complete commands, options, scenarios, schemes, keys of the
policy, and the hosts and ports of running testbeds.

| command | what it does | root |
| --- | --- | --- |
{commands}"""

_NEEDS_ROOT = {
    "run": "on the testbed",
    "sweep": "on the testbed",
    "demo": "on the testbed",
    "exec": "yes",
    "shell": "yes",
    "capture": "yes",
    "doctor": "for all checks",
}

_MAKE = """\
`make help` lists the targets. `make experiment NAME=…` runs one experiment; `experiments/README.md` lists them all."""

_SERVICES = """\
`sluice controller`, `sluice web`, `sluice agent` and `sluice port-agent` run the services. Their flags are
[settings](settings.md), which a file can hold as well."""


def text() -> str:
    """The page."""
    with _width():
        return page(
            "Commands",
            "For everyone who works in a terminal.",
            _INTRODUCTION.format(commands="\n".join(map(_line, COMMANDS))),
            *(
                part
                for name in COMMANDS
                for part in _section(f"sluice {name}", _parser(name), COMMANDS[name])
            ),
            "## `make`",
            _MAKE,
            "## Services",
            _SERVICES,
        )


def _line(name: str) -> str:
    return f"| [`sluice {name}`](#sluice-{name}) | {COMMANDS[name]} | {_NEEDS_ROOT.get(name, 'no')} |"


def _parser(name: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = importlib.import_module(f"sluice.commands.{name}").parser()
    return parser


@contextmanager
def _width() -> Iterator[None]:
    """Usage lines break at the same place on every terminal."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    yield
    if before is None:
        del os.environ["COLUMNS"]
    else:
        os.environ["COLUMNS"] = before


def _section(name: str, parser: argparse.ArgumentParser, what: str) -> list[str]:
    parser.prog = name
    found = [f"## `{name}`", sentence(what)]
    found += [
        fence(parser.format_usage()),
        table(("option", "meaning", "default"), map(_row, _actions(parser))),
    ]
    return [*found, fence(parser.epilog)] if parser.epilog else found


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]


def _row(action: argparse.Action) -> tuple[str, str, str]:
    return code(_spelling(action)), sentence(_help(action)), _default(action)


def _spelling(action: argparse.Action) -> str:
    """As on the command line: an option with its value, or the name of an argument."""
    if not action.option_strings:
        return str(action.metavar or action.dest)
    value = "" if action.nargs == 0 else f" {action.metavar or _choices(action) or action.dest.upper()}"
    more = " …" if action.nargs == "+" else ""
    return f"{action.option_strings[-1]}{value}{more}"


def _choices(action: argparse.Action) -> str:
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""


def _help(action: argparse.Action) -> str:
    """The help without its default, which has a column of its own."""
    written = (action.help or "").partition(" (default")[0].partition("default: ")[0]
    text = (written % {**vars(action), "prog": ""}).replace("*", "\\*").strip().rstrip(";")
    return re.sub(r"(?<!`)\bhttps?://\S*[^\s.,;]", lambda address: code(address[0]), text)


def _default(action: argparse.Action) -> str:
    if action.required and action.option_strings:
        return "required"
    written = (action.help or "").partition(" (default")[2].strip(": )")
    if written and "%(default)" not in written:
        return written
    if action.default in (None, False, [], argparse.SUPPRESS) or not action.option_strings:
        return "–"
    return code(str(action.default))
