# SPDX-License-Identifier: Apache-2.0
"""One command as data, and the settings that hosts and switch ports share."""

from __future__ import annotations

from typing import NamedTuple

QUEUE_PACKETS = 10_000
"""Length of the kernel's queues. It never limits: the port program's buffer in bytes is the limit."""

_OFFLOADS = ("rx", "tx", "sg", "tso", "gso", "gro")


class Command(NamedTuple):
    """One command."""

    argv: list[str]
    stdin: str | None = None


def sysctl(values: dict[str, str]) -> Command:
    return Command(["sysctl", "-q", "-w", *(f"{name}={value}" for name, value in values.items())])


def offloads(interface: str) -> Command:
    """Turn off segmentation and checksum offload, so that every packet is one frame with its own tag and checksum."""
    argv = ["ethtool", "-K", interface]
    for name in _OFFLOADS:
        argv += [name, "off"]
    return Command(argv)
