# SPDX-License-Identifier: Apache-2.0
"""The fabrics that a scenario can run on, by name. Only the chosen one is imported."""

import os
from collections.abc import Callable
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED, check_fabric
from sluice.policy.workload.scenario import Scenario
from sluice.simulator.limits import check_scenario

FABRICS = (TESTBED, SIMULATOR)

RunScenario = Callable[..., dict[str, Any]]
"""(resolved scenario, out, report) -> summary, as `run_on_testbed`."""


def check_on(scenario: Scenario, on: str) -> None:
    """Raise FieldError if this fabric cannot run the scenario. It compiles and starts nothing."""
    check_fabric(scenario.policy, on)
    if on == SIMULATOR:
        check_scenario(scenario)


def need_root(otherwise: str = "") -> None:
    """Raise SluiceError unless this process has root rights. `otherwise`: what the user can do without them."""
    if os.geteuid() != 0:
        raise SluiceError(
            f"the testbed makes network namespaces and loads BPF: run this as root (sudo){otherwise}"
        )


def runner(on: str) -> RunScenario:
    """Return the function that runs a scenario on that fabric. Raises an error if the fabric lacks
    something."""
    if on == SIMULATOR:
        from sluice.runs.simulator_run import run_on_simulator
        from sluice.simulator import build

        build.build()
        return run_on_simulator
    need_root(f", or without root with --on {SIMULATOR}")
    from sluice.runs.testbed_run import run_on_testbed

    return run_on_testbed
