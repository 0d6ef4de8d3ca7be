# SPDX-License-Identifier: Apache-2.0
"""Drives the simulator from a program: start flows, run to a time or to the next end, look at ports and senders.

`docs/how-to/drive-the-simulator.md` explains every name. Besides `sluice.plugin`, this module alone is public.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np

from sluice.policy.errors import FieldError, guess
from sluice.policy.figures.metrics import IdealTimes
from sluice.policy.schema.kinds import Whole
from sluice.policy.units import MAX_FLOW_BYTES, MIN_FLOW_BYTES, PS_PER_S, PS_PER_US, US_PER_S
from sluice.policy.workload.listed_flows import ExplicitFlow, batch_of
from sluice.runs.files import read_document, scenario_with
from sluice.simulator import build
from sluice.simulator.taps import OUTCOMES, ThresholdsMoved

__all__ = ["EndedFlow", "Network", "PortState", "SenderState"]

_NO_FLOWS = {"flows": 1, "interarrival": "1s", "mix": [{"bytes": "64B", "share": 1.0}]}


@dataclass(frozen=True)
class EndedFlow:
    """A flow that has ended."""

    number: int
    """As `Network.start` returned it."""
    source: str
    to: str
    bytes: int
    label: str
    started_s: float
    fct_s: float
    ideal_s: float
    """FCT of the same flow alone in the network."""
    outcome: str
    """finished, or killed (DATCP quenched it)."""
    retransmissions: int
    """Packets."""

    @property
    def slowdown(self) -> float:
        """FCT over ideal FCT."""
        return self.fct_s / self.ideal_s


@dataclass(frozen=True)
class PortState:
    """A switch's port now. All but the first are sums since the start."""

    waiting_bytes: int
    """Without the packet that it is sending."""
    sent_bytes: int
    sent_packets: int
    marked_packets: int
    dropped_packets: int


@dataclass(frozen=True)
class SenderState:
    """The sender of a flow that has started and not ended."""

    acked_bytes: int
    window_packets: int
    rtt_s: float
    """Smoothed."""


