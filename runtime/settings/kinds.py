# SPDX-License-Identifier: Apache-2.0
"""Kinds of settings that name something outside the program: addresses, files, stores, ages.

`problem` of these kinds looks at the machine. `--check` calls it: does the file exist, may this user read it?

Secrets do not stay in texts, because every user of the machine reads a command line, and logs keep messages.
"""

import ipaddress
import math
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from sluice.policy.schema.entries import INTERFACE
from sluice.policy.schema.kinds import Kind, Schema
from sluice.runtime.toml import can_name_a_file

_USERINFO = re.compile(r"(://[^:/@?]*):[^/]*@")
_QUERY = re.compile(r"([?&](?:ssl)?password=)[^&]*", re.IGNORECASE)

PASSWORD_REMEDY = (
    "a command line shows its password to every user of the machine: leave it out of the URL, and put it into the file"
    " of store_password_file or into ~/.pgpass"
)


def has_password(url: str) -> bool:
    """Return whether a URL holds a password, before the host or in its query."""
    return without_password(url) != url


def without_password(url: str) -> str:
    """Return the URL with *** in place of its password."""
    return _QUERY.sub(r"\1***", _USERINFO.sub(r"\1:***@", url))


FOR_EVER = "forever"
_MAX_PORT = 65_535


@dataclass(frozen=True)
class Outside(Kind):
    """A text that names something outside the program."""

    metavar: ClassVar[str]

    def problem(self, value: Any) -> str | None:
        """What `--check` finds wrong on this machine, with the remedy; None if nothing."""
        return None

    def flag_problem(self, value: Any) -> str | None:
        """Why the value must not be on a command line, with the remedy; None if it may."""
        return None

    def schema(self) -> Schema:
        return {"type": "string"}


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of "HOST:PORT" or "[IPv6]:PORT". Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or int(port) > _MAX_PORT:
        raise ValueError("no port")
    if host.startswith("[") and host.endswith("]"):
        return str(ipaddress.IPv6Address(host[1:-1])), int(port)
    if re.fullmatch("[0-9.]+", host):
        return str(ipaddress.IPv4Address(host)), int(port)
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
        raise ValueError("no host")
    return host, int(port)


PLAINTEXT = (
    "{address} is reachable from other machines, and this address has no TLS: listen on 127.0.0.1 behind a proxy with"
    " TLS (SSH forwarding is one), or say --plaintext-beyond-loopback. Agents of other machines use TLS at --agents"
)
"""The problem with an address beyond the loopback."""


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches HOST:PORT. A name other than localhost may be any machine's."""
    host = split_address(address)[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True)
class Address(Outside):
    """An address to listen on."""

    name: ClassVar[str] = "address"
    metavar: ClassVar[str] = "ADDRESS"
    unix: bool = False
    """A Unix socket is allowed as well."""

    def read(self, where: str, value: object) -> str:
        if not isinstance(value, str):
            raise self.refuse(where, value)
        if self.unix and value.startswith("unix:") and len(value) > len("unix:"):
            return value
        try:
            split_address(value)
        except ValueError:
            raise self.refuse(where, value) from None
        return value

    @property
    def allowed(self) -> str:
        return "HOST:PORT or unix:PATH" if self.unix else "HOST:PORT"


@dataclass(frozen=True)
class HostName(Outside):
    """The name or the address of a machine, without a port."""

    name: ClassVar[str] = "host"
    metavar: ClassVar[str] = "HOST"

    def read(self, where: str, value: object) -> str:
        try:
            return split_address(f"{value}:0")[0]
        except ValueError:
            raise self.refuse(where, value) from None

    @property
    def allowed(self) -> str:
        return 'the name or address of a machine, such as "sluice.example", 192.0.2.1 or [2001:db8::1]'


