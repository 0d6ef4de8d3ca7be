# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference for operators and programmers: commands, settings, metrics, socket options.

The examples of configuration files in packaging/etc come from the same tables as the page of the settings.
"""

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
from sluice.policy.schema.entries import entries
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
    lines = [
        f"| [`sluice {name}`](#sluice-{name}) | {what} | {_NEEDS_ROOT.get(name, 'no')} |"
        for name, what in COMMANDS.items()
    ]
    with _width():
        return page(
            "Commands",
            "For everyone who works in a terminal.",
            _COMMANDS.format(commands="\n".join(lines)),
            *(part for name in COMMANDS for part in _command_section(name)),
            "## `make`",
            _MAKE,
            "## Services",
            _SERVICES,
        )


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


def _command_section(name: str) -> Iterator[str]:
    parser: argparse.ArgumentParser = importlib.import_module(f"sluice.commands.{name}").parser()
    parser.prog = f"sluice {name}"
    yield f"## `sluice {name}`"
    yield sentence(COMMANDS[name])
    yield fence(parser.format_usage())
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    rows = [(code(_spelling(action)), sentence(_help(action)), _default(action)) for action in actions]
    yield table(("option", "meaning", "default"), rows)
    if parser.epilog:
        yield fence(parser.epilog)


def _spelling(action: argparse.Action) -> str:
    """As on the command line: an option with its value, or the name of an argument."""
    if not action.option_strings:
        return str(action.metavar or action.dest)
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = "" if action.nargs == 0 else f" {action.metavar or choices or action.dest.upper()}"
    more = " …" if action.nargs == "+" else ""
    return f"{action.option_strings[-1]}{value}{more}"


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
4. the files whose names end with `.toml` in the folder beside it, `/etc/sluice/NAME.toml.d`, by name,
5. an environment variable,
6. a flag.

A package changes `NAME.toml` with a version, and never what is in that folder, so keep your settings there.

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


def _service_section(service: Service[object]) -> Iterator[str]:
    yield f"## `sluice {service.name}`"
    yield sentence(service.what.replace("\n", " "))
    key = entries(service.table)[0].key
    yield f"Its file is `{service.file}`. Its variable for the key `{key}` is `{service.prefix}{key.upper()}`."
    rows = []
    for entry in entries(service.table):
        flag = flag_of(entry) + ("" if entry.kind.name == "boolean" else f" {metavar(entry.kind)}")
        allowed = markdown.allowed(entry.kind)
        if any(sign in allowed for sign in ("://", "*", "[", " _ ")):
            allowed = code(allowed)  # Markdown would read an address or a pattern as its own signs
        help = sentence(entry.help)
        if isinstance(entry.kind, SecretFile):
            help += f" systemd credential: `{entry.kind.credential}`."
        rows.append((code(entry.key), code(flag), allowed, markdown.default(entry), help))
    yield table(("key", "flag", "allowed", "default", "meaning"), rows)
    yield fence(service.examples)


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
                    code(family.name + ("_total" if family.type == "counter" else "")),
                    family.type,
                    ", ".join(map(code, getattr(family, "_labelnames", ()))),  # unset without labels
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
