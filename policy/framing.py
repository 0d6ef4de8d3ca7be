# SPDX-License-Identifier: Apache-2.0
"""Sizes of TCP segments and Ethernet frames, as shapers and the simulator count them."""

from __future__ import annotations

MSS_BYTES = 1448
"""TCP payload of a full segment, with time stamps and an MTU of 1500 bytes."""
FRAME_BYTES = 1514
"""The same segment on the link, as a shaper counts it."""
HEADER_BYTES = FRAME_BYTES - MSS_BYTES
"""Bytes of a frame in addition to the segment's payload."""
WIRE_PER_PAYLOAD = FRAME_BYTES / MSS_BYTES

MIN_FLOW_BYTES = 64
"""Size of the smallest flow: its payload has room for the header of hostagent/wire.py."""
MAX_FLOW_BYTES = 10**13
"""Size of the largest flow."""