@dataclass(frozen=True)
class Prefix(Kind):
    """A part of the address space, as text: "10.9.0.0/16"."""

    name: ClassVar[str] = "prefix"

    def read(self, where: str, value: object) -> str:
        try:
            if isinstance(value, str) and "/" in value:
                return str(ipaddress.ip_network(value))
        except ValueError:
            pass
        raise self.refuse(where, value)

    @property
    def allowed(self) -> str:
        return "a prefix such as 10.9.0.0/16 or 2001:db8::/32, with no bit set behind it"

    def schema(self) -> Schema:
        return {"type": "string"}


@dataclass(frozen=True)
class WebAddress(Outside):
    """Where an agent reaches the web process."""

    name: ClassVar[str] = "address"
    metavar: ClassVar[str] = "URL"

    def read(self, where: str, value: object) -> str:
        if not isinstance(value, str) or not self._is_web_address(value):
            raise self.refuse(where, value)
        return value

    @staticmethod
    def _is_web_address(text: str) -> bool:
        if text.startswith("unix:/"):
            return True
        try:
            url = urlsplit(text)
            return (
                url.scheme in ("http", "https")
                and bool(url.hostname)
                and url.port != 0
                and url.path in ("", "/")
            )
        except ValueError:  # the port is no number
            return False

    @property
    def allowed(self) -> str:
        return "unix:/PATH, http://HOST:PORT of this machine, or https://HOST:PORT"


