# SPDX-License-Identifier: Apache-2.0
"""What the port program does at a port. This module loads no BPF library."""

import struct
from dataclasses import dataclass

from sluice.policy.schemes.ports import PHANTOM_PERCENT, MarkBy, PortMarking, last_mark_bytes, mark_most_q32

DSCPS = 64
_LAYOUT = f"=8QIxxxxQIIIxxxxII{DSCPS}sIxxxx"
"""struct sl_vq_settings; struct sl_dqs_settings; struct sl_by_rank; the queue of VLANs; queues by DSCP; place."""
_BY_RULE, _BY_HEADER, _COUNTS_DSCP, _QUEUES_DSCP = range(4)

_MARK_BY: dict[str, int] = {MarkBy.PORT: 0, MarkBy.QUEUE: 1, MarkBy.AHEAD: 2}
"""enum sl_mark_by."""


@dataclass(frozen=True, kw_only=True)
class PortSettings(PortMarking):
    """Settings of one port. The virtual queue drains at `rate_bps`, which should be the real rate of the port's HTB.

    The numbers are in the ranges of a checked PortBehaviour.
    """

    rate_bps: int
    """0: the port neither marks nor drops."""
    phantom_percent: int = PHANTOM_PERCENT
    """The phantom queue drains at this share of `rate_bps`."""
    sub_queues: int | None = None
    """Flow queues in each priority. None: a priority is one queue."""
    release_ns: int = 0
    """An empty flow queue stays assigned to its flow for this time."""
    vlan_queue: int = 0
    """The queue of frames of the operator's VLANs, in which no rule can name a queue."""
    in_vlan_header: bool = False
    """Rules name the queue in the header of the VLAN. The program sets its priority to 0."""
    by_dscp: bool = False
    """No rule of Sluice chooses the queue: the program counts packets by their DSCP …"""
    queue_of: tuple[int, ...] = ()
    """… and chooses the queue of each DSCP by this. Empty: it changes nothing."""

    def pack(self, place: int) -> bytes:
        """Return the settings as struct port_settings of bpf/port.h, for the port at this place in its arrays."""
        phantom_rate_bps = self.rate_bps * self.phantom_percent // 100 if self.phantom_mark_bytes else 0
        backlog = (self.rate_bps, self.mark_bytes or 0, self.buffer_bytes, self.mark_max_bytes or 0)
        by_rule = _BY_HEADER if self.in_vlan_header else _BY_RULE
        phantom = (phantom_rate_bps, self.phantom_mark_bytes or 0)
        return struct.pack(
            _LAYOUT,
            *backlog,
            *phantom,
            mark_most_q32(self.mark_chance),
            self.release_ns,
            self.sub_queues or 0,
            last_mark_bytes(self.mark_bytes, self.last_mark_factor),
            self.last_queue,
            _MARK_BY[self.mark_by],
            self.urgent_first,
            self.vlan_queue,
            (_QUEUES_DSCP if self.queue_of else _COUNTS_DSCP) if self.by_dscp else by_rule,
            bytes(self.queue_of),
            place,
        )
