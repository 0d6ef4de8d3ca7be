# SPDX-License-Identifier: Apache-2.0
"""Command-line options that the web process shares with the commands that start one."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path

from policy.errors import FieldError
from store.retention import Retention
from webui.auth import default_token_path
from webui.authority import AGENT_LIFE_S, Authority

FOR_EVER = "forever"
_UNITS_S = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(s|min|h|d)")


def duration_s(text: str) -> float:
    """Return the seconds of "90s", "10min", "12h" or "7d". Raises ArgumentTypeError for any other text."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"must be a time such as 90s, 10min, 12h or 7d, not {text!r}")
    return float(found[1]) * _UNITS_S[found[2]]


def _or_for_ever(parse: Callable[[str], float]) -> Callable[[str], float]:
    def parsed(text: str) -> float:
        return math.inf if text == FOR_EVER else parse(text)

    return parsed


def _count(text: str) -> float:
    if not re.fullmatch("[0-9]{1,15}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, or {FOR_EVER}, not {text!r}")
    return int(text)


def add_retention(parser: argparse.ArgumentParser) -> None:
    """Add the options for what the store keeps; `retention` reads them."""
    group = parser.add_argument_group(
        "what the store keeps", f'a time is 90s, 10min, 12h, 7d or similar, or "{FOR_EVER}"'
    )
    duration = _or_for_ever(duration_s)
    group.add_argument(
        "--keep-flows",
        type=duration,
        default=Retention.flows_s,
        metavar="TIME",
        help="how long to keep flow records (default 1d)",
    )
    group.add_argument(
        "--keep-samples",
        type=duration,
        default=Retention.samples_s,
        metavar="TIME",
        help="how long to keep port samples and replaced thresholds (default 1h)",
    )
    group.add_argument(
        "--keep-events",
        type=duration,
        default=Retention.events_s,
        metavar="TIME",
        help="how long to keep events (default 7d)",
    )
    group.add_argument(
        "--most-flows",
        type=_or_for_ever(_count),
        default=Retention.most_flows,
        metavar="N",
        help="how many flow records to keep at most, of any age (default 1000000)",
    )


def add_agents(parser: argparse.ArgumentParser) -> None:
    """Add the options for agents of other machines; `prepare_agents` checks them."""
    group = parser.add_argument_group("agents of other machines")
    group.add_argument(
        "--agents",
        metavar="HOST:PORT",
        help="serve agents at this address with TLS; each needs a certificate (`sluice enrol`)",
    )
    group.add_argument(
        "--authority",
        type=Path,
        metavar="DIR",
        help=f"folder of the agents' certificate authority; made if missing (default {default_authority()})",
    )
    group.add_argument(
        "--certificate-life",
        type=duration_s,
        default=AGENT_LIFE_S,
        metavar="TIME",
        help="how long an agent's certificate is valid; the agent renews it after half of this (default 30d)",
    )


def default_authority() -> Path:
    return default_token_path().with_name("authority")


def prepare_agents(arguments: argparse.Namespace) -> None:
    """Make the authority if agents need one, so that a problem shows before the workers start. Raises SluiceError."""
    if not arguments.agents:
        return
    host, _, port = arguments.agents.rpartition(":")
    if not host or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise FieldError("--agents", f"must be HOST:PORT, for example 0.0.0.0:8443, not {arguments.agents!r}")
    if arguments.agents in arguments.listen:
        raise FieldError("--agents", f"{arguments.agents} is also an address of --listen; use another port")
    arguments.authority = arguments.authority or default_authority()
    Authority(arguments.authority).web_chain()


def retention(arguments: argparse.Namespace) -> Retention:
    most = arguments.most_flows
    return Retention(
        flows_s=_finite(arguments.keep_flows),
        samples_s=_finite(arguments.keep_samples),
        events_s=_finite(arguments.keep_events),
        most_flows=int(most) if math.isfinite(most) else None,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def retention_argv(kept: Retention) -> list[str]:
    """Return the options that pass these settings to another process."""
    times = {"--keep-flows": kept.flows_s, "--keep-samples": kept.samples_s, "--keep-events": kept.events_s}
    argv = []
    for name, keep_s in times.items():
        argv += [name, FOR_EVER if keep_s is None else f"{keep_s:.3f}s"]
    return [*argv, "--most-flows", FOR_EVER if kept.most_flows is None else str(kept.most_flows)]
