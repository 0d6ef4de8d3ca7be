# SPDX-License-Identifier: Apache-2.0
"""The part of a run's schedule that one host sends, read from the file that the runner writes:

{"connections": "new" | "persistent", "scheme": "pias",
 "addresses": {"h1": "10.0.0.1", …}, "flows": [a policy.workload.Flow as an object, …]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hostagent.wire import HEADER_BYTES
from policy.errors import FieldError

CONNECTIONS = ("new", "persistent")


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


@dataclass(frozen=True)
class Schedule:
    """Flows of one host by start time; a flow's place in `flows` is its sequence number."""

    flows: tuple[ScheduledFlow, ...]
    addresses: Mapping[str, str]
    persistent: bool
    """Flows to one destination share connections, one after the other."""
    scheme: str

    @property
    def last_start_s(self) -> float:
        return self.flows[-1].start_s if self.flows else 0.0


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
    return Schedule(tuple(mine), addresses, connections == "persistent", str(document.get("scheme", "none")))


def _flow(index: int, entry: Any, addresses: Mapping[str, str]) -> ScheduledFlow:
    try:
        flow = ScheduledFlow(**{field.name: entry[field.name] for field in fields(ScheduledFlow)})
    except (KeyError, TypeError) as error:
        raise FieldError(f"flows[{index}]", f"lacks {error}") from None
    if not isinstance(flow.bytes, int) or flow.bytes < HEADER_BYTES:
        raise FieldError(
            f"flows[{index}].bytes", f"must be at least {HEADER_BYTES}, the header's, not {flow.bytes}"
        )
    if flow.dst not in addresses:
        raise FieldError(f"flows[{index}].dst", f"{flow.dst!r} has no address in addresses")
    return flow
