# SPDX-License-Identifier: Apache-2.0
"""What a program declares of a flow, and its form in the kernel (dataplane/include/sluice.h).

The message for a text such as "5ms" shows the number to write.
"""

import operator
import re
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict

from sluice.policy.errors import FieldError

HAS_SIZE, HAS_DEADLINE, HAS_IMPORTANCE, HAS_QUENCH, HAS_CONTROL = 0x1, 0x2, 0x4, 0x8, 0x10
FLOW = struct.Struct("=IIQqQII16s")
"""struct sluice_flow: fields, quench, size_bytes, deadline_ns, elapsed_ns, importance_milli, its share, control."""

IMPORTANCE_MAX = 8.0

FASTEST_LINK_GBIT = 800
"""No Ethernet link is faster, so no network meets a deadline that needs more."""

_QUANTITY = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*")
_SECONDS: Mapping[str, float] = {"": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
_BYTES: Mapping[str, float] = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_INT64_MAX = 2**63 - 1
_CONTROL_CHARACTERS_MAX = 15

Quench = Literal["never", "kill", "suspend"]
_QUENCHES: tuple[Quench, ...] = ("never", "kill", "suspend")


class WrongField(FieldError, ValueError):
    """A field of the declaration has a value that is not allowed. The socket is unchanged."""


class FlowFields(TypedDict, total=False):
    """The fields that a program can declare. The kernel treats a missing field as unknown."""

    size_bytes: int
    """Size of the whole flow, at least 1."""
    deadline_s: float
    """Seconds from now, above 0."""
    elapsed_s: float
    """Only with deadline_s: how long ago the flow began, if it waited in the program; 0 or more."""
    importance: float
    """0.001 … 8; a standard flow has 1. Only sluice_datcp uses it."""
    importance_share: float
    """Only with importance: its share of the precedence, 0 … 1, default 0.5. Urgency has the rest."""
    quench: Quench
    """What sluice_datcp does if the flow cannot meet its deadline."""
    congestion_control: str
    """The control to select: sluice_ucp, sluice_d2tcp, sluice_datcp, sluice_mcp or one of the kernel's."""


@dataclass(frozen=True, slots=True)
class DeclaredFlow:
    """The declaration that the kernel holds for a socket. None: the program has not declared the field."""

    size_bytes: int | None
    deadline_s: float | None
    """Time left; negative after the deadline."""
    elapsed_s: float | None
    """Time since the flow began; only for a flow with a deadline."""
    importance: float | None
    importance_share: float | None
    quench: Quench | None
    congestion_control: str
    """The socket's control, whether declared or not."""


def check_intent(flow: FlowFields) -> None:
    """Raise WrongField if a program cannot mean this: a declaration of nothing, or a deadline that no link can meet."""
    given = {field: value for field, value in flow.items() if value is not None}
    if not given:
        raise WrongField(
            "declare",
            "names no field: give at least one, for example size_bytes and deadline_s; undeclare() begins a flow of "
            "which nothing is known",
        )
    if "size_bytes" in given and "deadline_s" in given:
        size_bytes, deadline_ns = _size(flow["size_bytes"]), _deadline_ns(flow["deadline_s"])
        needed_gbit = 8 * size_bytes / deadline_ns
        if needed_gbit > FASTEST_LINK_GBIT:
            raise WrongField(
                "deadline_s",
                f"is hopeless: {size_bytes} bytes in {deadline_ns / 1e9:g} s need {needed_gbit:,.0f} Gb/s, and no link "
                f"has more than {FASTEST_LINK_GBIT} Gb/s: give more time or fewer bytes, or leave deadline_s out",
            )


def pack_flow(
    *,
    size_bytes: int | None = None,
    deadline_s: float | None = None,
    elapsed_s: float | None = None,
    importance: float | None = None,
    importance_share: float | None = None,
    quench: Quench | None = None,
    congestion_control: str | None = None,
) -> bytes:
    """Return the struct sluice_flow of these fields (see FlowFields). Raises WrongField."""
    bits = (
        (size_bytes, HAS_SIZE),
        (deadline_s, HAS_DEADLINE),
        (importance, HAS_IMPORTANCE),
        (quench, HAS_QUENCH),
        (congestion_control, HAS_CONTROL),
    )
    return FLOW.pack(
        sum(bit for value, bit in bits if value is not None),
        _quench_number(quench),
        _size(size_bytes),
        _deadline_ns(deadline_s),
        _elapsed_ns(elapsed_s, deadline_s),
        *_importance_milli(importance, importance_share),
        _control_name(congestion_control),
    )


def unpack_flow(value: bytes) -> DeclaredFlow:
    """Return the DeclaredFlow in a struct sluice_flow."""
    fields, quench, size_bytes, deadline_ns, elapsed_ns, importance, share, control = FLOW.unpack(value)
    has_deadline, has_importance = fields & HAS_DEADLINE, fields & HAS_IMPORTANCE
    return DeclaredFlow(
        size_bytes=size_bytes if fields & HAS_SIZE else None,
        deadline_s=deadline_ns / 1e9 if has_deadline else None,
        elapsed_s=elapsed_ns / 1e9 if has_deadline else None,
        importance=importance / 1000 if has_importance else None,
        importance_share=share / 1000 if has_importance else None,
        quench=_QUENCHES[quench] if fields & HAS_QUENCH else None,
        congestion_control=control.split(b"\0")[0].decode(),
    )


def _require(holds: bool, field: str, problem: str) -> None:
    if not holds:
        raise WrongField(field, problem)


def _size(size_bytes: int | None) -> int:
    if size_bytes is None:
        return 0
    count = _whole_bytes("size_bytes", size_bytes)
    _require(1 <= count < 2**64, "size_bytes", f"must be at least 1 and below 2^64, not {count}")
    return count


def _deadline_ns(deadline_s: float | None) -> int:
    if deadline_s is None:
        return 0
    deadline_s = _seconds("deadline_s", deadline_s)
    holds = 0 < deadline_s * 1e9 <= _INT64_MAX and round(deadline_s * 1e9) > 0
    problem = f"must be in the future, by 1 ns to 292 years, not {deadline_s} s from now"
    _require(holds, "deadline_s", problem)
    return min(round(deadline_s * 1e9), _INT64_MAX)


def _elapsed_ns(elapsed_s: float | None, deadline_s: float | None) -> int:
    if elapsed_s is None:
        return 0
    alone = "has a meaning only with deadline_s: give both, or leave it out"
    _require(deadline_s is not None, "elapsed_s", alone)
    elapsed_s = _seconds("elapsed_s", elapsed_s)
    problem = f"must be 0 or more and less than this machine's uptime, not {elapsed_s}"
    _require(0 <= elapsed_s < time.monotonic(), "elapsed_s", problem)
    return round(elapsed_s * 1e9)


def _importance_milli(importance: float | None, share: float | None) -> tuple[int, int]:
    """Return the importance and its share, in thousandths."""
    if importance is None:
        alone = "has a meaning only with importance: give both, or leave it out"
        _require(share is None, "importance_share", alone)
        return 0, 0
    importance = _plain("importance", importance)
    problem = f"must be 0.001 … {IMPORTANCE_MAX:g}, not {importance}"
    _require(1 <= importance * 1000 <= IMPORTANCE_MAX * 1000, "importance", problem)
    share = 0.5 if share is None else _plain("importance_share", share)
    _require(0 <= share <= 1, "importance_share", f"must be 0 … 1, not {share}")
    return round(importance * 1000), round(share * 1000)


def _quench_number(quench: Quench | None) -> int:
    if quench is None:
        return 0
    _require(quench in _QUENCHES, "quench", f"must be one of {', '.join(_QUENCHES)}, not {quench!r}")
    return _QUENCHES.index(quench)


def _control_name(control: str | None) -> bytes:
    name = control.encode() if isinstance(control, str) else b""
    holds = control is None or (1 <= len(name) <= _CONTROL_CHARACTERS_MAX and b"\0" not in name)
    _require(holds, "congestion_control", f"must be a name of 1 … 15 characters, not {control!r:.80}")
    return name


def _seconds(field: str, value: Any) -> float:
    """Return a number of seconds. Raises WrongField for anything that is no number."""
    if isinstance(value, timedelta):
        raise WrongField(
            field, f"must be a number of seconds, not a timedelta: write {value.total_seconds():g}"
        )
    return _number(field, value, "a number of seconds", _SECONDS)


def _plain(field: str, value: Any) -> float:
    """Return a number without a unit. Raises WrongField for anything that is no number."""
    return _number(field, value, "a number", {"": 1})


def _whole_bytes(field: str, value: Any) -> int:
    """Return a whole number of bytes. Raises WrongField for anything else, also for the float 1e6."""
    what = "a whole number of bytes"
    if isinstance(value, bool):
        raise WrongField(field, f"must be {what}, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        number = _number(field, value, what, _BYTES)
    hint = f": write {number:.0f}" if number.is_integer() else ""
    raise WrongField(field, f"must be {what}, not {value!r}{hint}")


def _number(field: str, value: Any, what: str, units: Mapping[str, float]) -> float:
    if not isinstance(value, str | bytes | bool):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    # The hint says what to write instead of a text with a known unit.
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    scale = units.get(match[2].lower()) if match else None
    hint = "" if match is None or scale is None else f": write {float(match[1]) * scale:.15g}"
    raise WrongField(field, f"must be {what}, not {value!r:.80}{hint}")
