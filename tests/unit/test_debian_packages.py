# SPDX-License-Identifier: Apache-2.0
"""What the Debian packages say, without building them. `make test-packages` builds and installs them."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.cli import SERVICES
from sluice.policy.version import VERSION
from tools import packages

ROOT = Path(__file__).parents[2]
UNITS = {name: ROOT / "packaging" / "systemd" / f"sluice-{name}.service" for name in SERVICES}

EXPOSURE = {"controller": 1.2, "web": 1.4, "agent": 3.0, "port-agent": 2.7}
"""Scores of `systemd-analyze security` (systemd 252). Lower one when a unit gets better; never raise one."""


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(UNITS[name].read_text())
    return parser


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_waits_for_its_service_and_watches_it(name: str) -> None:
    service = unit(name)["Service"]
    assert service["ExecStart"] == f"/usr/bin/sluice {name}"
    assert (service["Type"], service["Restart"]) == ("notify", "on-failure")
    assert int(service["WatchdogSec"]) >= 30


@pytest.mark.parametrize("name", ["controller", "web"])
def test_controller_and_web_have_no_capability(name: str) -> None:
    service = unit(name)["Service"]
    assert (service["User"], service["CapabilityBoundingSet"]) == ("sluice", "")


@pytest.mark.parametrize("name", SERVICES)
def test_the_exposure_does_not_grow(name: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    argv = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNITS[name])]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    (score,) = re.findall(r"Overall exposure level .*: ([0-9.]+) ", shown)
    assert float(score) <= EXPOSURE[name]


def test_the_page_states_the_scores() -> None:
    page = (ROOT / "docs/deploying/packages.md").read_text()
    for name, score in EXPOSURE.items():
        assert f"| `sluice-{name}` | {score} |" in page


def test_every_service_is_in_one_package() -> None:
    packed = [service for services in packages.SERVICES.values() for service in services]
    assert sorted(packed) == sorted(SERVICES)


def test_every_package_that_is_laid_out_is_in_control() -> None:
    control = (ROOT / "packaging/debian/control").read_text()
    assert (
        re.findall(r"^Package: sluice-(.+)$", control, re.M)
        == list(packages.ROOMS)
        == list(packages.LIBRARIES)
    )


def test_every_room_is_in_one_package() -> None:
    rooms = [room for rooms in packages.ROOMS.values() for room in rooms]
    assert len(rooms) == len(set(rooms))
    assert all((ROOT / room / "__init__.py").exists() for room in rooms)


def test_changelog__has_the_version_and_the_form_of_debian() -> None:
    text = packages.changelog(VERSION)
    assert text.startswith(f"sluice ({VERSION}) bookworm; urgency=medium\n\n  * ")
    assert re.search(r"^ -- .+ <.+>  \w{3}, \d\d \w{3} \d{4}", text, re.M)


def test_the_version_is_in_the_change_log() -> None:
    assert f"## [{VERSION}] - " in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", ["agent", "port-agent"])
def test_an_agent_may_pass_through_the_folder_of_the_other_services(name: str) -> None:
    """Its root may not bypass permissions, and its folder is in that of the user sluice."""
    assert "CAP_DAC_OVERRIDE" not in unit(name)["Service"]["CapabilityBoundingSet"]
    assert unit(name)["Service"]["StateDirectory"].startswith("sluice/")
    for other in ("controller", "web"):
        assert int(unit(other)["Service"]["StateDirectoryMode"], 8) & 0o001


def test_agents_restart_at_an_upgrade_and_end_at_the_removal() -> None:
    """No agent starts at the installation, so debhelper writes neither line."""
    scripts = ROOT / "packaging" / "debian"
    both = "sluice-agent.service sluice-port-agent.service"
    assert f"try-restart {both}" in (scripts / "sluice-agent.postinst").read_text()
    assert f"stop {both}" in (scripts / "sluice-agent.prerm").read_text()
    assert "--no-stop-on-upgrade" in (scripts / "rules").read_text()
