# SPDX-License-Identifier: Apache-2.0
"""A service of Sluice: one table of settings gives its flags, file, variables, checks and help.

    SERVICE = Service("web", "API and dashboard", WebSettings, run, examples="sluice web --listen 127.0.0.1:8080")
    sys.exit(SERVICE.main(sys.argv[1:]))

To add a setting, add an entry to the table. The reference page and the example file come from it (`make gen`).

A service reads its settings from layers. Rising priority: built-in default, systemd credential, configuration file,
files of the folder beside it by name, environment, flags. Every value is checked, also one that a higher layer
replaces, because a wrong value would surprise on the day when the higher layer is gone.
"""

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from sluice.policy.errors import FieldError, SluiceError, unknown_key
from sluice.policy.schema.entries import REQUIRED, Entry, entries
from sluice.policy.schema.kinds import Choice, Flag, Kind, ListOf, Number, Whole
from sluice.policy.version import VERSION
from sluice.runtime.settings.kinds import CountOrForEver, Outside, SecretFile
from sluice.runtime.toml import NotToml, read_toml

CREDENTIALS_VARIABLE: Final = "CREDENTIALS_DIRECTORY"
"""systemd sets it to the folder of the service's credentials."""
_FLAG_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class WrongSettings(SluiceError):
    """Some settings are wrong. The message has one line for each."""

    def __init__(self, problems: Iterable[object]) -> None:
        super().__init__("\n".join(map(str, problems)))


@dataclass(frozen=True)
class Given:
    """A value that a user gave, not checked yet."""

    where: str
    """The file and the key, the variable, or the flag, as the user wrote it."""
    value: object
    is_text: bool = False
    """The value is text from the environment or the command line, where a number is text as well."""


Layer = Mapping[str, Given]
"""Key → what a user gave for it."""


def flag_of(entry: Entry) -> str:
    """Return the flag of an entry: "--run-dir" for the key run_dir."""
    return "--" + entry.key.replace("_", "-")


def from_credentials(table: type, environ: Mapping[str, str]) -> Layer:
    """Return the secrets that systemd passes to the service."""
    folder = environ.get(CREDENTIALS_VARIABLE)
    layer = {}
    for entry in entries(table) if folder else ():
        if isinstance(entry.kind, SecretFile):
            name = entry.kind.credential
            path = Path(folder or "") / name
            if path.is_file():
                layer[entry.key] = Given(f"the systemd credential {name}", str(path))
    return layer


def from_file(
    table: type, path: Path, removed: Mapping[str, str] = MappingProxyType({})
) -> tuple[Layer, list[FieldError]]:
    """Return what a configuration file gives, and what is wrong with its keys. Raises SluiceError.

    `removed`: key of an earlier version → what replaces it.
    """
    try:
        document = read_toml(path)
    except OSError as error:
        remedy = "create it, change its mode, or name another file with --config"
        raise SluiceError(
            f"{path}: cannot read the configuration file: {error.strerror}; {remedy}"
        ) from error
    except NotToml as error:
        raise SluiceError(
            f'{path}: is no TOML: {error}. A setting is one line, for example: key = "value"'
        ) from error
    known = [entry.key for entry in entries(table)]
    wrong = [_unknown(f"{path}: {key}", key, known, removed.get(key)) for key in document if key not in known]
    return {key: Given(f"{path}: {key}", document[key]) for key in known if key in document}, wrong


def _unknown(where: str, key: str, known: Sequence[str], instead: str | None) -> FieldError:
    """The error for a key that is not there. `instead`: what replaces it, if an earlier version had it."""
    if instead is not None:
        return FieldError(where, f"is no setting any more: {instead}")
    return unknown_key(where, key, known)


def from_environment(
    table: type, prefix: str, environ: Mapping[str, str], removed: Mapping[str, str] = MappingProxyType({})
) -> tuple[Layer, list[FieldError]]:
    """Return what the variables with a prefix give, and which of them are unknown or removed."""
    variables = {prefix + entry.key.upper(): entry.key for entry in entries(table)}
    given = {name: value for name, value in environ.items() if name.startswith(prefix)}
    wrong = [
        _unknown(name, name, list(variables), removed.get(name.removeprefix(prefix).lower()))
        for name in given
        if name not in variables
    ]
    known = {variables[name]: Given(name, given[name], is_text=True) for name in given if name in variables}
    return known, wrong


