# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from policy.errors import EnvironmentLacking
from runtime.postgres import PostgresServer, programs

# The same examples on every run, and no verdict that depends on how busy the machine is.
settings.register_profile(
    "sluice", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sluice")

REAL_TIME = {Path(__file__).parent / tier for tier in ("kernel", "net", "pg", "web")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A tier on real time runs a failed test once more: a virtual machine that stands still for 100 ms breaks any of
    its measurements, a fault of the code breaks both. The summary lists such tests (RERUN)."""
    for item in items:
        if REAL_TIME & set(item.path.parents):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for this session."""
    try:
        programs()
    except EnvironmentLacking as lacking:
        pytest.skip(str(lacking))
    with PostgresServer.start() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.pg)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()
