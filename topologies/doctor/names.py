# SPDX-License-Identifier: Apache-2.0
"""Names of the checks from which the tiers are concluded."""

from __future__ import annotations

DATAPATHS = "Open vSwitch datapaths"
HOOK = "setsockopt hook (cgroup BPF)"
PORT_PROGRAM = "BPF programs"
WATCH = "flow watch"


def struct_ops(control: str) -> str:
    return f"{control} (struct_ops)"
