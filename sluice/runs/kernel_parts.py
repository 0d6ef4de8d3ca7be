# SPDX-License-Identifier: Apache-2.0
"""The kernel's parts that the agents of one machine share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from sluice.dataplane.congestion import CongestionControl, ours
from sluice.dataplane.shared_resource import Provided
from sluice.dataplane.sockopt import SocketHook
from sluice.policy.errors import EnvironmentLacking

log = logging.getLogger(__name__)


def kernel_parts() -> Iterator[Provided]:
    """Hold Sluice's congestion controls and the setsockopt hook, and yield each. The caller closes them at the end.

    Otherwise an agent that dies would take one along, and with it the connections of the other agents.
    """
    for part in (*(CongestionControl(name) for name in ours()), SocketHook()):
        try:
            part.ensure()
            yield part
        except EnvironmentLacking as lacking:
            log.warning("%s; agents use the fallback, and the run is marked as not valid", lacking)
