# SPDX-License-Identifier: Apache-2.0
"""What the port program does at a port. This module loads no BPF library."""

import struct
from dataclasses import dataclass

from sluice.dataplane.flow_queues import QUEUES
from sluice.policy.schemes.ports import PHANTOM_PERCENT, MarkBy, last_mark_bytes

DSCPS = 64
_LAYOUT = f"=7QIxxxxQIIIxxxxII{DSCPS}s"
"""struct sl_vq_settings; struct sl_dqs_settings; struct sl_by_rank; the queue of VLANs; queues by DSCP."""
_BY_RULE, _COUNTS_DSCP, _QUEUES_DSCP = range(3)

_MARK_BY: dict[str, int] = {MarkBy.PORT: 0, MarkBy.QUEUE: 1, MarkBy.AHEAD: 2}
"""enum sl_mark_by."""


@dataclass(frozen=True)
class PortSettings:
    """Settings of one port. The virtual queue drains at `rate_bps`, which should be the real rate of the port's HTB.

    The numbers are in the ranges of a checked PortBehaviour.
    """

    rate_bps: int
    """0: the port neither marks nor drops."""
    mark_bytes: int | None
    """K, or min of the ramp. A packet that finds a larger backlog is (on a ramp: may be) marked. None: no marks."""
    buffer_bytes: int
    """The port drops a packet that does not fit within this limit."""
    mark_max_bytes: int | None = None
    """Max of the ramp. Above it every packet is marked, from min to max with linear probability. None: no ramp."""
    phantom_mark_bytes: int | None = None
    """A packet that finds a larger phantom queue is marked. None: there is no phantom queue."""
    phantom_percent: int = PHANTOM_PERCENT
    """The phantom queue drains at this share of `rate_bps`."""
    sub_queues: int | None = None
    """Flow queues in each priority. None: a priority is one queue."""
    release_ns: int = 0
    """An empty flow queue stays assigned to its flow for this time."""
    vlan_queue: int = 0
    """The queue of frames of the operator's VLANs, in which no rule can name a queue."""
    by_dscp: bool = False
    """No rule of Sluice chooses the queue: the program counts packets by their DSCP …"""
    queue_of: tuple[int, ...] = ()
    """… and chooses the queue of each DSCP by this. Empty: it changes nothing."""
    urgent_first: bool = False
    """The port drops what is least urgent first (laws/drop_order.h). Otherwise it drops what does not fit."""

    mark_by: str = MarkBy.PORT
    """The backlog that is compared with `mark_bytes`."""
    last_queue: int = QUEUES - 1
    """The lowest queue, in which …"""
    last_mark_factor: int = 1
    """… the threshold is this multiple of `mark_bytes`."""

    def pack(self) -> bytes:
        """Return the settings as struct port_settings of bpf/port.h."""
        phantom_rate_bps = self.rate_bps * self.phantom_percent // 100 if self.phantom_mark_bytes else 0
        backlog = (self.rate_bps, self.mark_bytes or 0, self.buffer_bytes, self.mark_max_bytes or 0)
        phantom = (phantom_rate_bps, self.phantom_mark_bytes or 0)
        return struct.pack(
            _LAYOUT,
            *backlog,
            *phantom,
            self.release_ns,
            self.sub_queues or 0,
            last_mark_bytes(self.mark_bytes, self.last_mark_factor),
            self.last_queue,
            _MARK_BY[self.mark_by],
            self.urgent_first,
            self.vlan_queue,
            (_QUEUES_DSCP if self.queue_of else _COUNTS_DSCP) if self.by_dscp else _BY_RULE,
            bytes(self.queue_of),
        )
