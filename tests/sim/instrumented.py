# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that runs tests on an instrumented core: `SLUICE_CORE=sanitize pytest -p tests.sim.instrumented`.

It puts the extension of that build in the place of `sluice.simulator._fabric` before any test imports it. Processes
that a test starts still use the release build. The address sanitizer must be loaded first (LD_PRELOAD);
`make sanitize` does that.
"""

import importlib.util
import os
import sys

from sluice import simulator
from sluice.simulator.build import build_instrumented


def load(build_type: str) -> None:
    """Import this build of the core as `sluice.simulator._fabric`."""
    name = "sluice.simulator._fabric"
    assert name not in sys.modules, f"{name} is imported already: load this plugin with -p"
    spec = importlib.util.spec_from_file_location(name, build_instrumented(build_type))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    vars(simulator)["_fabric"] = module


load(os.environ["SLUICE_CORE"])
