# SPDX-License-Identifier: Apache-2.0
"""The network tier: real Open vSwitch, real kernel TCP, in namespaces that the tests make."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import topologies
from dataplane.build import KERNEL_BTF
from runtime.command import CommandFailed, run
from topologies import static_flows
from topologies.testbed import Testbed

HERE = Path(__file__).parent
RATE_BPS = 20_000_000
"""Low enough that two senders in Python overload a port also on a busy machine."""


def _lacking() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not KERNEL_BTF.exists():
        return f"needs a kernel with BTF ({KERNEL_BTF})"
    for program in ("ovs-vswitchd", "mnexec", "unshare", "ethtool"):
        if shutil.which(program) is None:
            return f"needs {program}"
    try:
        run(["unshare", "--net", "--pid", "--mount", "--fork", "--mount-proc", "true"])
    except CommandFailed as error:
        return f"may not make namespaces here: {error.output.strip()}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _lacking()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.net)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


def queue_of_tag(tag: int) -> int:
    """The map of the tests: any one would do that uses all queues."""
    return tag % 8


def install(bed: Testbed, queue_of_tag: Callable[[int], int] = queue_of_tag) -> None:
    """Rules without a controller."""
    for command in static_flows.install(bed.topology, queue_of_tag):
        bed.ovs(command.argv, stdin=command.stdin)


@pytest.fixture(scope="session")
def start_testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Testbed]]:
    """Start testbeds that end with the tests, without a controller unless one is given."""
    started = []

    def start(kind: str, *, parameters: dict[str, Any] | None = None, **settings: Any) -> Testbed:
        graph = topologies.build(kind, **(parameters or {}))
        bed = Testbed.start(graph, tmp_path_factory.mktemp("bed"), **{"controller": None, **settings})
        started.append(bed)
        return bed

    yield start
    for bed in started:
        bed.stop()


@pytest.fixture(scope="module")
def testbed(start_testbed: Callable[..., Testbed]) -> Iterator[Testbed]:
    """One switch, four hosts at 20 Mb/s, every queue in use, no marking; shared by the tests of a file."""
    bed = start_testbed("single", parameters={"hosts": 4, "host_rate_bps": RATE_BPS})
    install(bed)
    yield bed
    bed.stop()


@pytest.fixture(scope="module")
def measurements() -> dict[str, Any]:
    return {}


@pytest.fixture
def measured(request: pytest.FixtureRequest, measurements: dict[str, Any]) -> Callable[..., Any]:
    """Take a measurement once per file."""

    def once(name: str, measure: Callable[[], Any]) -> Any:
        if name not in measurements:
            measurements[name] = measure()
        return measurements[name]

    return once
