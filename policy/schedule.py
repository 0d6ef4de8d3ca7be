# SPDX-License-Identifier: Apache-2.0
"""The schedule of a run: the run writes it for the agent of each host, and the agent reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sluice.policy import names
from sluice.policy.entries import TableOf, entry
from sluice.policy.framing import MAX_FLOW_BYTES, MIN_FLOW_BYTES
from sluice.policy.kinds import Choice, Flag, ListOf, MapOf, Number, Text, Whole
from sluice.policy.records import SIZE_CLASSES

Quench = Literal["never", "kill", "suspend"]
QUENCH: tuple[Quench, ...] = ("never", "kill", "suspend")
"""What may happen to a flow that cannot meet its deadline (Zhang et al., section 3.3)."""
MAX_FLOWS = 10**7

_TIME_S = Number(0, 10**6, "s")
_TIME_US = Number(0, 10**12, "us")
_ADDRESS = Text(r"[0-9A-Fa-f.:]{2,45}", what="an IP address")
_ADDRESSES = MapOf(names.ENDPOINT, _ADDRESS, 10**5)


@dataclass(frozen=True, slots=True)
class ScheduledFlow:
    """One flow of a run."""

    id: str = entry(names.FLOW_ID, "The run's id and the flow's number in it.")
    start_s: float = entry(_TIME_S, "Start, in seconds from the start of the run.")
    src: str = entry(names.ENDPOINT, "Sending host.")
    dst: str = entry(names.ENDPOINT, "Receiving host.")
    bytes: int = entry(
        Whole(MIN_FLOW_BYTES, MAX_FLOW_BYTES, "bytes"),
        "Payload; of an endless flow, the minimum that it sends.",
    )
    size_class: str = entry(Choice(SIZE_CLASSES), "small, medium or large.")
    ideal_us: float = entry(_TIME_US, "FCT of this flow alone in the network.")
    deadline_us: float | None = entry(_TIME_US, "Deadline, from the flow's start.", nullable=True)
    elapsed_us: float | None = entry(
        _TIME_US, "How long the flow waited in its program before its start.", default=None
    )
    until_s: float | None = entry(_TIME_S, "End of an endless flow, from the start of the run.", default=None)
    importance: float | None = entry(Number(0, 100), "Importance; a standard flow has 1.", default=None)
    importance_share: float | None = entry(
        Number(0, 1), "Share of the importance in the precedence; its urgency has the rest.", default=None
    )
    quench: Quench = entry(
        Choice(QUENCH), "What happens if the flow cannot meet its deadline.", default="never"
    )
    label: str = entry(Text(longest=64), "Name for samples and plots.", default="")
    size_known: bool = entry(Flag(), "The program declares how much it will send.", default=False)

    @property
    def endless(self) -> bool:
        """Whether the flow is sent until `until_s`. It is background traffic, not part of a run's result."""
        return self.until_s is not None


@dataclass(frozen=True)
class Schedule:
    """The flows of one host, by start time. A flow's index in `flows` is its sequence number."""

    scheme: str = entry(names.SCHEME, "Scheme for flow records until the web process reports one.")
    connections: str = entry(Choice(("new", "persistent")), "As in a scenario's [transport].", default="new")
    sample_ms: int | None = entry(
        Whole(1, 10**6, "ms"), "Time between two samples of every flow. Null: no samples.", default=None
    )
    max_window: int | None = entry(
        Whole(1, 10**6, "packets"),
        "The most packets that senders to this host have in flight. Null: no limit.",
        default=None,
    )
    addresses: Mapping[str, str] = entry(_ADDRESSES, "Host: IPv4 address.", default={})
    addresses6: Mapping[str, str] = entry(
        _ADDRESSES, "Host: IPv6 address, to name the ends of other programs' connections.", default={}
    )
    flows: tuple[ScheduledFlow, ...] = entry(
        ListOf(TableOf(ScheduledFlow), longest=MAX_FLOWS), "The flows.", default=()
    )

    @property
    def persistent(self) -> bool:
        """Whether flows to one destination share connections, one after the other."""
        return self.connections == "persistent"

    @property
    def names(self) -> dict[str, str]:
        """Address → name of every host."""
        return {address: name for by in (self.addresses, self.addresses6) for name, address in by.items()}

    @property
    def last_s(self) -> float:
        """The time of the last flow's start, or of the last endless flow's end."""
        return max((flow.until_s or flow.start_s for flow in self.flows), default=0.0)

    def of_host(self, host: str) -> Schedule:
        """Return the part that a host sends, by start time."""
        mine = (flow for flow in self.flows if flow.src == host)
        return replace(self, flows=tuple(sorted(mine, key=lambda flow: flow.start_s)))


def by_source(flows: Sequence[ScheduledFlow]) -> Mapping[str, list[ScheduledFlow]]:
    """Return the flows that each host sends."""
    grouped: dict[str, list[ScheduledFlow]] = {}
    for flow in flows:
        grouped.setdefault(flow.src, []).append(flow)
    return grouped
