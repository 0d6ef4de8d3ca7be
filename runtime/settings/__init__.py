# SPDX-License-Identifier: Apache-2.0
"""Settings of services, from defaults, configuration files, the environment and flags."""

from sluice.runtime.settings.service import Service

__all__ = ["Service"]
