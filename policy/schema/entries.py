# SPDX-License-Identifier: Apache-2.0
"""Documents as tables of entries: frozen dataclasses whose fields hold their key, kind, default and help.

    @dataclass(frozen=True)
    class Transport:
        initial_window: int = entry(Whole(1, 1000, "packets"), "First window of a connection.", default=10)

`read` checks a document and returns the dataclass, and `write` is its inverse. `schema` is the JSON schema of the
documents that `read` accepts. References, API models, store tables and forms are made from `entries`.
Names in documents, rows of the store and addresses of the API have their allowed forms here.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, TypeVar, get_args, get_type_hints

from sluice.policy.errors import FieldError, unknown_key
from sluice.policy.schema.kinds import Kind, Schema, Text

REQUIRED: Final = object()
"""The default of an entry that every document must have."""

Document = TypeVar("Document")


@dataclass(frozen=True)
class Entry:
    """One key of a document."""

    name: str
    """The attribute. It may name a unit that the key omits: the key `rto_min` has the attribute `rto_min_us`."""
    key: str
    """The key as a user writes it."""
    kind: Kind
    help: str
    """One sentence, without the kind, the unit and the default."""
    title: str
    """One to three words, for forms and columns."""
    default: Any
    """In the attribute's unit; REQUIRED if there is none."""
    nullable: bool
    """The document may omit the key or set it to null. Both mean the default, or None if there is no default."""

    @property
    def is_required(self) -> bool:
        """Every document must have the key."""
        return self.default is REQUIRED and not self.nullable

    @property
    def shown_default(self) -> str:
        """The default as a user writes it; empty if there is none."""
        return "" if self.default in (REQUIRED, None) else self.kind.show(self.default)


def entry(
    kind: Kind,
    help: str,
    *,
    key: str | None = None,
    default: Any = REQUIRED,
    nullable: bool = False,
) -> Any:
    """A field of a document's dataclass.

    With a `default`, the document and the constructor may omit the field. With `nullable`, only the document may.
    """
    metadata = {
        "kind": kind,
        "help": help,
        "key": key,
        "default": default,
        "nullable": nullable or default is None,
    }
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def entries(cls: type) -> tuple[Entry, ...]:
    """The entries of a document, in the order of its fields."""
    fields: tuple[Entry, ...] = _entries(cls)
    return fields


@cache
def _entries(cls: Any) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            field.name,
            field.metadata["key"] or field.name,
            field.metadata["kind"],
            field.metadata["help"],
            titled(field.metadata["key"] or field.name),
            field.metadata["default"],
            field.metadata["nullable"],
        )
        for field in dataclasses.fields(cls)
        if "kind" in field.metadata
    )


def titled(key: str) -> str:
    """The title that follows from a key."""
    return key.replace("_", " ").capitalize()


def plain_type(cls: type, name: str) -> type:
    """The Python type of a field, without None: bool, int, float or str. Raises TypeError for any other type."""
    hint = get_type_hints(cls)[name]
    types = [part for part in get_args(hint) or (hint,) if part is not type(None)]
    if len(types) != 1 or types[0] not in (bool, int, float, str):
        raise TypeError(f"{cls.__name__}.{name} is {hint}; a plain field must be bool, int, float or str")
    plain: type = types[0]
    return plain


def read(cls: type[Document], document: object, where: str = "") -> Document:
    """Check a document and return its dataclass. Raises FieldError that names the key as the user wrote it.

    `where`: the path of the document, which comes before the key.
    """
    prefix = f"{where}." if where else ""
    if not isinstance(document, Mapping):
        raise FieldError(where or cls.__name__, "must be a table of keys and values")
    by_key = _by_key(cls)  # type: ignore[arg-type]  # mypy does not know that every class can be hashed
    if not document.keys() <= by_key.keys():
        shown = str(next(key for key in document if key not in by_key))[:64]
        raise unknown_key(f"{prefix}{shown}", shown, [*by_key])
    values = {}
    for field in entries(cls):
        value, place = document.get(field.key), prefix + field.key
        if value is not None:
            values[field.name] = field.kind.read(place, value)
            continue
        if not field.nullable and field.key in document:
            raise FieldError(place, f"must be {field.kind.allowed}, not null")
        if field.is_required:
            raise FieldError(place, f"is missing; it must be {field.kind.allowed}")
        values[field.name] = None if field.default is REQUIRED else field.default
    return cls(**values)


@cache
def _by_key(cls: Any) -> dict[str, Entry]:
    return {field.key: field for field in entries(cls)}


def write(document: object) -> dict[str, Any]:
    """Return the document as JSON-ready values. `read` accepts them if every kind accepts base units."""
    return {field.key: _plain(getattr(document, field.name)) for field in entries(type(document))}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return write(value) if dataclasses.is_dataclass(value) else value


def schema(cls: type) -> Schema:
    """JSON schema of a document."""
    fields = entries(cls)
    return {
        "type": "object",
        "properties": {field.key: entry_schema(field) for field in fields},
        "required": [field.key for field in fields if field.is_required],
        "additionalProperties": False,
    }


def entry_schema(field: Entry) -> Schema:
    """JSON schema of one entry, with its help."""
    value_schema = {"description": field.help, **field.kind.schema()} if field.help else field.kind.schema()
    return {"anyOf": [value_schema, {"type": "null"}]} if field.nullable else value_schema


@dataclass(frozen=True)
class TableOf(Kind):
    """A table with entries of its own, read as its dataclass."""

    name: ClassVar[str] = "table"
    is_table: ClassVar[bool] = True
    cls: type

    def read(self, where: str, value: object) -> Any:
        return read(self.cls, value, where)

    @property
    def allowed(self) -> str:
        return f"a table with {', '.join(_by_key(self.cls))}"

    def schema(self) -> Schema:
        return schema(self.cls)


AGENT = Text(r"[A-Za-z0-9._-]{1,64}", what="1 to 64 letters, digits or . _ -")
"""Names of agents, hosts, switches and congestion controls."""
TOKEN = Text(r"(?!owner$)[A-Za-z0-9._@-]{1,64}", what='1 to 64 letters, digits or . _ @ -, but not "owner"')
"""Names of access tokens. "owner" is the token with which the web process starts."""
SCHEME = Text(r"[A-Za-z0-9._+-]{1,64}", what="1 to 64 letters, digits or . _ + -")
IP_ADDRESS = Text(r"[0-9A-Fa-f.:]{2,45}", what="an IP address")
ENDPOINT = Text(r"[A-Za-z0-9._:-]{1,64}", what="a host's name or its address")
FLOW_ID = Text(r"[A-Za-z0-9._:/-]{1,96}", what="1 to 96 letters, digits or . _ : / -")
PORT = Text(r"[A-Za-z0-9._-]{1,64}:[0-9]{1,9}", what='a port such as "s1:2"')
INTERFACE = Text(r"[^/\s\x00-\x1f\x7f-\x9f]{1,15}", what="a network interface")
