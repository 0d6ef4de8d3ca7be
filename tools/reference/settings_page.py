# SPDX-License-Identifier: Apache-2.0
"""docs/reference/settings.md and packaging/etc: the settings of every service, from their tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sluice.cli import SERVICES, service
from sluice.policy.schema.entries import Entry, entries
from sluice.policy.schema.kinds import Kind
from sluice.runtime.settings import Service
from sluice.runtime.settings.kinds import SecretFile
from sluice.runtime.settings.service import example, flag_of, metavar
from tools.reference import documents
from tools.reference.markdown import code, fence, page, sentence, table

_INTRODUCTION = """\
`sluice controller`, `sluice web`, `sluice agent` and `sluice port-agent` are the services. `sluice demo` and
`sluice run` start them themselves. On your hosts, systemd starts them
([Packages and services](../deploying/packages.md)).

Each setting comes from one of these places. A later one comes before an earlier one:

1. the default,
2. a systemd credential, for files with secrets,
3. the file `/etc/sluice/NAME.toml`, or the file that `--config FILE` names,
4. an environment variable,
5. a flag.

In a variable, a list is separated by commas. A flag for a list is repeatable. A flag for true is `--bpf`, and
`--no-bpf` is the flag for false. `--check` checks all settings and starts nothing. It also looks whether files exist
and can be read. The exit code is 0 or 2. An unknown key or variable is an error, and the message names it."""

_SECRETS = """\
A password or a token is always in a file, never in a setting. systemd can pass the file as a credential, so that only
systemd reads the original. `systemctl edit sluice-web` opens an editor for these lines:

```ini
[Service]
LoadCredential=token:/root/sluice-token
```"""


def text() -> str:
    """The page."""
    parts = (part for name in SERVICES for part in _section(service(name)))
    return page(
        "Settings of the services",
        "For operators who write a file in `/etc/sluice` or start a service by hand.",
        _INTRODUCTION,
        "## Secrets",
        _SECRETS,
        *parts,
    )


def examples() -> dict[str, partial[str]]:
    """Path → the commented example of a service's configuration file."""
    return {f"packaging/etc/{name}.toml": partial(example, service(name)) for name in SERVICES}


def _section(one: Service[object]) -> Iterator[str]:
    yield f"## `sluice {one.name}`"
    yield sentence(one.what.replace("\n", " "))
    key = entries(one.table)[0].key
    yield f"Its file is `{one.file}`. Its variable for the key `{key}` is `{one.prefix}{key.upper()}`."
    headings = ("key", "flag", "allowed", "default", "meaning")
    yield table(headings, [_row(each) for each in entries(one.table)])
    yield fence(one.examples)


def _row(one: Entry) -> tuple[str, ...]:
    value = "" if one.kind.name == "boolean" else f" {metavar(one.kind)}"
    help = sentence(one.help)
    if isinstance(one.kind, SecretFile):
        help += f" systemd credential: `{one.kind.credential}`."
    return (
        code(one.key),
        code(flag_of(one) + value),
        _allowed(one.kind),
        documents.default(one),
        help,
    )


def _allowed(kind: Kind) -> str:
    """What is allowed; a code span where Markdown would read an address or a pattern as its own signs."""
    text = documents.allowed(kind)
    return code(text) if any(sign in text for sign in ("://", "*", "[", " _ ")) else text
