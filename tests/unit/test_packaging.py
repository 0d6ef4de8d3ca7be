# SPDX-License-Identifier: Apache-2.0
"""What the package has to ship, by pyproject.toml."""

import configparser
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from sluice.cli import SERVICES
from sluice.policy.version import VERSION
from sluice.runtime import extras
from tools import packages

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def _hashed(name: str) -> dict[str, str]:
    """Return the versions in a file of requirements/ by package."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all("--hash=sha256:" in line for line in lines)
    found = (line.partition(" ")[0].partition("==") for line in lines)
    return {_canonical(package): version for package, _, version in found}


@pytest.mark.parametrize("name", ["run", "demo", "lab", "dev", "node", "audit", "fuzz", "kubernetes"])
def test_every_package_with_hashes_has_the_version_of_the_constraints(name: str) -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pinned = {_canonical(line): line.partition("==")[2] for line in lines}
    for package, version in _hashed(name).items():
        assert pinned.get(package) == version, f"{package}: enter it in constraints.txt, then `make pins`"


EXTRAS = PROJECT["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("run", []), ("demo", ["plots"]), ("lab", EXTRAS.keys() - {"cluster", "dev"}), ("dev", EXTRAS.keys())],
)
def test_every_requirement_has_hashes(name: str, wanted: Iterable[str]) -> None:
    needed = [*PROJECT["project"]["dependencies"], *(one for extra in wanted for one in EXTRAS[extra])]
    needed += [] if name == "run" else PROJECT["build-system"]["requires"]
    assert {_canonical(requirement) for requirement in needed} <= _hashed(name).keys(), "run `make pins`"


MOST_PACKAGES = 60


def test_the_plain_installation_is_small() -> None:
    assert len(_hashed("run")) <= MOST_PACKAGES, "make what one command needs an extra (runtime/extras.py)"


def test_every_library_that_a_user_may_lack_is_in_the_extra_that_its_message_names() -> None:
    for library, extra in extras.EXTRAS.items():
        names = {_canonical(requirement) for requirement in EXTRAS[extra]}
        assert _canonical(library) in names


def _canonical(requirement: str) -> str:
    name = requirement
    for mark in "[=<>~!, ":
        name = name.partition(mark)[0]
    return name.lower().replace("_", "-").replace(".", "-")


# What the Debian packages say, without building them. `make test-packages` builds and installs them.


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


def test_change_log_and_chart_have_the_version() -> None:
    assert f"## [{VERSION}] - " in (ROOT / "CHANGELOG.md").read_text()
    chart = (ROOT / "packaging/helm/sluice/Chart.yaml").read_text()
    assert re.findall(r'^(?:appV|v)ersion: "?([^"\n]*)', chart, re.MULTILINE) == [VERSION, VERSION]


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


# What the wheel sluice-sim needs. `make test-packages` builds it and installs it into a fresh environment.


ABSENT = (
    *("sluice.controller", "sluice.dataplane", "sluice.hostagent", "sluice.store", "sluice.webui"),
    *("experiments", "flask", "mininet", "os_ken", "sqlalchemy"),
)
NEEDED = (
    "sluice.commands.run",
    "sluice.report.page",
    "sluice.runs.simulator_run",
)


def test_every_file_that_is_copied_for_the_wheel_is_part_of_it(tmp_path: Path) -> None:
    """Setuptools drops a file that no pattern names, without a word."""
    files = [path for path in packages.tracked(*packages.WHEEL_ROOMS) if packages.is_in_the_wheel(path)]
    packages.copy(files, tmp_path)
    (tmp_path / "README.md").touch()
    (tmp_path / "LICENSE").touch()
    (tmp_path / "pyproject.toml").write_text(packages.wheel_project())
    built = tmp_path / "built"
    build = "from setuptools import setup; setup()"
    subprocess.run(
        [sys.executable, "-c", build, "-q", "build", "--build-base", tmp_path / "base", "--build-lib", built],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    assert {path.relative_to(built) for path in built.rglob("*") if path.is_file()} == {
        packages.installed(path) for path in files
    }


def test_the_simulator_and_its_reports_import_nothing_of_the_testbed() -> None:
    """A module that is None in sys.modules cannot be imported."""
    code = f"import sys; sys.modules.update(dict.fromkeys({ABSENT})); import {', '.join(NEEDED)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


OF_OPERATORS = ("policy", "network", "token", "enrol", "revoke", "agents", "top", "export")


def test_the_commands_of_operators_work_without_the_package_of_agents() -> None:
    """As where the controller and the web process are installed alone. And they start at once: without the web
    framework and the store."""
    absent = [f"sluice.{room}" for room in (*packages.ROOMS["agent"], "simulator")]
    absent += ["flask", "pydantic", "sqlalchemy", "tornado"]
    code = f"import sys; sys.modules.update(dict.fromkeys({absent})); from sluice.cli import command\n"
    code += f"for name in {OF_OPERATORS}: command(name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# The source of the wheel sluice-sockets works alone: its tests run where nothing else can be imported.


ALONE = """
import sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path] + [sys.argv[1]]
import sluice_sockets
from sluice_sockets import WrongField, pack_flow

assert len(pack_flow(size_bytes=7, deadline_s=0.025)) == 56
try:
    sluice_sockets.declare(None, deadline_s="5ms")
except WrongField as error:
    print(error)
ours = {name.partition(".")[0] for name in sys.modules}
assert not ours & {"policy", "hostagent", "runtime"}, ours
"""


def test_the_modules_import_nothing_but_themselves_and_the_standard_library(tmp_path: Path) -> None:
    packages.lay_out_sockets(tmp_path / "source")
    argv = [sys.executable, "-I", "-c", ALONE, str(tmp_path / "source")]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "deadline_s: must be a number of seconds, not '5ms': write 0.005\n"
