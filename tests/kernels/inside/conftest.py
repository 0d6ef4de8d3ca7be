# SPDX-License-Identifier: Apache-2.0
"""Tests that run in the virtual machine. Their rates are low, because its clock is 15 times slower than a machine's."""

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once, because a guest that runs out of time prints no summary."""
    if report.failed:
        print(f"\n{report.longreprtext[-3000:]}", flush=True)


@pytest.fixture(scope="session", params=["system", "netdev"], ids=["kernel", "userspace"])
def datapath(request: pytest.FixtureRequest) -> str:
    """Open vSwitch's datapaths: the kernel's module, and the one in userspace."""
    name: str = request.param
    return name