def from_flags(table: type, values: Mapping[str, Any]) -> Layer:
    """Return what parsed flags give. `values`: attribute → text, list of texts or truth; None if it was not given."""
    return {
        entry.key: Given(flag_of(entry), values[entry.name], is_text=True)
        for entry in entries(table)
        if values.get(entry.name) is not None
    }


def merge(table: type, layers: Iterable[Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return attribute → value, and key → where it came from. The last layer wins.

    Raises WrongSettings with every value that is wrong, and with every setting that is missing.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    wrong: list[FieldError] = []
    for entry in entries(table):
        values[entry.name] = None if entry.default is REQUIRED else entry.default
        for given in (layer[entry.key] for layer in layers if entry.key in layer):
            sources[entry.key] = given.where
            value = typed(entry.kind, given.value) if given.is_text else given.value
            try:
                values[entry.name] = entry.kind.read(given.where, value)
            except FieldError as error:
                wrong.append(error)
        if entry.is_required and entry.key not in sources:
            wrong.append(FieldError(entry.key, f"is missing; give {flag_of(entry)}: {entry.help}"))
    if wrong:
        raise WrongSettings(wrong)
    return values, sources


def typed(kind: Kind, value: object) -> object:
    """Return a text as the type that its kind reads. A text that does not fit stays a text, which the kind refuses."""
    if isinstance(kind, ListOf):
        items = value.split(",") if isinstance(value, str) else value
        return [typed(kind.item, item.strip()) for item in items or ()]  # type: ignore[attr-defined]
    if not isinstance(value, str):
        return value
    if isinstance(kind, Flag):
        return _FLAG_WORDS.get(value.lower(), value)
    if isinstance(kind, Whole | CountOrForEver):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else value
    if isinstance(kind, Number):
        with suppress(ValueError):
            return float(value)
    return value


def add_flags(parser: argparse._ActionsContainer, table: type) -> None:
    """Add a flag for each entry. Their values are texts, and None if the user gave none."""
    for entry in entries(table):
        how: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        if not isinstance(entry.kind, Flag):
            action = "append" if isinstance(entry.kind, ListOf) else "store"
            how = {"action": action, "metavar": metavar(entry.kind)}
        parser.add_argument(flag_of(entry), dest=entry.name, help=help_of(entry), **how)


def add_checked_flags(parser: argparse._ActionsContainer, table: type, keys: Collection[str]) -> None:
    """Add the flags of some entries to a command that has no configuration file. Their values are checked at once."""
    for entry in entries(table):
        if entry.key in keys:
            parser.add_argument(
                flag_of(entry),
                dest=entry.name,
                type=checked(entry.kind),
                default=entry.default,
                metavar=metavar(entry.kind),
                help=help_of(entry),
            )


def checked(kind: Kind) -> Callable[[str], Any]:
    """Return a type of argparse's that reads a value of this kind."""

    def read(text: str) -> Any:
        try:
            return kind.read("", typed(kind, text))
        except FieldError as error:
            raise argparse.ArgumentTypeError(error.problem) from None

    return read


def help_of(entry: Entry) -> str:
    """Return the help with the default."""
    text = entry.help.rstrip(".").replace("%", "%%")
    shown = entry.shown_default.strip('"')
    if entry.default in (None, (), False) or entry.is_required or not shown:
        return text + (" (required)" if entry.is_required else "")
    return f"{text} (default {shown})".replace("%", "%%")


def metavar(kind: Kind) -> str:
    """Return the placeholder of a value in the help."""
    if isinstance(kind, ListOf):
        return metavar(kind.item)
    if isinstance(kind, Choice):
        return "{" + ",".join(kind.options) + "}"
    return str(getattr(kind, "metavar", kind.name.upper()))


FOLDER = Path("/etc/sluice")
"""Configuration files are here unless --config names another."""
SettingsT = TypeVar("SettingsT")


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
    problems: Callable[[SettingsT], Iterable[FieldError]] = lambda settings: ()
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

    def parser(self) -> argparse.ArgumentParser:
        first = entries(self.table)[0]
        variable = f"{self.prefix}{first.key.upper()} for {flag_of(first)}"
        parser = argparse.ArgumentParser(
            prog=f"sluice {self.name}",
            description=f"{self.what}\n\nA setting comes from, in rising priority: its default, the file "
            f"{self.file},\nthe files in {self.file}.d, an environment variable ({variable}), a flag.",
            epilog=f"examples:\n{self.examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        parser.add_argument("--version", action="version", version=f"Sluice {VERSION}")
        parser.add_argument(
            "--config", type=Path, metavar="FILE", help=f"read this file instead of {self.file}"
        )
        parser.add_argument(
            "--check",
            action="store_true",
            help="check all settings, show where each comes from, and start nothing; exit code 0 or 2",
        )
        add_flags(parser.add_argument_group("settings"), self.table)
        return parser

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
        first = [config or self.file] if config is not None or _exists(self.file) else []
        files = [
            from_file(self.table, file, self.removed) for file in (*first, *additions(config or self.file))
        ]
        variables, unknown_variables = from_environment(self.table, self.prefix, environ, self.removed)
        wrong: list[object] = [*(problem for _, unknown in files for problem in unknown), *unknown_variables]
        layers = (
            from_credentials(self.table, environ),
            *(document for document, _ in files),
            variables,
            from_flags(self.table, flags),
        )
        try:
            values, sources = merge(self.table, layers)
        except WrongSettings as error:
            raise WrongSettings([*wrong, error]) from None
        settings = self.table(**values)
        for problem in self.problems(settings):
            key = re.split(r"[\[.]", problem.field, maxsplit=1)[0]
            where = f"{sources.get(key, key)}{problem.field.removeprefix(key)}"  # as the user wrote it
            wrong.append(FieldError(where, problem.problem))
        wrong += self._secrets_in_flags(settings, sources)
        if wrong:
            raise WrongSettings(wrong)
        return settings, sources

    def _secrets_in_flags(self, settings: SettingsT, sources: Mapping[str, str]) -> Iterable[FieldError]:
        """Return an error for each secret that is on the command line."""
        for entry in entries(self.table):
            flag, value = flag_of(entry), getattr(settings, entry.name)
            if sources.get(entry.key) == flag and isinstance(entry.kind, Outside):
                problem = entry.kind.flag_problem(value)
                if problem:
                    yield FieldError(flag, problem)

    def _check(self, settings: SettingsT, sources: Mapping[str, str]) -> None:
        """Look at the machine as well, and print the settings. Raises WrongSettings."""
        wrong = []
        for entry in entries(self.table):
            kind = entry.kind.item if isinstance(entry.kind, ListOf) else entry.kind
            value = getattr(settings, entry.name)
            if value is not None and isinstance(kind, Outside):
                for each in value if isinstance(entry.kind, ListOf) else (value,):
                    problem = kind.problem(each)
                    wrong += [FieldError(sources.get(entry.key, entry.key), problem)] if problem else []
            if not wrong:
                shown = "not set" if value is None else entry.kind.show(value)
                print(f"{entry.key} = {shown}  ({sources.get(entry.key, 'default')})")
        if wrong:
            raise WrongSettings(wrong)
        print(f"sluice {self.name}: the settings are in order")


def additions(file: Path) -> list[Path]:
    """Return the files of the folder beside a configuration file, as web.toml.d, by name. Raises SluiceError.

    A package changes its configuration file with a version, and never what is in this folder.
    """
    folder = file.with_name(f"{file.name}.d")
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SluiceError(
            f"{folder}: cannot read the folder: {error.strerror}; change its mode, or remove it"
        ) from error


def _exists(path: Path) -> bool:
    """Whether a file is there. One that this user may not see counts as there, and reading it says why."""
    try:
        return path.exists()
    except PermissionError:
        return True


_WIDTH = 98
_LICENCE = "# SPDX-" + "License-Identifier: Apache-2.0\n"
"""In two parts, because tools look for the whole text."""


def example(service: Service[object]) -> str:
    """Return the text of a file in which every setting is commented out, except those that have no default."""
    head = (
        f"Settings of `sluice {service.name}`. A line without # changes a default. Better write yours into a file in "
        f"{service.file}.d, because a new version may change this one. Such files, environment variables "
        f"({service.prefix}…) and flags come before this file. `sluice {service.name} --check` checks the file."
    )
    parts = [_LICENCE + _comment(head)]
    for entry in entries(service.table):
        line = f"# {entry.key} = {entry.shown_default}\n"
        if entry.default in (None, ()) or entry.is_required:
            line = f"## {entry.key} must be {entry.kind.allowed}.\n# {entry.key} =\n"
        parts.append(_comment(entry.help) + line)
    return "\n".join(parts)


def _comment(text: str) -> str:
    """Comment lines with two signs, so that an editor can tell them from settings."""
    return (
        textwrap.fill(text, _WIDTH, initial_indent="## ", subsequent_indent="## ", break_on_hyphens=False)
        + "\n"
    )
