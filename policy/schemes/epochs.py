# SPDX-License-Identifier: Apache-2.0
"""QJUMP's network epoch, the latency that it bounds, and the limits of its levels.

Source: Grosvenor et al., "Queues don't matter when you can JUMP them!", NSDI 2015, section 3. The numbers of its
equations are from memory. n hosts, P bytes of the largest frame, R the rate of the slowest link of a host, ε what the
switches on a path add:

(1) If each host has one frame in the network, a frame waits at most for those of all others:

      delay <= n * P / R + ε

(2) So each host may send one frame in an epoch of that length. But the hosts' epochs do not begin together: a host may
    send at the end of one epoch and at the beginning of the next, so two frames of each may meet.

      epoch = 2 * n * P / R + ε        and   delay <= epoch

(3) The guaranteed level of a host has P / epoch, about R / (2 n).

(4) If only n' = n / f hosts take part, each may send f frames in an epoch within the same delay. So level i has the
    throughput factor f_i from 1, the guarantee, to n, and

      rate_i = f_i * P / epoch, about f_i * R / (2 n)

Here the last level has no limit. ε is the processing time of the switches in the paper. Here a switch takes no time to
decide, but it receives a frame whole, and a link may be busy with one frame of a lower level. With s switches on the
longest path, a frame takes `idle` there in an idle network, and s + 1 frames of lower levels may be in its way. Of its
own level there are 2 f (n' - 1) - 1 other frames, because the receiver is one of the n' hosts. It may wait again for
the 2 f - 1 others of its own host, if they took another path and meet it at the last link:

      delay <= idle + (s + 1 + 2 f (n' - 1) - 1 + 2 f - 1) * P / R = epoch     with   ε = idle + (s - 1) * P / R
"""

import math

from sluice.policy.units import BITS_PER_BYTE, FRAME_BYTES, NS_PER_S, NS_PER_US

MAX_FACTOR = 65_535
"""As many hosts as the simulator has at most."""


def network_epoch_ns(hosts: int, rate_bps: int, idle_us: float, switches: int) -> int:
    """Return the network epoch, rounded up to less than two nanoseconds more.

    `idle_us`: how long a full frame takes through the idle network at most. `switches`: on the longest path.
    """
    frames_bits = (2 * hosts + switches - 1) * FRAME_BYTES * BITS_PER_BYTE
    return -(-frames_bits * NS_PER_S // rate_bps) + math.ceil(round(idle_us * NS_PER_US, 3))


def level_bytes(factors: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many bytes of frames a host may send in an epoch at each limited level."""
    return tuple(factor * FRAME_BYTES for factor in factors)


def level_rates_bps(factors: tuple[int, ...], epoch_ns: int) -> tuple[int, ...]:
    """Return the rate of each limited level, rounded down, so that no host exceeds `level_bytes` in the long run."""
    return tuple(size * BITS_PER_BYTE * NS_PER_S // epoch_ns for size in level_bytes(factors))
