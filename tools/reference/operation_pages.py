# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference for operators and programmers: commands, settings, metrics, socket options.

The examples of configuration files in packaging/etc come from the same tables as the page of the settings.
"""

import argparse
import os
import re
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

from prometheus_client.metrics_core import Metric as Family

from sluice import cli
from sluice.cli import COMMANDS, SERVICES, service
from sluice.policy.schema.entries import entries
from sluice.runtime.settings import Service
from sluice.runtime.settings.kinds import SecretFile
from sluice.runtime.settings.service import example, flag_of, metavar
from sluice.store.engine import open_store
from sluice.store.totals import METRICS
from sluice.webui.metrics import StoreCollector
from tools.reference import markdown
from tools.reference.markdown import code, fence, joined, page, sentence, table

WIDTH = "100"
"""Usage lines break there on every terminal."""

_NEEDS_ROOT = {
    "run": "on the testbed",
    "sweep": "on the testbed",
    "demo": "on the testbed",
    "exec": "yes",
    "shell": "yes",
    "capture": "yes",
    "doctor": "for all checks",
}


def commands_page() -> str:
    """Return docs/reference/commands.md: every command and its options, from the parsers."""
    rows = [
        (f"[`sluice {name}`](#sluice-{name})", what, _NEEDS_ROOT.get(name, "no"))
        for name, what in COMMANDS.items()
    ]
    with patch.dict(os.environ, COLUMNS=WIDTH):
        return page(
            "commands",
            commands=table(("command", "what it does", "root"), rows),
            sections=joined(part for name in COMMANDS for part in _command_section(name)),
        )


def _command_section(name: str) -> Iterator[str]:
    parser, _ = cli.command(name)
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


def settings_page() -> str:
    """Return docs/reference/settings.md: the settings of every service, from their tables."""
    parts = (part for name in SERVICES for part in _service_section(service(name)))
    return page("settings", services=joined(parts))


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


def metrics_page() -> str:
    """Return docs/reference/metrics.md: what /metrics of the web process has."""
    totals = [metric.name for metric in METRICS]
    headings = ("metric", "kind", "labels", "meaning")
    counted = [
        (
            code(metric.name + ("" if metric.buckets else "_total")),
            "histogram" if metric.buckets else "counter",
            ", ".join(map(code, metric.labels)),
            sentence(metric.help),
        )
        for metric in METRICS
    ]
    state = [
        (
            code(family.name + ("_total" if family.type == "counter" else "")),
            family.type,
            ", ".join(map(code, getattr(family, "_labelnames", ()))),  # unset without labels
            sentence(family.documentation),
        )
        for family in families()
        if family.name not in totals
    ]
    return page("metrics", totals=table(headings, counted), state=table(headings, state))


def families() -> Iterator[Family]:
    """What a web process with an empty store answers."""
    with tempfile.TemporaryDirectory(prefix="sluice-reference-") as folder:
        engine = open_store(f"sqlite:///{folder}/store.db")
        yield from StoreCollector(engine).collect()
        engine.dispose()


ROOT = Path(__file__).parents[2]
HEADER = ROOT / "dataplane" / "include" / "sluice.h"


def socket_options_page() -> str:
    """Return docs/reference/socket-options.md: the header that programs include."""
    return page("socket-options", header=fence(HEADER.read_text(), "c"))
