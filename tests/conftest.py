# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from sqlalchemy import Engine

from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.postgres import PostgresServer, programs
from sluice.store.engine import open_store

# No verdict depends on how busy the machine is. "fixed": the same few examples on every run. "random": many, of a seed
# that `make fuzz` chooses and prints.
for name, random in (("fixed", False), ("random", True)):
    settings.register_profile(
        name,
        max_examples=100 if random else 40,
        derandomize=not random,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
PROFILE = os.environ.get("SLUICE_EXAMPLES", "fixed")
settings.load_profile(PROFILE)
if PROFILE == "fixed":
    # Hypothesis also draws constants of the modules imported so far, and those depend on the order of the tests.
    pytest.MonkeyPatch().setattr(providers, "_get_local_constants", Constants)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix files whose tests wait with files whose tests compute, so that a few workers use the machine evenly.

    The longest file comes first and the last quarter are short files alone, so that no worker ends long after the
    others.
    """

    def place(item: pytest.Item) -> float:
        file = item.nodeid.partition("::")[0]
        if file == "tests/api/test_openapi.py":
            return 0
        return crc32(file.encode()) * (1 if file.startswith("tests/unit/") else 0.75)

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the machine did at that moment, because a machine that stands still may be the cause."""
    report = yield
    if report.failed:
        report.sections.append(("the machine at the failure", machine_state()))
    return report


def machine_state() -> str:
    """Return the CPU pressure, the time that the hypervisor took, and the 25 processes that use most of the CPU."""
    pressure = Path("/proc/pressure/cpu")
    stolen_ticks = Path("/proc/stat").read_text().split()[8]
    columns = "pid,ppid,stat,wchan:24,cls,rtprio,ni,pcpu,etimes,args"
    shown = subprocess.run(
        ["ps", "-ww", "-eo", columns, "--sort=-pcpu"], capture_output=True, text=True, check=False
    )
    return "\n".join(
        [
            pressure.read_text().strip() if pressure.exists() else "no /proc/pressure/cpu",
            f"stolen: {stolen_ticks} ticks",
            *(line[:160] for line in shown.stdout.splitlines()[:26]),
        ]
    )


@pytest.fixture
def no_plugin_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After the test, no plugin is loaded that it loaded."""
    from sluice.policy.controls import FROM_FILES
    from sluice.policy.schemes import SCHEMES
    from sluice.runtime import plugins

    monkeypatch.setenv(plugins.VARIABLE, "")  # so that its end restores what `use` sets
    monkeypatch.delenv(plugins.VARIABLE)
    tables: tuple[dict[str, Any], ...] = (
        SCHEMES,
        FROM_FILES,
        plugins.TOPOLOGIES,
        plugins.WORKLOADS,
        plugins.LOADED,
    )
    before = [dict(table) for table in tables]
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for this session."""
    try:
        programs()
    except EnvironmentLacking as lacking:
        pytest.skip(str(lacking))
    with PostgresServer.start() as server:
        yield server


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An empty store in SQLite."""
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    yield engine
    engine.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.pg)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()
