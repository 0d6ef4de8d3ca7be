# SPDX-License-Identifier: Apache-2.0
"""A service of Sluice: one table of settings gives its flags, file, variables, checks and help.

    SERVICE = Service("web", "API and dashboard", WebSettings, run, examples="sluice web --listen 127.0.0.1:8080")
    sys.exit(SERVICE.main(sys.argv[1:]))

To add a setting, add an entry to the table. The reference page and the example file come from it (`make gen`).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.schema.entries import entries
from sluice.policy.schema.kinds import ListOf
from sluice.policy.version import VERSION
from sluice.runtime.settings.flags import add_flags
from sluice.runtime.settings.kinds import Outside
from sluice.runtime.settings.layers import (
    WrongSettings,
    flag_of,
    from_credentials,
    from_environment,
    from_file,
    from_flags,
    merge,
    only_in_file,
)

FOLDER = Path("/etc/sluice")
"""Configuration files are here unless --config names another."""
SettingsT = TypeVar("SettingsT")


def no_problems(settings: Any) -> Iterable[FieldError]:
    """The rule of a service whose settings do not depend on each other."""
    return ()


@dataclass(frozen=True)
class Service(Generic[SettingsT]):
    """A service and its settings."""

    name: str
    """The subcommand: "port-agent"."""
    what: str
    """What the service does, for the help."""
    table: type[SettingsT]
    """A dataclass of entries."""
    run: Callable[[SettingsT], int]
    """Serves until a signal ends it, and returns the exit code. Raises SluiceError."""
    examples: str
    problems: Callable[[SettingsT], Iterable[FieldError]] = no_problems
    """What is wrong with several settings together."""
    removed: Mapping[str, str] = field(default_factory=dict)
    """Key of an earlier version → what replaces it."""

    @property
    def prefix(self) -> str:
        """What the names of its environment variables begin with."""
        return f"SLUICE_{self.name.upper().replace('-', '_')}_"

    @property
    def file(self) -> Path:
        """Its configuration file, unless --config names another."""
        return FOLDER / f"{self.name}.toml"

    @property
    def _first_variable(self) -> str:
        """An example of a variable."""
        first = entries(self.table)[0]
        return f"{self.prefix}{first.key.upper()} for {flag_of(first)}"

    @property
    def _file_only(self) -> str:
        """The settings without a flag, for the help."""
        keys = ", ".join(one.key for one in entries(self.table) if only_in_file(one))
        return f"\nOnly the file can have: {keys}." if keys else ""

    def parser(self) -> argparse.ArgumentParser:
        made = argparse.ArgumentParser(
            prog=f"sluice {self.name}",
            description=f"{self.what}\n\nA setting comes from, in rising priority: its default, the file "
            f"{self.file},\nan environment variable ({self._first_variable}), a flag.{self._file_only}",
            epilog=f"examples:\n{self.examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        made.add_argument("--version", action="version", version=f"Sluice {VERSION}")
        made.add_argument(
            "--config", type=Path, metavar="FILE", help=f"read this file instead of {self.file}"
        )
        made.add_argument(
            "--check",
            action="store_true",
            help="check all settings, show where each comes from, and start nothing; exit code 0 or 2",
        )
        add_flags(made.add_argument_group("settings"), self.table)
        return made

    def main(self, argv: Sequence[str]) -> int:
        """Run the command line. The exit code is 2 if a setting is wrong."""
        options = self.parser().parse_args(argv)
        try:
            settings, sources = self.load(options.config, vars(options), os.environ)
            if options.check:
                self._check(settings, sources)
                return 0
            return self.run(settings)
        except SluiceError as error:
            for line in str(error).splitlines():
                print(f"sluice {self.name}: {line}", file=sys.stderr)
            return 2

    def load(
        self, config: Path | None, flags: Mapping[str, Any], environ: Mapping[str, str]
    ) -> tuple[SettingsT, Mapping[str, str]]:
        """Return the settings, and key → where each that a user gave comes from. Raises SluiceError."""
        document, unknown = (
            ({}, [])
            if config is None and not _exists(self.file)
            else from_file(self.table, config or self.file, self.removed)
        )
        variables, unknown_variables = from_environment(self.table, self.prefix, environ, self.removed)
        wrong: list[object] = [*unknown, *unknown_variables]
        layers = (from_credentials(self.table, environ), document, variables, from_flags(self.table, flags))
        try:
            values, sources = merge(self.table, layers)
        except WrongSettings as error:
            raise WrongSettings([*wrong, error]) from None
        settings = self.table(**values)
        wrong += [_found_at(problem, sources) for problem in self.problems(settings)]
        wrong += self._secrets_in_flags(settings, sources)
        if wrong:
            raise WrongSettings(wrong)
        return settings, sources

    def _secrets_in_flags(self, settings: SettingsT, sources: Mapping[str, str]) -> Iterable[FieldError]:
        """Return an error for each secret that is on the command line."""
        for one in entries(self.table):
            flag, value = flag_of(one), getattr(settings, one.name)
            if sources.get(one.key) == flag and isinstance(one.kind, Outside):
                problem = one.kind.flag_problem(value)
                if problem:
                    yield FieldError(flag, problem)

    def _check(self, settings: SettingsT, sources: Mapping[str, str]) -> None:
        """Look at the machine as well, and print the settings. Raises WrongSettings."""
        wrong = []
        for one in entries(self.table):
            kind = one.kind.item if isinstance(one.kind, ListOf) else one.kind
            value = getattr(settings, one.name)
            if value is not None and isinstance(kind, Outside):
                for each in value if isinstance(one.kind, ListOf) else (value,):
                    problem = kind.problem(each)
                    wrong += [FieldError(sources.get(one.key, one.key), problem)] if problem else []
            if not wrong:
                shown = "not set" if value is None else one.kind.show(value)
                print(f"{one.key} = {shown}  ({sources.get(one.key, 'default')})")
        if wrong:
            raise WrongSettings(wrong)
        print(f"sluice {self.name}: the settings are in order")


def _exists(path: Path) -> bool:
    """Whether a file is there. One that this user may not see counts as there, and reading it says why."""
    try:
        return path.exists()
    except PermissionError:
        return True


def _found_at(problem: FieldError, sources: Mapping[str, str]) -> FieldError:
    """The error with its key as the user wrote it."""
    key = re.split(r"[\[.]", problem.field, maxsplit=1)[0]
    within = problem.field.removeprefix(key)
    return FieldError(f"{sources.get(key, key)}{within}", problem.problem)
