# SPDX-License-Identifier: Apache-2.0
"""`sluice agents`: every agent, its certificate and its last heartbeat."""

import argparse
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from sluice.commands.arguments import command_parser
from sluice.policy.schema.entries import read
from sluice.policy.wire.agents import ForeignDscp
from sluice.remote import Remote, add_remote
from sluice.terminal import console

COLUMNS = ("agent", "kind", "state", "certificate", "ends", "last heartbeat", "version")
_WIDTH_IN_SCRIPTS = 160
_DAY_S = 86_400.0


def parser() -> argparse.ArgumentParser:
    parser = command_parser("agents")
    add_remote(parser, changes=False)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    remote = Remote.of(arguments)
    health = remote.get("health")
    listed = remote.get("certificates")["certificates"]
    target = console if console.is_terminal else Console(width=_WIDTH_IN_SCRIPTS)
    table = Table(*COLUMNS)
    for row in rows(health["agents"], listed, time.time()):
        table.add_row(*row)
    target.print(table)
    for line in foreign_uses(health["agents"]):
        target.print(line)
    return 0


def foreign_uses(agents: list[Mapping[str, Any]]) -> list[str]:
    """Return a line for each DSCP that others use on a host."""
    return [
        f"{agent['name']}: {read(ForeignDscp, use)}: not a tag of Sluice"
        for agent in agents
        for use in agent["status"].get("foreign_dscps", ())
    ]


def rows(
    agents: list[Mapping[str, Any]], certificates: list[Mapping[str, Any]], now: float
) -> list[tuple[str, ...]]:
    """Return a row for each name that sent a heartbeat or has a certificate, by name."""
    reporting = {agent["name"]: agent for agent in agents}
    certified = {certificate["name"]: certificate for certificate in certificates}
    table: list[tuple[str, ...]] = []
    for name in sorted({*reporting, *certified}):
        agent, certificate = reporting.get(name), certified.get(name)
        kind = (agent or certificate or {})["kind"]
        state = "no heartbeat yet" if agent is None else "up" if agent["alive"] else "away"
        heartbeat = "-" if agent is None else f"{agent['age_s']:.0f} s ago"
        version = "-" if agent is None else agent["status"]["version"] or "-"
        certificate_state, ends = "none (this machine)", "-"
        if certificate is not None:
            certificate_state = certificate["state"]
            ends = f"in {(certificate['ends_at'] - now) / _DAY_S:.1f} days"
        table.append((name, kind, state, certificate_state, ends, heartbeat, version))
    return table
