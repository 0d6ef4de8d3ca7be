# SPDX-License-Identifier: Apache-2.0
"""DSCPs that belong to others: hosts write no tag with these values, and keep them where others have set them.

A flow that would get a reserved tag gets the next tag of the same kind instead. It is the next larger one for
attained service and known sizes: a larger tag promises less, so it is true as well. For urgency it is the next less
urgent one. If the kind has no such tag, the nearest on the other side is written.
"""

from __future__ import annotations

from collections.abc import Collection

from sluice.policy import tags

LOWEST, HIGHEST = 1, tags.BACKGROUND - 1
"""Background is the controller's own: it demotes hosts with it. DSCP 62 and 63 are no tags."""
MOST = 32
"""Fewer than the tags of attained service, so one of them remains."""

_KINDS = (
    (tags.ATTAINED_FIRST, tags.ATTAINED_LAST, 1),
    (tags.URGENCY_FIRST, tags.URGENCY_LAST, -1),
    (tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST, 1),
)
"""First and last tag of each kind, and the direction in which a tag promises less."""


def written_tag(tag: int, reserved: Collection[int]) -> int:
    """Return the tag that a host writes in place of `tag`."""
    if tag not in reserved:
        return tag
    for first, last, direction in _KINDS:
        if first <= tag <= last:
            return _nearest(tag, first, last, direction, reserved)
    return tag


def last_attained(reserved: Collection[int]) -> int:
    """Return the largest tag of attained service that is not reserved. It has no upper edge."""
    return max(tag for tag in range(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1) if tag not in reserved)


def _nearest(tag: int, first: int, last: int, direction: int, reserved: Collection[int]) -> int:
    """A kind without any free tag becomes background traffic."""
    free = [other for other in range(first, last + 1) if other not in reserved]
    ahead = [other for other in free if (other - tag) * direction > 0]
    return min(ahead or free, key=lambda other: abs(other - tag), default=tags.BACKGROUND)
