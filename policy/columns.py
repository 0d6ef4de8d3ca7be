# SPDX-License-Identifier: Apache-2.0
"""Columns of flows: the arithmetic of `framing` and `records` for numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from policy.framing import HEADER_BYTES, MSS_BYTES
from policy.records import MEDIUM_LIMIT_BYTES, SMALL_LIMIT_BYTES

Array = npt.NDArray[np.float64]


def wire_bytes(size_bytes: npt.NDArray[Any]) -> Array:
    """Bytes on a link of flows of these sizes, each segment with its headers."""
    wire: Array = size_bytes + HEADER_BYTES * np.ceil(size_bytes / MSS_BYTES)
    return wire


def size_classes(sizes_bytes: npt.NDArray[np.integer[Any]], scale: float = 1.0) -> npt.NDArray[np.uint8]:
    """Indices in SIZE_CLASSES, as `records.size_class` has it."""
    limits = (SMALL_LIMIT_BYTES * scale, MEDIUM_LIMIT_BYTES * scale)
    return np.searchsorted(limits, sizes_bytes, side="left").astype(np.uint8)