class Network:
    """The network and policy of a scenario, without flows.

    The scenario's own workload does not run, and may be missing. It says for which sizes and load a policy computes
    thresholds (`thresholds = "optimal"`) and Homa its levels.
    """

    def __init__(self, scenario: str | Path | Mapping[str, Any]) -> None:
        """`scenario`: a file, or its content. Raises SluiceError that names the key, or what is missing to compile."""
        document = read_document(Path(scenario)) if isinstance(scenario, str | Path) else scenario
        given = {key: value for key, value in document.items() if key != "sweep"}
        resolved = scenario_with({"name": "network", "workload": _NO_FLOWS, **given})
        build.build()
        # Only now, because they import the compiled core.
        from sluice.simulator import flows, run

        self._thresholds: dict[str, tuple[int, ...]] = {}
        self.scenario, self.topology = resolved.scenario, resolved.topology
        self._loop = run.PolicyLoop(self.scenario, self.topology, self._note_thresholds)
        self._fabric, layout = self._loop.fabric, self._loop.layout
        self._slice_events, self._columns_of = run.SLICE_EVENTS, flows.fabric_columns
        self._index, self._rows = layout.host, layout.port
        self._ideal = IdealTimes(self.topology)
        self._loop.report_start()
        self._due: list[tuple[int, int, ExplicitFlow]] = []
        self._flows: dict[int, tuple[ExplicitFlow, float]] = {}
        self._numbers = 0

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return self._fabric.now_ps / PS_PER_S

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts."""
        return list(self._index)

    def start(
        self,
        source: str,
        to: str,
        size_bytes: int,
        *,
        delay_s: float = 0.0,
        deadline_s: float | None = None,
        label: str = "",
    ) -> int:
        """Start a flow in `delay_s` seconds from now, and return its number. The deadline counts from its start.

        Raises FieldError that names the argument.
        """
        for name, value in (("source", source), ("to", to)):
            if value not in self._index:
                raise FieldError(name, f"{value!r} is not a host{guess(str(value), self._index)}")
        if source == to:
            raise FieldError("to", "must differ from source")
        if delay_s < 0:
            raise FieldError("delay_s", f"must not be negative, not {delay_s}")
        flow = ExplicitFlow(
            source=source,
            to=to,
            start_s=0.0,
            bytes=Whole(MIN_FLOW_BYTES, MAX_FLOW_BYTES, "bytes").read("size_bytes", int(size_bytes)),
            deadline_us=None if deadline_s is None else deadline_s * US_PER_S,
            label=label,
        )
        number, self._numbers = self._numbers, self._numbers + 1
        heappush(self._due, (self._fabric.now_ps + round(delay_s * PS_PER_S), number, flow))
        return number

    def run(self, until_s: float, *, to_next_end: bool = False) -> list[EndedFlow]:
        """Run until this time, or with `to_next_end` at most until a flow ends, and return the flows that have ended.

        Thresholds that adapt do so meanwhile. Raises FieldError if the time has passed.
        """
        until_ps = round(until_s * PS_PER_S)
        if until_ps < self._fabric.now_ps:
            raise FieldError("until_s", f"must not be before {self.now_s}, not {until_s}")
        ended: list[EndedFlow] = []
        while True:
            self._begin()
            next_ps = self._due[0][0] if self._due else until_ps
            stop_ps = min(until_ps, next_ps, self._loop.next_ps)
            reached = self._fabric.run(stop_ps, self._slice_events, to_next_end)
            ended += self._take()
            if reached:
                self._loop.act(self._fabric.now_ps)
            if (ended and to_next_end) or (reached and self._fabric.now_ps >= until_ps):
                return ended

    def ports(self) -> dict[str, PortState]:
        """Return the state of each switch's port, by its id, for example "s1:2"."""
        rows = self._fabric.port_statistics()
        return {
            port: PortState(
                waiting_bytes=int(rows[row][5]),
                sent_bytes=int(rows[row][1]),
                sent_packets=int(rows[row][0]),
                marked_packets=int(rows[row][2]),
                dropped_packets=int(rows[row][3]),
            )
            for port, row in self._rows.items()
        }

    def senders(self) -> dict[int, SenderState]:
        """Return the state of each sender, by the number of its flow. Senders of messages (Homa) have no window."""
        columns = self._fabric.senders()
        states = zip(columns["acked_bytes"], columns["cwnd"], columns["rtt_us"], strict=True)
        return {
            number: SenderState(int(acked), int(window), int(rtt_us) / US_PER_S)
            for number, (acked, window, rtt_us) in zip(columns["id"].tolist(), states, strict=True)
        }

    def thresholds(self) -> dict[str, tuple[int, ...]]:
        """Return the demotion thresholds of each switch's port, in bytes."""
        return dict(self._thresholds)

    def _note_thresholds(self, moved: ThresholdsMoved) -> None:
        self._thresholds[moved.port] = moved.thresholds_bytes

    def _begin(self) -> None:
        """Start what is due."""
        now_ps = self._fabric.now_ps
        while self._due and self._due[0][0] <= now_ps:
            _, number, flow = heappop(self._due)
            begun = ExplicitFlow(**{**vars(flow), "start_s": now_ps / PS_PER_S})
            batch = batch_of(number, [begun], self._index, self._ideal)
            self._flows[number] = begun, float(batch.ideal_us[0])
            self._fabric.add_flows(**self._columns_of(batch, {}))

    def _take(self) -> list[EndedFlow]:
        columns = self._fabric.take_results()
        order = np.argsort(columns["id"], kind="stable")
        return [self._ended({name: column[i] for name, column in columns.items()}) for i in order]

    def _ended(self, result: Mapping[str, Any]) -> EndedFlow:
        number = int(result["id"])
        flow, ideal_us = self._flows.pop(number)
        return EndedFlow(
            number=number,
            source=flow.source,
            to=flow.to,
            bytes=flow.bytes or 0,
            label=flow.label,
            started_s=flow.start_s,
            fct_s=int(result["fct_ps"]) / PS_PER_S,
            ideal_s=ideal_us * PS_PER_US / PS_PER_S,
            outcome=OUTCOMES[int(result["outcome"])],
            retransmissions=int(result["retransmissions"]),
        )
