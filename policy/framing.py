# SPDX-License-Identifier: Apache-2.0
"""What a flow's bytes come to on a link: TCP segments in Ethernet frames, as shapers and the simulator count them."""

from __future__ import annotations

MSS_BYTES = 1448
"""TCP payload of a full segment with time stamps on a 1500-byte MTU."""
FRAME_BYTES = 1514
"""The same segment on the link, as a shaper counts it."""
HEADER_BYTES = FRAME_BYTES - MSS_BYTES
"""What every segment carries beside its payload."""
WIRE_PER_PAYLOAD = FRAME_BYTES / MSS_BYTES

MIN_FLOW_BYTES = 64
"""Flows are at least this long: room for the header that travels in front of the payload."""
