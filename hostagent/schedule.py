# SPDX-License-Identifier: Apache-2.0
"""The part of a run's schedule that one host sends, read from the file that the runner writes:

{"connections": "new" | "persistent", "scheme": "pias", "sample_ms": 100 | null, "max_window": 50 | null,
 "addresses": {"h1": "10.0.0.1", …}, "flows": [a policy.workload.Flow as an object, …]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from hostagent.wire import HEADER_BYTES
from policy.errors import FieldError

CONNECTIONS = ("new", "persistent")
QUENCH = ("never", "kill", "suspend")


@dataclass(frozen=True, slots=True)
class ScheduledFlow:
    """The fields of policy.workload.Flow, without that module's weight: a dozen agents share one machine."""

    id: str
    start_s: float
    src: str
    dst: str
    bytes: int
    size_class: str
    ideal_us: float
    deadline_us: float | None
    elapsed_us: float | None = None
    until_s: float | None = None
    importance: float | None = None
    importance_share: float | None = None
    quench: Literal["never", "kill", "suspend"] = "never"
    label: str = ""
    size_known: bool = False

    @property
    def endless(self) -> bool:
        """Sent until `until_s`, however much that is: background, no part of a run's result."""
        return self.until_s is not None


_NEEDED = [field.name for field in fields(ScheduledFlow) if field.default is MISSING]
_OPTIONAL = [field.name for field in fields(ScheduledFlow) if field.default is not MISSING]


@dataclass(frozen=True)
class Schedule:
    """Flows of one host by start time; a flow's place in `flows` is its sequence number."""

    flows: tuple[ScheduledFlow, ...]
    addresses: Mapping[str, str]
    persistent: bool
    """Flows to one destination share connections, one after the other."""
    scheme: str
    sample_ms: int | None = None
    """Time between two samples of every flow under way; None: none are taken."""
    max_window: int | None = None
    """Packets that the senders to this host may have under way at most; None: as many as they like."""
    addresses6: Mapping[str, str] = field(default_factory=dict)
    """IPv6 addresses of the hosts, for other programs' connections to be told by name."""

    @property
    def names(self) -> dict[str, str]:
        """Address -> name of every host."""
        return {address: name for by in (self.addresses, self.addresses6) for name, address in by.items()}

    @property
    def last_s(self) -> float:
        """When the last flow starts, or the last endless one ends."""
        return max((flow.until_s or flow.start_s for flow in self.flows), default=0.0)


EMPTY = Schedule((), {}, False, "none")


def load_schedule(path: Path, host: str) -> Schedule:
    """Read the file and keep the flows that `host` sends. FieldError names what is wrong."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FieldError(str(path), f"is not a readable schedule ({error})") from None
    return schedule_from_document(document, host)


def schedule_from_document(document: object, host: str) -> Schedule:
    """Check a parsed schedule file. FieldError names the field."""
    if not isinstance(document, Mapping):
        raise FieldError("schedule", "must be an object")
    connections = document.get("connections", "new")
    if connections not in CONNECTIONS:
        raise FieldError("connections", f"must be one of {', '.join(CONNECTIONS)}, not {connections!r}")
    addresses = document.get("addresses", {})
    flows = [_flow(i, entry, addresses) for i, entry in enumerate(document.get("flows", []))]
    mine = sorted((flow for flow in flows if flow.src == host), key=lambda flow: flow.start_s)
    return Schedule(
        flows=tuple(mine),
        addresses=addresses,
        persistent=connections == "persistent",
        scheme=str(document.get("scheme", "none")),
        sample_ms=_optional_whole(document, "sample_ms"),
        max_window=_optional_whole(document, "max_window"),
        addresses6=document.get("addresses6", {}),
    )


def _optional_whole(document: Mapping[str, Any], field: str) -> int | None:
    value = document.get(field)
    if value is not None and (not isinstance(value, int) or value < 1):
        raise FieldError(field, f"must be a whole number, 1 or more, or null, not {value!r}")
    return value


def _flow(index: int, entry: Any, addresses: Mapping[str, str]) -> ScheduledFlow:
    try:
        needed = {name: entry[name] for name in _NEEDED}
        flow = ScheduledFlow(**needed, **{name: entry[name] for name in _OPTIONAL if name in entry})
    except (KeyError, TypeError) as error:
        raise FieldError(f"flows[{index}]", f"lacks {error}") from None
    if not isinstance(flow.bytes, int) or flow.bytes < HEADER_BYTES:
        raise FieldError(
            f"flows[{index}].bytes", f"must be at least {HEADER_BYTES}, the header's, not {flow.bytes}"
        )
    if flow.quench not in QUENCH:
        raise FieldError(f"flows[{index}].quench", f"must be one of {', '.join(QUENCH)}, not {flow.quench!r}")
    if flow.dst not in addresses:
        raise FieldError(f"flows[{index}].dst", f"{flow.dst!r} has no address in addresses")
    return flow
