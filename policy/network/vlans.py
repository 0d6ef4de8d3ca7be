# SPDX-License-Identifier: Apache-2.0
"""The VLANs of a switch's port, as Open vSwitch's columns `tag`, `trunks` and `vlan_mode` define them. Pure.

A frame has one VLAN while it is in a switch: that of its 802.1Q header, or the port's native one. VLAN 0 is that of
frames without a header where a port has no native VLAN.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class VlanMode(StrEnum):
    ACCESS = "access"
    """One VLAN. Frames arrive and leave without a header; those with one are dropped."""
    TRUNK = "trunk"
    """Frames arrive and leave with the header of their VLAN."""
    NATIVE_TAGGED = "native-tagged"
    """A trunk at which frames without a header are in the native VLAN."""
    NATIVE_UNTAGGED = "native-untagged"
    """The same, and frames of the native VLAN leave without a header."""


@dataclass(frozen=True)
class Vlans:
    """The VLANs of one port. Without arguments: a trunk of all VLANs, as a port is that names none."""

    mode: str = VlanMode.TRUNK
    native: int = 0
    """The VLAN of frames that arrive without a header."""
    trunks: tuple[int, ...] = ()
    """The VLANs of a trunk beside its native one; empty: all. An access port has none."""

    @classmethod
    def of(cls, tag: int | None, trunks: tuple[int, ...], mode: str | None) -> Vlans | None:
        """Return what the columns of a port mean; None if it has none of them."""
        if tag is None and not trunks and mode is None:
            return None
        mode = mode or (VlanMode.TRUNK if tag is None else VlanMode.ACCESS)
        native = 0 if mode == VlanMode.TRUNK else tag or 0
        return cls(mode, native, () if mode == VlanMode.ACCESS else trunks)

    @property
    def is_open(self) -> bool:
        """Whether the port carries every VLAN."""
        return self.mode != VlanMode.ACCESS and not self.trunks

    @property
    def named(self) -> frozenset[int]:
        """The VLANs that the port names and carries."""
        return frozenset((*self.trunks, *(() if self.mode == VlanMode.TRUNK else (self.native,))))

    def carries(self, vlan: int | None) -> bool:
        """Whether the port carries a VLAN. None: one that no port names."""
        return self.is_open or vlan in self.named

    def leaves_bare(self, vlan: int | None) -> bool:
        """Whether frames of a VLAN leave the port without a header."""
        untags = self.mode in (VlanMode.ACCESS, VlanMode.NATIVE_UNTAGGED)
        return vlan == 0 or (untags and vlan == self.native)
