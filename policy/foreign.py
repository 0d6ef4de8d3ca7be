# SPDX-License-Identifier: Apache-2.0
"""Uses of the DSCP by others: programs, netfilter rules and containers that set it before the tagger does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.policy.entries import entry
from sluice.policy.kinds import Whole

DSCPS = 64
_COUNT = Whole(0, 2**63 - 1, "packets")
_PORT = Whole(0, 65_535)
_PROTOCOLS = {6: "TCP", 17: "UDP", 132: "SCTP"}
_CLASSES = {8: "CS1", 16: "CS2", 24: "CS3", 32: "CS4", 40: "CS5", 44: "VA", 46: "EF", 48: "CS6", 56: "CS7"}
"""RFC 2474, 3246, 5865. Class AFxy is 8x + 2y (RFC 2597)."""


@dataclass(frozen=True)
class ForeignDscp:
    """A DSCP that packets of a host had before the tagger."""

    dscp: int = entry(Whole(1, DSCPS - 1), "The DSCP.")
    overwritten: int = entry(_COUNT, "Packets of local sockets. TCP and UDP get a tag instead.")
    forwarded: int = entry(
        _COUNT, "Packets without a local socket, mostly of containers and virtual machines. They keep it."
    )
    protocol: int = entry(Whole(0, 255), "IP protocol of a recent local packet; 0 for none.")
    src_port: int = entry(_PORT, "Its source port; 0 for none.")
    dst_port: int = entry(_PORT, "Its destination port; 0 if its socket is not connected.")

    def __str__(self) -> str:
        """For example "DSCP 46 (EF) from UDP port 5060 to port 5060, also without a local socket"."""
        title = _title(self.dscp)
        name = f"DSCP {self.dscp} ({title})" if title else f"DSCP {self.dscp}"
        if not self.overwritten:
            return f"{name} in packets without a local socket"
        protocol = _PROTOCOLS.get(self.protocol, f"IP protocol {self.protocol}")
        to = f" to port {self.dst_port}" if self.dst_port else ""
        source = f" from {protocol} port {self.src_port}{to}" if self.src_port else f" from {protocol}"
        return f"{name}{source}{', also without a local socket' if self.forwarded else ''}"


def _title(dscp: int) -> str:
    """Return the usual name of a DSCP; empty if it has none."""
    group, rest = divmod(dscp, 8)
    if 1 <= group <= 4 and rest in (2, 4, 6):
        return f"AF{group}{rest // 2}"
    return _CLASSES.get(dscp, "")


def new_uses(before: Iterable[ForeignDscp], now: Iterable[ForeignDscp]) -> list[ForeignDscp]:
    """Return the uses whose DSCP the earlier report lacks."""
    known = {use.dscp for use in before}
    return [use for use in now if use.dscp not in known]
