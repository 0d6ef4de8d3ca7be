# SPDX-License-Identifier: Apache-2.0
"""The systemd units in their sandbox, on a Debian 12 with its own systemd and kernel, in a virtual machine.

The packages are installed in a root folder first, because that takes minutes under emulation.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.policy.version import VERSION
from tests.deploy.packaged import PACKAGES, WITH_SYSTEMD, obstacle
from tests.kit import guests
from tests.kit.guests import CACHE, run_in_guest

GUEST_S = 3600
SERIES = "6.1"
UNITS = ("sluice-web", "sluice-controller", "sluice-agent", "sluice-port-agent")
HERE = Path(__file__).parent
SLOW = "[Service]\nTimeoutStartSec=900\n"
"""An emulated processor needs more than the units' 90 s for a start."""

pytestmark = [
    pytest.mark.net,
    pytest.mark.timeout(GUEST_S + 300),
    pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "-"),
]


@pytest.fixture(scope="module")
def seen() -> Iterator[Path]:
    """The folder with what `units` saw in the guest."""
    if reason := guests.obstacle(SERIES):
        pytest.skip(reason)
    folder, root = CACHE / "results-units", CACHE / "units-root"
    for one in (folder, root):
        shutil.rmtree(one, ignore_errors=True)
        one.mkdir(parents=True)
    try:
        install(root)
        shutil.copy(HERE / "units", folder / "units")
        command = ["bash", str(folder / "units"), str(folder)]
        run_in_guest(SERIES, folder, command, timeout_s=GUEST_S, system=root)
        yield folder
    finally:
        shutil.rmtree(root)


def install(root: Path) -> None:
    """Make a root folder from the base system, with the packages."""
    subprocess.run(["tar", "-C", root, "-xf", WITH_SYSTEMD, "--exclude=./dev/*"], check=True)
    for node in ("null", "zero", "random", "urandom"):
        subprocess.run(["cp", "-a", f"/dev/{node}", root / "dev"], check=True)
    packages = root / "root" / "packages"
    packages.mkdir()
    subprocess.run(["cp", *sorted(PACKAGES.glob(f"sluice-*_{VERSION}_*.deb")), packages], check=True)
    policy = root / "usr/sbin/policy-rc.d"  # no service starts outside the guest
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    argv = [
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        f"--mount-proc={root}/proc",
        "chroot",
        str(root),
    ]
    argv += ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"]
    subprocess.run([*argv, "sh", "-c", "dpkg -i /root/packages/*.deb"], check=True, capture_output=True)
    policy.unlink()
    slow = root / "etc/systemd/system/sluice-.service.d"
    slow.mkdir(parents=True)
    (slow / "slow.conf").write_text(SLOW)


def states(path: Path) -> dict[str, dict[str, str]]:
    """Unit → its ActiveState, Result and NRestarts."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {unit: dict(word.split("=", 1) for word in words) for unit, *words in lines}


def restarted(path: Path, times: int) -> bool:
    """Return whether each service is active, and was restarted at least so many times."""
    found = states(path)
    return all(
        found[unit]["ActiveState"] == "active" and int(found[unit]["NRestarts"]) >= times for unit in UNITS
    )


def test_the_machine_boots_and_the_services_start(seen: Path) -> None:
    assert (seen / "booted").read_text().strip() == "running"
    assert (seen / "started").read_text().split() == ["active", "active"]


def test_both_agents_work_in_their_sandbox(seen: Path) -> None:
    assert (seen / "agents").read_text().count("s ago") == 2  # the age of the last heartbeat
    assert (seen / "tagger").exists()
    assert "clsact" in (seen / "port").read_text()
    assert restarted(seen / "working", 0)


def test_a_flow_of_containers_is_recorded_once_with_the_name_of_one(seen: Path) -> None:
    """The agent of the machine's first namespace watches all that no agent serves."""
    (flow,) = json.loads((seen / "container").read_text())["flows"]
    assert (flow["label"], flow["bytes"], flow["dst_port"]) == ("0123456789ab", 200_000, 5000)
    assert (flow["src"], flow["dst"], flow["status"]) == ("here-host", "here-host", "finished")


def test_a_killed_service_comes_back(seen: Path) -> None:
    assert restarted(seen / "killed", 1), states(seen / "killed")


def test_a_service_that_does_nothing_is_restarted(seen: Path) -> None:
    assert restarted(seen / "stopped", 2), states(seen / "stopped")


def test_services_end_in_order_and_nothing_was_refused(seen: Path) -> None:
    found = states(seen / "ended")
    assert all(found[unit]["ActiveState"] == "inactive" for unit in UNITS), found
    journal = (seen / "journal").read_text()
    assert not [line for line in journal.splitlines() if "Traceback" in line or "not permitted" in line]


def test_the_journal_has_fields(seen: Path) -> None:
    rows = [json.loads(line) for line in (seen / "fields").read_text().splitlines()]
    assert {row["_SYSTEMD_UNIT"] for row in rows} == {"sluice-agent.service"}
    assert all(row["LOGGER"].startswith("sluice.") and row["PRIORITY"] in "3467" for row in rows)
