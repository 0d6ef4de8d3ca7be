# SPDX-License-Identifier: Apache-2.0
"""The network tier: real Open vSwitch and real kernel TCP, in namespaces that the tests make."""

import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice import topologies
from sluice.dataplane.build import KERNEL_BTF
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.wait import wait_until
from sluice.topologies import commands
from sluice.topologies.testbed import Testbed

HERE = Path(__file__).parent
RATE_BPS = 20_000_000
"""Low enough that two senders in Python overload a port even on a busy machine."""


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
        return f"cannot make namespaces here: {error.output.strip()}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _lacking()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.net)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure at the two racks what their processes have said, because the folder goes with a clone."""
    report = yield
    racks = getattr(item, "funcargs", {}).get("racks") if report.failed else None
    for log in sorted(racks.folder.glob("*.log")) if racks else ():
        report.sections.append((log.name, "\n".join(log.read_text(errors="replace").splitlines()[-40:])))
    return report


def queue_of_tag(tag: int) -> int:
    """Return the queue of a tag. The tests need any map that uses all queues."""
    return tag % 8


def install(bed: Testbed, queue_of_tag: Callable[[int], int] = queue_of_tag) -> None:
    """Install rules without a controller."""
    for command in commands.install(bed.topology, queue_of_tag):
        bed.ovs(command.argv, stdin=command.stdin)


def iperf_server(bed: Testbed, host: str, port: str, *more: str) -> subprocess.Popen[bytes]:
    """Start iperf on a host, and wait until it listens on the TCP port."""
    server = bed.spawn(host, ["iperf", "-s", "-p", port, *more], log_file=Path("/dev/null"))
    wait_until(lambda: f":{port}" in bed.exec(host, ["ss", "-Hltn"]), "iperf listens")
    return server


@pytest.fixture(scope="session")
def start_testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Testbed]]:
    """A function that starts testbeds, by default without a controller. They end with the tests."""
    started: list[Testbed] = []

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
    """One switch, four hosts at 20 Mb/s, every queue in use, no marking. The tests of a file share it."""
    bed = start_testbed("single", parameters={"hosts": 4, "host_rate_bps": RATE_BPS})
    install(bed)
    yield bed
    bed.stop()
