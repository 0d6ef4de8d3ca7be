# SPDX-License-Identifier: Apache-2.0
"""A host's part of a run's schedule: the files that the runner writes, the start of each flow at its time, samples.

Each flow has one record.
"""

import gzip
import json
import logging
import os
import time
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

from sluice.hostagent.journal import Journal, resume
from sluice.hostagent.loop import Loop
from sluice.hostagent.records import RESTARTED, RUN_ENDED, unfinished
from sluice.hostagent.sender import ActiveFlow, Sender
from sluice.hostagent.spool import Spool
from sluice.policy.errors import FieldError
from sluice.policy.figures.validity import DELAYS, delay_class
from sluice.policy.schema.entries import entries, read, write
from sluice.policy.units import NS_PER_MS, NS_PER_S
from sluice.policy.wire.records import FINISHED, FlowRecord, Schedule, ScheduledFlow

log = logging.getLogger(__name__)

SAMPLES = "samples.jsonl"
EMPTY = Schedule("none")
_GZIP = b"\x1f\x8b"
_FAST = 1
_NONE = object()
_FIELDS = [
    (each.key, each.name, _NONE if each.is_required else each.default) for each in entries(ScheduledFlow)
]


def load_schedule(path: Path, host: str) -> Schedule:
    """Return the schedule with the flows that `host` sends. Raises FieldError that names the file or the key."""
    try:
        content = path.read_bytes()
        document = json.loads(gzip.decompress(content) if content.startswith(_GZIP) else content)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise FieldError(str(path), f"is not a readable schedule ({error})") from None
    schedule = read(Schedule, document)
    for place, flow in enumerate(schedule.flows):
        if flow.dst not in schedule.addresses:
            raise FieldError(
                f"flows[{place}].dst", f"{flow.dst} has no address: add an entry {flow.dst} to addresses"
            )
    return schedule.of_host(host)


def write_schedule(path: Path, schedule: Schedule) -> None:
    """Write a schedule for `load_schedule`: a flow a line, without what has its default, compressed."""
    head = {key: value for key, value in write(replace(schedule, flows=())).items() if key != "flows"}
    with gzip.open(path, "wt", compresslevel=_FAST) as file:
        file.write(f'{json.dumps(head)[:-1]}, "flows": [')
        for number, flow in enumerate(schedule.flows):
            given = {
                key: value for key, name, default in _FIELDS if (value := getattr(flow, name)) != default
            }
            file.write(f"{',' if number else ''}\n{json.dumps(given)}")
        file.write("\n]}\n")


@dataclass(frozen=True)
class Transport:
    """The transport of new flows. A new policy replaces the whole object, because two threads read it."""

    congestion_control: str | None
    """None: the namespace's default."""
    scheme: str


@dataclass
class TrafficStatistics:
    """Counters since the agent's start. They leave out the flows of an earlier process of the same run."""

    started: int = 0
    finished: int = 0
    unfinished: int = 0
    retransmissions: int = 0
    timeouts: int = 0
    """Retransmission timeouts."""
    start_lag_max_us: float = 0.0
    """The largest delay of a flow's start against the schedule."""
    start_delays: list[int] = field(default_factory=lambda: [0] * DELAYS)
    """Flows by the delay of their start, in units of their ideal FCT."""


