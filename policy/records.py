# SPDX-License-Identifier: Apache-2.0
"""The record of one flow: what an agent delivers, the store keeps and every report is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from policy.errors import FieldError

SMALL_LIMIT_BYTES = 100_000
MEDIUM_LIMIT_BYTES = 10_000_000
SIZE_CLASSES = ("small", "medium", "large")
FINISHED, UNFINISHED = "finished", "unfinished"
SCHEDULED, WATCHED, BACKGROUND = "scheduled", "watched", "background"
SOURCES = (SCHEDULED, WATCHED, BACKGROUND)

_ID = re.compile(r"[A-Za-z0-9._:/-]{1,96}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SCHEME = re.compile(r"[A-Za-z0-9._+-]{1,64}")
_ENDPOINT = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_MAX_BYTES = 10**13
_MAX_US = 10**12


def size_class(size_bytes: int, scale: float = 1.0) -> str:
    """small <= 100 KB < medium <= 10 MB < large (as in the papers), limits scaled with the workload."""
    if size_bytes <= SMALL_LIMIT_BYTES * scale:
        return "small"
    return "medium" if size_bytes <= MEDIUM_LIMIT_BYTES * scale else "large"


def size_classes(sizes_bytes: npt.NDArray[np.integer[Any]], scale: float = 1.0) -> npt.NDArray[np.uint8]:
    """Indices in SIZE_CLASSES, as `size_class` has it."""
    limits = (SMALL_LIMIT_BYTES * scale, MEDIUM_LIMIT_BYTES * scale)
    return np.searchsorted(limits, sizes_bytes, side="left").astype(np.uint8)


@dataclass(frozen=True)
class FlowRecord:
    """One flow, finished or not. Times in microseconds; `started_at` in seconds of the Unix epoch.

    A scheduled flow is one that an agent sent for a run: figures are made of those. A watched one is a TCP
    connection of any other program as the kernel saw it: how fast it could have been is not known.
    Background is an agent's endless flow, sent beside a run's others: its bytes are what arrived until its end.
    """

    id: str
    """Unique over runs; delivering a record again changes nothing."""
    src: str
    """Name of the host, or its address where the name is not known."""
    dst: str
    bytes: int
    size_class: str
    started_at: float
    fct_us: float | None
    """Flow completion time seen at the receiver: sender's connect() to last byte read; None when unfinished.

    Of a watched flow as its sender's kernel knows it: to the acknowledgement of the last byte.
    """
    ideal_us: float | None
    """FCT of the same flow alone in the network; None where nobody knows, as of watched flows."""
    deadline_us: float | None
    met: bool | None
    """Whether the deadline was met; None without a deadline. An unfinished flow has missed."""
    retransmissions: int | None
    """Segments that the sender sent again; None where only the receiver was watched."""
    congestion_control: str
    scheme: str
    status: str
    reason: str = ""
    """Why an unfinished flow did not finish."""
    source: str = SCHEDULED
    src_port: int | None = None
    """TCP ports; None where they do not matter, as for scheduled flows."""
    dst_port: int | None = None
    lasted_us: float | None = None
    """Life of a watched flow's connection, silence included."""
    timeouts: int | None = None
    """Retransmission timeouts; None where not recorded."""
    srtt_us: float | None = None
    """Smoothed round-trip time at the end; None where not recorded."""

    @property
    def slowdown(self) -> float | None:
        return None if self.fct_us is None or self.ideal_us is None else self.fct_us / self.ideal_us

    def to_document(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_document(cls, document: object) -> FlowRecord:
        """Check a record; FieldError names the first bad field."""
        if not isinstance(document, Mapping):
            raise FieldError("flow", "must be an object")
        for key in document.keys() - _FIELDS:
            raise FieldError(str(key)[:64], "is not a field of a flow record")
        get = document.get
        record = cls(
            id=_text("id", get("id"), _ID),
            src=_text("src", get("src"), _ENDPOINT),
            dst=_text("dst", get("dst"), _ENDPOINT),
            bytes=_whole("bytes", get("bytes"), 1, _MAX_BYTES),
            size_class=_one_of("size_class", get("size_class"), SIZE_CLASSES),
            started_at=_number("started_at", get("started_at"), 0, 10**11),
            fct_us=_optional("fct_us", get("fct_us"), 0, _MAX_US),
            ideal_us=_optional("ideal_us", get("ideal_us"), 0.001, _MAX_US),
            deadline_us=_optional("deadline_us", get("deadline_us"), 0, _MAX_US),
            met=_boolean("met", get("met")),
            retransmissions=_optional_whole("retransmissions", get("retransmissions"), 0, 2**40),
            congestion_control=_text("congestion_control", get("congestion_control"), _NAME),
            scheme=_text("scheme", get("scheme"), _SCHEME),
            status=_one_of("status", get("status"), (FINISHED, UNFINISHED)),
            reason=_free_text("reason", get("reason", "")),
            source=_one_of("source", get("source", SCHEDULED), SOURCES),
            src_port=_optional_whole("src_port", get("src_port"), 1, 65_535),
            dst_port=_optional_whole("dst_port", get("dst_port"), 1, 65_535),
            lasted_us=_optional("lasted_us", get("lasted_us"), 0, _MAX_US),
            timeouts=_optional_whole("timeouts", get("timeouts"), 0, 2**40),
            srtt_us=_optional("srtt_us", get("srtt_us"), 0, _MAX_US),
        )
        if (record.fct_us is None) != (record.status == UNFINISHED):
            raise FieldError("fct_us", "is there exactly when the flow has finished")
        if (record.met is None) != (record.deadline_us is None):
            raise FieldError("met", "is there exactly when the flow has a deadline")
        if record.source == SCHEDULED:
            for name in ("ideal_us", "retransmissions"):
                if getattr(record, name) is None:
                    raise FieldError(name, "may be null only for flows that are not scheduled")
        return record


_FIELDS = frozenset(f.name for f in fields(FlowRecord))


def _text(field: str, value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise FieldError(field, f"must be text matching {pattern.pattern}")
    return value


def _free_text(field: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > 200 or "\x00" in value:
        raise FieldError(field, "must be text of at most 200 characters")
    return value


def _one_of(field: str, value: object, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise FieldError(field, f"must be one of {', '.join(allowed)}")
    return str(value)


def _whole(field: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise FieldError(field, f"must be a whole number from {low} to {high}")
    return value


def _number(field: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise FieldError(field, f"must be a number from {low:g} to {high:g}")
    return float(value)


def _optional(field: str, value: object, low: float, high: float) -> float | None:
    return None if value is None else _number(field, value, low, high)


def _optional_whole(field: str, value: object, low: int, high: int) -> int | None:
    return None if value is None else _whole(field, value, low, high)


def _boolean(field: str, value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise FieldError(field, "must be true, false or null")
    return value
