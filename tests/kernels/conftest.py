# SPDX-License-Identifier: Apache-2.0
"""The tier of other kernels: Debian's, in virtual machines. Each series is a group of its own (--dist loadgroup)."""

import os
from pathlib import Path

import pytest

from tests.kit.guests import SERIES, obstacle

HERE = Path(__file__).parent
INSIDE = "SLUICE_GUEST"
"""Environment variable: these processes run in a guest."""
collect_ignore = [] if os.environ.get(INSIDE) else ["inside"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kernels)


@pytest.fixture(scope="session", params=[pytest.param(s, marks=pytest.mark.xdist_group(s)) for s in SERIES])
def series(request: pytest.FixtureRequest) -> str:
    """A series of kernels that this machine can boot."""
    name: str = request.param
    if reason := obstacle(name):
        pytest.skip(reason)
    return name
