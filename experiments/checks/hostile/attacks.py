# SPDX-License-Identifier: Apache-2.0
"""The attacks: which frames flood the port, under which policy, and what protects from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.checks.hostile import flood

_THRESHOLDS = {"thresholds": ["50KB", "100KB", "300KB"], "mark_at": "20pkt"}
PIAS = {"scheme": "pias", "queues": 4, **_THRESHOLDS}
AEMON = {"scheme": "aemon", "queues": 8, **_THRESHOLDS}
SLUICE = {"scheme": "sluice", "queues": 4, **_THRESHOLDS}


@dataclass(frozen=True)
class Attack:
    """A flood, and the policy that it meets."""

    frames: str
    """Kind of flood.py; empty: no flood."""
    policy: Mapping[str, Any]
    protection: Mapping[str, Any] = field(default_factory=dict)
    """Settings with what protects from the flood …"""
    without: Mapping[str, Any] = field(default_factory=dict)
    """… and without it."""
    waits_for_name: bool = False
    """The flows begin when the controller has had the time to demote the sender."""


_ORDER: Any = {"protection": {"urgent_first": True}, "without": {"urgent_first": False}}
_CHECKED: Any = {"without": {"tag_burst": 0}, "waits_for_name": True}
ATTACKS: Mapping[str, Attack] = {
    **{kind: Attack(kind, PIAS, **_ORDER) for kind in (*flood.KINDS, *flood.FRAMES)},
    "urgent-aemon": Attack("urgent", AEMON, **_CHECKED),
    "urgent-sluice": Attack("urgent", SLUICE, **_CHECKED),
    "after-demotion": Attack("first-tag", PIAS, without={"demoted_share": 1}, waits_for_name=True),
    "last-tag-sluice": Attack("last-tag", SLUICE, without={"urgent_first": False}),
    "background-sluice": Attack("background", SLUICE, without={"urgent_first": False}),
}
"""By name. A kind of flood.py meets PIAS, and the order of drops protects from it."""
_SCHEMES = {str(policy["scheme"]): policy for policy in (PIAS, AEMON, SLUICE)}


def attack_of(name: str) -> Attack:
    """Return an attack by its name, or the policy of a scheme without a flood."""
    return ATTACKS[name] if name in ATTACKS else Attack("", _SCHEMES[name])
