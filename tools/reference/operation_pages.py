# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference for operators and programmers: commands, settings, metrics, socket options.

The examples of configuration files in packaging/etc come from the same tables as the page of the settings.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from prometheus_client.metrics_core import Metric as Family

from sluice.cli import COMMANDS, SERVICES, service
from sluice.policy.schema.entries import Entry, entries
from sluice.policy.schema.kinds import Kind
from sluice.runtime.settings import Service
from sluice.runtime.settings.kinds import SecretFile
from sluice.runtime.settings.service import example, flag_of, metavar
from sluice.store.engine import open_store
from sluice.store.totals import METRICS
from sluice.webui.metrics import StoreCollector
from tools.reference import markdown
from tools.reference.markdown import code, fence, page, sentence, table

WIDTH = "100"

_COMMANDS = """\
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


def commands_page() -> str:
    """Return docs/reference/commands.md: every command and its options, from the parsers."""
    with _width():
        return page(
            "Commands",
            "For everyone who works in a terminal.",
            _COMMANDS.format(commands="\n".join(map(_line, COMMANDS))),
            *(
                part
                for name in COMMANDS
                for part in _command_section(f"sluice {name}", _parser(name), COMMANDS[name])
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


def _command_section(name: str, parser: argparse.ArgumentParser, what: str) -> list[str]:
    parser.prog = name
    found = [f"## `{name}`", sentence(what)]
    found += [
        fence(parser.format_usage()),
        table(("option", "meaning", "default"), map(_option_row, _actions(parser))),
    ]
    return [*found, fence(parser.epilog)] if parser.epilog else found


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]


def _option_row(action: argparse.Action) -> tuple[str, str, str]:
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


_SETTINGS = """\
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


def settings_page() -> str:
    """Return docs/reference/settings.md: the settings of every service, from their tables."""
    parts = (part for name in SERVICES for part in _service_section(service(name)))
    return page(
        "Settings of the services",
        "For operators who write a file in `/etc/sluice` or start a service by hand.",
        _SETTINGS,
        "## Secrets",
        _SECRETS,
        *parts,
    )


def examples() -> dict[str, partial[str]]:
    """Path → the commented example of a service's configuration file."""
    return {f"packaging/etc/{name}.toml": partial(example, service(name)) for name in SERVICES}


def _service_section(one: Service[object]) -> Iterator[str]:
    yield f"## `sluice {one.name}`"
    yield sentence(one.what.replace("\n", " "))
    key = entries(one.table)[0].key
    yield f"Its file is `{one.file}`. Its variable for the key `{key}` is `{one.prefix}{key.upper()}`."
    headings = ("key", "flag", "allowed", "default", "meaning")
    yield table(headings, [_setting_row(each) for each in entries(one.table)])
    yield fence(one.examples)


def _setting_row(one: Entry) -> tuple[str, ...]:
    value = "" if one.kind.name == "boolean" else f" {metavar(one.kind)}"
    help = sentence(one.help)
    if isinstance(one.kind, SecretFile):
        help += f" systemd credential: `{one.kind.credential}`."
    return (
        code(one.key),
        code(flag_of(one) + value),
        _allowed(one.kind),
        markdown.default(one),
        help,
    )


def _allowed(kind: Kind) -> str:
    """What is allowed; a code span where Markdown would read an address or a pattern as its own signs."""
    text = markdown.allowed(kind)
    return code(text) if any(sign in text for sign in ("://", "*", "[", " _ ")) else text


_METRICS = """\
The web process answers Prometheus at `/metrics`. It reads the store at every request, so all web workers give the same
answer. The controller and the agents need no port of their own. [How to watch a network](../how-to/watch.md) sets up
Prometheus and Grafana."""

_TOTALS = """\
A total only grows. It survives every restart, a standby controller that takes over, and the removal of old rows. A
counter's name has the ending `_total`; a histogram has `_bucket`, `_sum` and `_count`."""


def metrics_page() -> str:
    """Return docs/reference/metrics.md: what /metrics of the web process has."""
    totals = [metric.name for metric in METRICS]
    return page(
        "Metrics",
        "For operators who build dashboards and alerts.",
        _METRICS,
        "## Totals",
        _TOTALS,
        table(
            ("metric", "kind", "labels", "meaning"),
            [
                (
                    code(metric.name + ("" if metric.buckets else "_total")),
                    "histogram" if metric.buckets else "counter",
                    ", ".join(map(code, metric.labels)),
                    sentence(metric.help),
                )
                for metric in METRICS
            ],
        ),
        "## State",
        table(
            ("metric", "kind", "labels", "meaning"),
            [
                (
                    _name(family),
                    family.type,
                    ", ".join(map(code, _labels(family))),
                    sentence(family.documentation),
                )
                for family in families()
                if family.name not in totals
            ],
        ),
    )


def families() -> Iterator[Family]:
    """What a web process with an empty store answers."""
    with tempfile.TemporaryDirectory(prefix="sluice-reference-") as folder:
        engine = open_store(f"sqlite:///{folder}/store.db")
        yield from StoreCollector(engine).collect()
        engine.dispose()


def _name(family: Family) -> str:
    return code(family.name + ("_total" if family.type == "counter" else ""))


def _labels(family: Family) -> tuple[str, ...]:
    """A family without labels has none of this attribute's names."""
    return tuple(getattr(family, "_labelnames", ()))


ROOT = Path(__file__).parents[2]
HEADER = ROOT / "dataplane" / "include" / "sluice.h"

_SOCKET_OPTIONS = """\
A program declares a flow by one `setsockopt()` and asks for its state by one `getsockopt()`. The header has every
number, layout and error. Numbers and layouts do not change; a new feature gets a new option. A tutorial is
[deadlines for your program](../tutorials/deadlines.md).

`hostagent/examples/README.md` has the same layouts as tables of offsets, and programs in C, Go
and Python."""


def socket_options_page() -> str:
    """Return docs/reference/socket-options.md: the header that programs include."""
    return page(
        "Socket options",
        "For programmers who declare flows to the kernel.",
        _SOCKET_OPTIONS,
        "## `dataplane/include/sluice.h`",
        fence(HEADER.read_text(), "c"),
    )