@dataclass(frozen=True)
class StoreUrl(Outside):
    """The URL of a store. SQLAlchemy reads it later; this finds what a typing error breaks."""

    name: ClassVar[str] = "store URL"
    metavar: ClassVar[str] = "URL"

    def read(self, where: str, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(
            r"sqlite://(/.*)?|postgresql(\+psycopg)?://[^/]*(/.*)?", value
        ):
            raise self.refuse(where, "***" if isinstance(value, str) and "@" in value else value)
        return value

    def show(self, value: Any) -> str:
        """The URL without its password."""
        return super().show(without_password(value))

    def flag_problem(self, value: Any) -> str | None:
        return PASSWORD_REMEDY if has_password(value) else None

    def problem(self, value: Any) -> str | None:
        if not value.startswith("sqlite:////"):
            return None
        path = Path(value.removeprefix("sqlite:///").partition("?")[0])
        return _cannot_write(path)

    @property
    def allowed(self) -> str:
        return "sqlite:////path/to/store.db or postgresql+psycopg://USER@HOST/DATABASE"


@dataclass(frozen=True)
class EnrolmentToken(Outside):
    """A token with which an agent enrols, or the path of a file with one. Whoever sees the token can use it."""

    name: ClassVar[str] = "token"
    metavar: ClassVar[str] = "TOKEN"

    def read(self, where: str, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"\S{1,4096}", value):
            raise self.refuse(where, "***")
        return value

    def show(self, value: Any) -> str:
        """The path; of a token, nothing."""
        return super().show(value if value.startswith("/") else "***")

    def flag_problem(self, value: Any) -> str | None:
        if value.startswith("/"):
            return None
        return "a command line shows the token to every user of the machine: give the /PATH of a file with it"

    @property
    def allowed(self) -> str:
        return "a token, or /PATH of a file with it"


@dataclass(frozen=True)
class Interface(Outside):
    """One network interface of this machine, which may appear later."""

    name: ClassVar[str] = "text"
    metavar: ClassVar[str] = "TEXT"

    def read(self, where: str, value: object) -> str:
        return INTERFACE.read(where, value)

    def problem(self, value: Any) -> str | None:
        names = [name for _, name in socket.if_nameindex()]
        return None if value in names else f"{value} is none of this machine's; they are {', '.join(names)}"

    @property
    def allowed(self) -> str:
        return INTERFACE.allowed


@dataclass(frozen=True)
class FilePath(Outside):
    """A file or a folder."""

    name: ClassVar[str] = "path"
    metavar: ClassVar[str] = "FILE"

    def read(self, where: str, value: object) -> Path:
        if isinstance(value, Path):
            return value
        if not isinstance(value, str) or not can_name_a_file(value):
            raise self.refuse(where, value)
        return Path(value)

    def show(self, value: Any) -> str:
        return super().show(str(value))

    @property
    def allowed(self) -> str:
        return "the path of a file"


@dataclass(frozen=True)
class FileToRead(FilePath):
    """A file that must exist."""

    def problem(self, value: Any) -> str | None:
        if not value.exists():
            return f"{value} does not exist; create the file or name another one"
        if not value.is_file():
            return f"{value} is no file; name a file"
        if not os.access(value, os.R_OK):
            return f"{value} is not readable for this user; change its owner or its mode"
        return None


@dataclass(frozen=True)
class SecretFile(FileToRead):
    """A file with a secret. systemd can pass it: `LoadCredential=NAME:/etc/…` in the unit."""

    credential: str = ""
    """NAME of the systemd credential that is used if no setting names a file."""


@dataclass(frozen=True)
class FileToWrite(FilePath):
    """A file or a Unix socket that the service makes."""

    dash: bool = False
    """A - is allowed; it means standard error."""

    def problem(self, value: Any) -> str | None:
        if value.is_dir():
            return f"{value} is a folder; name a file"
        return None if self.dash and str(value) == "-" else _cannot_write(value)

    @property
    def allowed(self) -> str:
        return f"{super().allowed}{', or - for standard error' if self.dash else ''}"


@dataclass(frozen=True)
class Folder(FilePath):
    """A folder that the service makes if it is missing."""

    metavar: ClassVar[str] = "DIR"

    def problem(self, value: Any) -> str | None:
        if value.exists() and not value.is_dir():
            return f"{value} is a file; name a folder"
        return _cannot_write(value / "x")

    @property
    def allowed(self) -> str:
        return "the path of a folder"


def _cannot_write(path: Path) -> str | None:
    """Why this user cannot write a file; None if it can. Missing folders are made."""
    if path.exists():
        return None if os.access(path, os.W_OK) else f"{path} is not writable for this user; change its owner"
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        return f"{folder} is no folder; name another path"
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    return f"{folder} is not writable for this user; change its owner or name another path"


@dataclass(frozen=True)
class Age(Kind):
    """How long to keep something. `read` returns seconds; for ever is infinite."""

    name: ClassVar[str] = "age"
    metavar: ClassVar[str] = "TIME"
    _UNITS_S: ClassVar[dict[str, float]] = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "s": 1.0}

    def read(self, where: str, value: object) -> float:
        if value == FOR_EVER:
            return math.inf
        match = isinstance(value, str) and re.fullmatch(
            r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(s|min|h|d)", value.strip()
        )
        if not match:
            raise self.refuse(where, value)
        return float(match[1]) * self._UNITS_S[match[2]]

    @property
    def allowed(self) -> str:
        return f'a time such as 90s, 10min, 12h or 7d, or "{FOR_EVER}"'

    def schema(self) -> Schema:
        return {"type": "string"}

    def show(self, value: Any) -> str:
        if math.isinf(value):
            return f'"{FOR_EVER}"'
        unit, scale = next((u, s) for u, s in self._UNITS_S.items() if value % s == 0 or u == "s")
        return f'"{value / scale:g}{unit}"'


@dataclass(frozen=True)
class CountOrForEver(Kind):
    """A number of things to keep at most; for ever is infinite."""

    name: ClassVar[str] = "integer"
    metavar: ClassVar[str] = "N"

    def read(self, where: str, value: object) -> float:
        if value == FOR_EVER:
            return math.inf
        if type(value) is not int or not 1 <= value < 10**15:
            raise self.refuse(where, value)
        return value

    @property
    def allowed(self) -> str:
        return f'a whole number of at least 1, or "{FOR_EVER}"'

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "integer", "minimum": 1}, {"const": FOR_EVER}]}

    def show(self, value: Any) -> str:
        return f'"{FOR_EVER}"' if math.isinf(value) else str(value)