class Traffic:
    """Starts the schedule's flows from the loop, after `begin`."""

    def __init__(
        self, loop: Loop, schedule: Schedule, sender: Sender, spool: Spool, journal: Journal, grace_s: float
    ) -> None:
        self._loop = loop
        self._schedule = schedule
        self._sender = sender
        self._spool = spool
        self._journal = journal
        self._grace_s = grace_s
        self._next = 0
        self._active: dict[int, ActiveFlow] = {}
        self.statistics = TrafficStatistics()
        self.transport = Transport(None, schedule.scheme)
        self.epoch_ns = 0
        """CLOCK_MONOTONIC time of the schedule's start; set by `begin`."""
        self.done = False
        """Whether all flows of the schedule are recorded."""

    @property
    def active(self) -> int:
        """Number of flows that have started and not ended."""
        return len(self._active)

    def begin(self, start_at: float) -> None:
        """Record the flows that an earlier process owes, then run the schedule from `start_at` (epoch, s)."""
        self._start_at = start_at
        self.epoch_ns = round(start_at * NS_PER_S) - (time.time_ns() - time.monotonic_ns())
        earlier, recorded = self._journal.read(), self._spool.ids()
        owed, self._next = resume(earlier, self._schedule, start_at, recorded, time.time())
        for record in owed:
            self._keep(record)
        self._checkpoint()
        end_ns = self._due_ns(self._schedule.last_s + self._grace_s)
        self._loop.call_at(end_ns, lambda: self._sender.abandon(RUN_ENDED))
        self._plan_next()

    def stop(self, reason: str) -> None:
        """Record the active flows as unfinished, and start no further flow."""
        self._next = len(self._schedule.flows)
        self._sender.abandon(reason)

    def _due_ns(self, start_s: float) -> int:
        return self.epoch_ns + round(start_s * NS_PER_S)

    def _plan_next(self) -> None:
        if self._next < len(self._schedule.flows):
            due_ns = self._due_ns(self._schedule.flows[self._next].start_s)
            self._loop.call_at(due_ns, self._start_due)
        else:
            self.done = not self._active

    def _start_due(self) -> None:
        """Start one flow, then return to the loop, which serves the sockets even if another flow is due."""
        if self._next >= len(self._schedule.flows):
            return
        sequence, self._next = self._next, self._next + 1
        self._start(sequence)
        self._plan_next()

    def _start(self, sequence: int) -> None:
        flow, transport = self._schedule.flows[sequence], self.transport
        control = flow.congestion_control or transport.congestion_control
        lag_us = (time.monotonic_ns() - self._due_ns(flow.start_s)) / 1000
        self.statistics.start_lag_max_us = max(self.statistics.start_lag_max_us, lag_us)
        if not flow.endless:
            self.statistics.start_delays[delay_class(lag_us, flow.ideal_us)] += 1
        initial = unfinished(
            flow,
            RESTARTED,
            started_at=time.time(),
            scheme=transport.scheme,
            congestion_control=control or "default",
        )
        if self._journal.is_long:
            self._checkpoint(before=sequence)
        self._journal.append_start(sequence, initial)
        ends_ns = None if flow.until_s is None else self._due_ns(flow.until_s)
        active = ActiveFlow(sequence, flow, initial, self._on_done, ends_ns)
        self._active[sequence] = active
        self.statistics.started += 1
        self._sender.start(active, self._schedule.addresses[flow.dst], control)

    def _on_done(self, active: ActiveFlow, record: FlowRecord, timeouts: int) -> None:
        self._keep(record)
        del self._active[active.sequence]
        self.statistics.retransmissions += record.retransmissions or 0
        self.statistics.timeouts += timeouts
        self.done = self._next >= len(self._schedule.flows) and not self._active

    def _keep(self, record: FlowRecord) -> None:
        self._spool.append(record)
        if record.status == FINISHED:
            self.statistics.finished += 1
        else:
            self.statistics.unfinished += 1

    def _checkpoint(self, before: int | None = None) -> None:
        """Drop ended flows from journal and spool, so that both stay small in a long run."""
        segment = self._spool.rotate()
        active = [(sequence, flow.initial_record) for sequence, flow in self._active.items()]
        if self._journal.replace(self._start_at, self._next if before is None else before, active):
            self._spool.forget_before(segment)


class Sampler:
    """Takes samples of every active flow into SAMPLES, a line for each flow and time.

    The times are whole multiples of the interval since the start of the run, so they are the same on all hosts. Only
    runs with `sample_ms` are sampled, because each sample takes a few microseconds of the traffic's thread.
    """

    def __init__(self, loop: Loop, sender: Sender, folder: Path, interval_ms: int) -> None:
        self._loop = loop
        self._sender = sender
        self._interval_ns = interval_ms * NS_PER_MS
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / SAMPLES, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def begin(self, epoch_ns: int) -> None:
        """Start sampling. `epoch_ns` is the CLOCK_MONOTONIC time at which the run starts or started."""
        self._epoch_ns = epoch_ns
        self._plan()

    def _plan(self) -> None:
        past = max(0, time.monotonic_ns() - self._epoch_ns)
        self._loop.call_at(self._epoch_ns + (past // self._interval_ns + 1) * self._interval_ns, self._take)

    def _take(self) -> None:
        lines = []
        for connection in self._sender.active.values():
            at_s = (time.monotonic_ns() - self._epoch_ns) / NS_PER_S
            if sample := connection.sample():
                lines.append(json.dumps({"at_s": round(at_s, 6), **sample}))
        if lines:
            try:
                os.write(self._file, "\n".join(lines).encode() + b"\n")
            except OSError as error:
                log.warning("%s: samples are lost: %s", SAMPLES, error.strerror)
        self._plan()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
