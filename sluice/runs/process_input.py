# SPDX-License-Identifier: Apache-2.0
"""What a run gives to its processes: the command lines, and the schedule of an agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.policy.network.graph import Host, Topology
from sluice.policy.wire.records import Schedule, ScheduledFlow
from sluice.policy.workload.scenario import Scenario
from sluice.store.retention import FOR_EVER, Retention
from sluice.topologies.commands.hosts import LINK_CLASS
from sluice.webui.options import retention_argv


@dataclass(frozen=True)
class WebSettings:
    """The settings that a run passes to its web process."""

    workers: int = 1
    retention: Retention = FOR_EVER
    event_log: Path | None = None
    plaintext_beyond_loopback: bool = False
    """Whether the dashboard's address may be one that other machines reach."""
    fsync: bool = False
    """Whether a delivery is on the device before its answer."""


def service_argv(name: str) -> list[str]:
    """Return the start of a service's command line. A run does not read the files in /etc/sluice."""
    return [sys.executable, "-m", "sluice", name, "--config", os.devnull]


def web_argv(
    store_url: str, socket: Path, token_file: Path, listen: str | None, settings: WebSettings
) -> list[str]:
    """Return the command line of the web process. `listen` is its TCP address, if it has one."""
    argv = [*service_argv("web"), "--store", store_url, "--unix", str(socket)]
    argv += ["--token-file", str(token_file)]
    argv += ["--listen", listen] if listen else []
    argv += ["--workers", str(settings.workers), *retention_argv(settings.retention)]
    argv += ["--plaintext-beyond-loopback"] if settings.plaintext_beyond_loopback else []
    argv += ["--fsync" if settings.fsync else "--no-fsync"]
    return argv + (["--event-log", str(settings.event_log)] if settings.event_log else [])


def controller_argv(store_url: str, socket: Path) -> list[str]:
    """Return the command line of the controller."""
    return [*service_argv("controller"), "--store", store_url, "--listen", f"unix:{socket}"]


def network_argv(
    store_url: str, scenario: Path, run_id: str | None = None, hold_s: float | None = None
) -> list[str]:
    """Return the command line of a simulated network. `scenario` is the document as JSON.

    With `hold_s`, the traffic has this length and begins at SIGUSR2.
    """
    argv = [sys.executable, "-m", "sluice.runs.live", "--store", store_url, "--scenario", str(scenario)]
    argv += ["--run-id", run_id] if run_id else []
    return argv + (["--hold", str(hold_s)] if hold_s is not None else [])


def agent_argv(
    host: Host, scenario: Scenario, folder: Path, web_socket: Path, schedule: Path, start_file: Path
) -> list[str]:
    """Return the command line of a host's agent. `folder` holds its spool and samples."""
    argv = [*service_argv("agent"), "--name", host.name, "--interface", host.interface]
    argv += ["--run-dir", str(folder), "--web", f"unix:{web_socket}"]
    argv += ["--schedule", str(schedule), "--start-file", str(start_file), "--grace", str(scenario.grace_s)]
    argv += ["--queues-at", LINK_CLASS]
    argv += ["--no-fsync"]  # a power failure ends the run anyway
    return [*argv, "--congestion-control", scenario.policy.definition.congestion_control]


def schedule_of(scenario: Scenario, topology: Topology, flows: Sequence[ScheduledFlow]) -> Schedule:
    """Return one agent's schedule with these flows."""
    return Schedule(
        scheme=scenario.policy.scheme,
        connections=scenario.transport.connections,
        sample_ms=scenario.sample_ms,
        max_window=scenario.transport.max_window,
        addresses={host.name: host.ipv4 for host in topology.hosts},
        addresses6={host.name: host.ipv6 for host in topology.hosts},
        flows=tuple(flows),
    )
