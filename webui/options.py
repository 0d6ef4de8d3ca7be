# SPDX-License-Identifier: Apache-2.0
"""Command-line options that the web process shares with the commands that start one."""

from __future__ import annotations

import argparse

from sluice.runtime.settings.flags import add_checked_flags
from sluice.runtime.settings.kinds import FOR_EVER
from sluice.store.retention import Retention
from sluice.webui import service
from sluice.webui.service import WebOptions

_KEYS = ("keep_flows", "keep_samples", "keep_events", "keep_agents", "most_flows")


def add_retention(parser: argparse.ArgumentParser) -> None:
    """Add the options for what the store keeps; `retention` reads them."""
    group = parser.add_argument_group(
        "what the store keeps", f'a time is 90s, 10min, 12h, 7d or similar, or "{FOR_EVER}"'
    )
    add_checked_flags(group, WebOptions, _KEYS)


def retention(arguments: argparse.Namespace) -> Retention:
    """Return what the options of `add_retention` say."""
    return service.retention(WebOptions(**{key: getattr(arguments, key) for key in _KEYS}))


def retention_argv(kept: Retention) -> list[str]:
    """Return the options that pass these settings to another process."""
    times = {
        "--keep-flows": kept.flows_s,
        "--keep-samples": kept.samples_s,
        "--keep-events": kept.events_s,
        "--keep-agents": kept.agents_s,
    }
    argv = []
    for name, keep_s in times.items():
        argv += [name, FOR_EVER if keep_s is None else f"{keep_s:.3f}s"]
    return [*argv, "--most-flows", FOR_EVER if kept.most_flows is None else str(kept.most_flows)]
