# SPDX-License-Identifier: Apache-2.0
"""Completion in the shell: the words that may follow on a command line, from the parsers of the commands.

The shell calls `sluice` with the line in the environment, and argcomplete answers instead of the command.
"""

import argparse
import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE, LINE = "_ARGCOMPLETE", "COMP_LINE"

Words = Callable[[], Iterable[str]]


def is_asked() -> bool:
    """Return whether a shell asks for words in place of running a command."""
    return VARIABLE in os.environ


def answer(parser: argparse.ArgumentParser, commands: Mapping[str, str]) -> None:
    """Write the words that may follow, and end the process. `parser` has the options before the command."""
    import argcomplete

    argcomplete.autocomplete(whole_parser(parser, commands, os.environ.get(LINE, "").split()))


def whole_parser(
    parser: argparse.ArgumentParser, commands: Mapping[str, str], words: Iterable[str]
) -> argparse.ArgumentParser:
    """Return a parser of the whole line. Only the command that the line names is imported, because that takes time."""
    whole = argparse.ArgumentParser(prog=parser.prog)
    for action in parser._actions:
        if action.option_strings and not isinstance(action, argparse._HelpAction):
            whole._add_action(action)
    below = whole.add_subparsers(metavar="COMMAND")
    for name, what in commands.items():
        below.add_parser(name, help=what)
    named = next((word for word in words if word in commands), None)
    if named is not None:
        # A service is no module of the commands, and an installation may lack the packages of a command.
        with suppress(ModuleNotFoundError):
            below.choices[named] = importlib.import_module(f"sluice.commands.{named}").parser()
    return whole


# ── Words that no parser knows ─────────────────────────────────────────────────────────────────────────────────────


def completed(action: argparse.Action, words: Words, *, files: tuple[str, ...] = ()) -> None:
    """Let an argument be completed by these words, and by the names of files with these endings."""

    def complete(prefix: str, **_: Any) -> list[str]:
        matching = [word for word in words() if word.startswith(prefix)]
        if files:
            from argcomplete.completers import FilesCompleter

            matching += FilesCompleter(files)(prefix)
        return matching

    action.completer = complete  # type: ignore[attr-defined]


def scenarios() -> list[str]:
    """Return the names of the included scenarios."""
    return sorted(path.stem for path in (Path(__file__).parent / "data" / "scenarios").glob("*.toml"))


def schemes() -> list[str]:
    """Return the names of all schemes."""
    from sluice.policy.schemes import SCHEMES

    return list(SCHEMES)


def policy_keys() -> list[str]:
    """Return the start of a setting for each key of a policy, and the settings of the scheme."""
    from sluice.policy.schema.fields import POLICY_FIELDS

    return [*(f"{field.name}=" for field in POLICY_FIELDS), *(f"scheme={name}" for name in schemes())]


def hosts() -> list[str]:
    """Return the hosts of the running testbeds."""
    from sluice.testbeds import running_testbeds

    return [host.name for bed in running_testbeds() for host in bed.topology.hosts]


def ports() -> list[str]:
    """Return the ports of the running testbeds."""
    from sluice.testbeds import running_testbeds

    return [port.id for bed in running_testbeds() for port in bed.topology.ports]


def testbeds() -> list[str]:
    """Return the process ids of the running testbeds."""
    from sluice.testbeds import running_testbeds

    return [str(bed.pid) for bed in running_testbeds()]
