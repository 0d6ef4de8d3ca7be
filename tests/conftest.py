# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import HealthCheck, settings

# The same examples on every run, and no verdict that depends on how busy the machine is.
settings.register_profile(
    "sluice", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sluice")
