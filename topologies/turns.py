# SPDX-License-Identifier: Apache-2.0
"""Cheaper turns of ovs-vswitchd's main loop (turns.c), for switches of the userspace datapath."""

from __future__ import annotations

from pathlib import Path

from sluice.dataplane import build
from sluice.policy.network.graph import Topology
from sluice.policy.units import BITS_PER_BYTE, FRAME_BYTES, NS_PER_S

SOURCE = Path(__file__).with_suffix(".c")
_PART = 10


def environment(topology: Topology) -> dict[str, str]:
    """Return the variables with which ovs-vswitchd has cheaper turns. Builds the library if it is stale.

    A packet waits for a pause at most a tenth of the time that a full packet takes on the fastest link.
    """
    fastest_bps = max(port.rate_bps for port in topology.ports)
    pause_ns = FRAME_BYTES * BITS_PER_BYTE * NS_PER_S // fastest_bps // _PART
    return {"LD_PRELOAD": str(build.shared_library(SOURCE)), "SLUICE_PAUSE_NS": str(pause_ns)}
