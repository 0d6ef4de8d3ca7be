# SPDX-License-Identifier: Apache-2.0
"""DSCPs for which a card has priority flow control (PFC, IEEE 802.1Qbb), as RDMA needs it.

TCP with such a DSCP comes into a class that is never dropped, and pauses others. dcb(8) of iproute2 knows the classes.
"""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from sluice.policy.schemes.ports import HIGHEST, LOWEST
from sluice.runtime.command import CommandFailed, run

_INTERFACES = Path("/sys/class/net")


def physical_cards() -> list[str]:
    """Return the names of the machine's network cards in this network namespace."""
    return sorted(link.name for link in _INTERFACES.iterdir() if (link / "device").exists())


def lossless_dscps(interface: str) -> list[int]:
    """Return the DSCPs with PFC at a card, or at the cards of a bond. None if the card or the tool knows of none."""
    cards = [link.name.removeprefix("lower_") for link in (_INTERFACES / interface).glob("lower_*")]
    return sorted(set().union(*map(_at_card, [interface, *cards])))


def _at_card(card: str) -> set[int]:
    try:
        enabled = _shown("pfc", card)["prio_pfc"]
        classes = _shown("app", card).get("dscp_prio", ()) if any(enabled) else ()
        return {int(dscp) for dscp, priority in classes if enabled[priority]}
    except (OSError, SubprocessError, CommandFailed, ValueError, LookupError, TypeError, AttributeError):
        return set()


def _shown(what: str, card: str) -> Any:
    return json.loads(run(["dcb", "-j", what, "show", "dev", card], timeout_s=10))


def lossless_problem(interfaces: Sequence[str], reserved_dscp: Collection[int]) -> str:
    """Return why TCP may come into a lossless class of these interfaces under a policy; empty if it does not."""
    found = {name: lossless_dscps(name) for name in interfaces}
    tags = {name: [dscp for dscp in dscps if LOWEST <= dscp <= HIGHEST] for name, dscps in found.items()}
    if not (missing := {dscp for dscps in tags.values() for dscp in dscps} - set(reserved_dscp)):
        return ""
    where = "; ".join(
        f"{name} has PFC for DSCP {', '.join(map(str, dscps))}" for name, dscps in tags.items() if dscps
    )
    return f"{where}: so that no TCP gets there, the policy needs reserved_dscp = {sorted({*missing, *reserved_dscp})}"
