# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of `framing` and `records` on columns of flows (numpy arrays)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy.framing import HEADER_BYTES, MSS_BYTES
from sluice.policy.records import MEDIUM_LIMIT_BYTES, SMALL_LIMIT_BYTES

Array = npt.NDArray[np.float64]


def wire_bytes(size_bytes: npt.NDArray[Any]) -> Array:
    """Bytes that flows of these sizes take on a link: payload, and the headers of every segment."""
    wire: Array = size_bytes + HEADER_BYTES * np.ceil(size_bytes / MSS_BYTES)
    return wire


def size_classes(sizes_bytes: npt.NDArray[np.integer[Any]], scale: float = 1.0) -> npt.NDArray[np.uint8]:
    """Size classes as indices in SIZE_CLASSES. The same rule as `records.size_class`."""
    limits = (SMALL_LIMIT_BYTES * scale, MEDIUM_LIMIT_BYTES * scale)
    return np.searchsorted(limits, sizes_bytes, side="left").astype(np.uint8)
