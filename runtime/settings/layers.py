# SPDX-License-Identifier: Apache-2.0
"""Reads the layers of a service's settings and merges them.

Rising priority: built-in default, systemd credential, configuration file, environment, flags. Every value is checked,
also one that a higher layer replaces, because a wrong value would surprise on the day when the higher layer is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from sluice.policy.errors import FieldError, SluiceError, unknown_key
from sluice.policy.schema.entries import REQUIRED, Entry, entries
from sluice.policy.schema.kinds import Flag, Kind, ListOf, Number, Whole
from sluice.runtime.settings.kinds import CountOrForEver, SecretFile
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


def flag_of(one: Entry) -> str:
    """Return the flag of an entry: "--run-dir" for the key run_dir."""
    return "--" + one.key.replace("_", "-")


def only_in_file(one: Entry) -> bool:
    """Return whether no flag and no variable can give the setting: tables, and addresses that are secrets."""
    kind = one.kind.item if isinstance(one.kind, ListOf) else one.kind
    return kind.is_table or getattr(kind, "only_in_file", False)


def from_credentials(table: type, environ: Mapping[str, str]) -> Layer:
    """Return the secrets that systemd passes to the service."""
    folder = environ.get(CREDENTIALS_VARIABLE)
    found = {}
    for one in entries(table) if folder else ():
        if isinstance(one.kind, SecretFile) and (path := Path(folder or "") / one.kind.credential).is_file():
            found[one.key] = Given(f"the systemd credential {one.kind.credential}", str(path))
    return found


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
    known = [one.key for one in entries(table)]
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
    variables = {prefix + one.key.upper(): one.key for one in entries(table) if not only_in_file(one)}
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
        one.key: Given(flag_of(one), values[one.name], is_text=True)
        for one in entries(table)
        if values.get(one.name) is not None
    }


def merge(table: type, layers: Iterable[Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return attribute → value, and key → where it came from. The last layer wins.

    Raises WrongSettings with every value that is wrong, and with every setting that is missing.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    wrong: list[FieldError] = []
    for one in entries(table):
        values[one.name] = None if one.default is REQUIRED else one.default
        for given in _given(one, layers):
            sources[one.key] = given.where
            try:
                values[one.name] = _value(one.kind, given)
            except FieldError as error:
                wrong.append(error)
        if one.is_required and one.key not in sources:
            wrong.append(FieldError(one.key, f"is missing; give {flag_of(one)}: {one.help}"))
    if wrong:
        raise WrongSettings(wrong)
    return values, sources


def _given(one: Entry, layers: Iterable[Layer]) -> Iterator[Given]:
    return (layer[one.key] for layer in layers if one.key in layer)


def _value(kind: Kind, given: Given) -> Any:
    return kind.read(given.where, typed(kind, given.value) if given.is_text else given.value)


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
        return _number(value)
    return value


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
