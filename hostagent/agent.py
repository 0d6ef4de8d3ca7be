# SPDX-License-Identifier: Apache-2.0
"""The agent of one host: puts the parts together, in the network namespace that it was started in."""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hostagent.control import HostControl
from hostagent.courier import Courier, Couriers
from hostagent.edge import EdgeTagger
from hostagent.hook import FlowHook
from hostagent.journal import Journal
from hostagent.loop import Loop
from hostagent.receiver import Receiver
from hostagent.records import STOPPED
from hostagent.reporter import Reporter
from hostagent.sampler import Sampler
from hostagent.schedule import EMPTY, start_in
from hostagent.sender import Sender
from hostagent.spool import Spool
from hostagent.traffic import Traffic, Transport
from hostagent.watch import FlowWatch
from policy.agents import AgentSettings, HostHeartbeat, reason
from policy.schedule import Schedule
from policy.units import NS_PER_MS
from runtime.http_client import HttpClient

log = logging.getLogger(__name__)

GRACE_S = 10.0
_LOOK_NS = 20 * NS_PER_MS
_SWITCH_INTERVAL_S = 0.0005
"""The reporter's thread may hold up the traffic's thread for this long, not for Python's usual 5 ms."""


@dataclass(frozen=True)
class Settings:
    """How an agent was started."""

    name: str
    interface: str
    run_dir: Path
    web: str
    schedule: Schedule = EMPTY
    start_file: Path | None = None
    """Holds the epoch second at which the schedule begins, as soon as the runner knows it. None: at once."""
    congestion_control: str | None = None
    """Until the web process says what the policy wants; None: the namespace's default."""
    use_bpf: bool = True
    grace_s: float = GRACE_S
    realtime: bool = True
    """Run the traffic's thread before ordinary processes, see _take_priority."""


class Agent:
    """`run` serves until SIGTERM or SIGINT and leaves the host as it was."""

    def __init__(self, settings: Settings) -> None:
        """Attach and listen. Raises SluiceError."""
        self._settings = settings
        self._policy_version = 0
        self._realtime = False
        web = HttpClient(settings.web)
        self._spool = Spool(settings.run_dir / "spool")
        self._courier = Courier(self._spool, web.post)
        self._loop = Loop()
        self._sender = Sender(self._loop, settings.schedule.persistent)
        journal = Journal(settings.run_dir)
        self._traffic = Traffic(
            self._loop, settings.schedule, self._sender, self._spool, journal, settings.grace_s
        )
        self._sampler = self._make_sampler(settings)
        self._control = HostControl(settings.use_bpf)
        self._receiver = Receiver(self._loop, None, max_window=settings.schedule.max_window)
        self._edge = EdgeTagger(settings.interface, settings.use_bpf)
        self._hook = FlowHook(settings.use_bpf)
        self._watch = FlowWatch(
            settings.name,
            settings.schedule.names,
            Spool(settings.run_dir / "watched"),
            lambda: self._traffic.transport.scheme,
            ignored=lambda: web.peer,
            use_bpf=settings.use_bpf,
        )
        self._reporter = Reporter(
            settings.name,
            web,
            Couriers(self._courier, Courier(self._watch.spool, web.post)),
            self._status,
            self._apply,
            self._loop.stop,
            self._watch.collect,
        )

    def run(self) -> None:
        """Raises what ended the agent before its time."""
        self._prepare_process()
        try:
            self._edge.attach()
            self._hook.keep()
            if self._settings.congestion_control:
                self._use_control(self._settings.congestion_control, self._settings.schedule.scheme)
            self._watch.begin()
            self._await_start()
            self._reporter.start()
            self._realtime = self._settings.realtime and _take_priority()
            gc.freeze()  # the schedule lives as long as we do: no collection needs to walk it
            self._loop.run()
        finally:
            self._leave()
        if self._reporter.error is not None:
            raise self._reporter.error

    def _await_start(self) -> None:
        """Begin the schedule once its start is known; look again in a moment until then."""
        file = self._settings.start_file
        start_at = time.time() if file is None else start_in(file)
        if start_at is None:
            self._loop.call_at(time.monotonic_ns() + _LOOK_NS, self._await_start)
            return
        self._traffic.begin(start_at)
        if self._sampler is not None:
            self._sampler.begin(self._traffic.epoch_ns)

    def _make_sampler(self, settings: Settings) -> Sampler | None:
        interval_ms = settings.schedule.sample_ms
        if interval_ms is None:
            return None
        return Sampler(self._loop, self._sender, settings.run_dir, interval_ms)

    def _prepare_process(self) -> None:
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        signal.set_wakeup_fd(self._loop.wake_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._loop.stop())

    def _leave(self) -> None:
        self._traffic.stop(STOPPED)
        if self._sampler is not None:
            self._sampler.close()
        self._receiver.close()
        if self._reporter.is_alive():
            self._reporter.finish()
        self._hook.close()
        self._watch.end()
        self._edge.detach()
        self._control.restore()
        for spool in (self._spool, self._watch.spool):
            spool.close()
            if spool.depth:
                log.warning("%d records wait in the spool for the next start", spool.depth)

    # -- called by the reporter's thread

    def _apply(self, settings: AgentSettings) -> None:
        """Do what the policy wants, as the answer to a heartbeat says it."""
        wanted = settings.host
        if wanted is not None:
            self._use_control(wanted.congestion_control, wanted.scheme)
        elif self._control.wanted:
            self._use_control(self._control.wanted, self._traffic.transport.scheme)
        self._edge.keep(wanted)
        self._hook.keep()
        self._policy_version = settings.policy_version

    def _use_control(self, name: str, scheme: str) -> None:
        self._control.want(name)
        transport = Transport(self._control.in_force, scheme)
        if transport == self._traffic.transport:
            return
        try:
            self._receiver.use_congestion_control(self._control.in_force)
        except FileNotFoundError:
            return  # the process that had registered it ended just now; the next heartbeat registers it again
        self._traffic.transport = transport
        log.info("new connections use %s (scheme %s)", self._control.in_force, scheme)

    def _status(self) -> HostHeartbeat:
        sent, received = self._traffic.statistics, self._receiver.statistics
        problems = filter(None, (self._control.fallback_reason, self._edge.problem))
        fallback_reason = "; ".join(problems)
        return HostHeartbeat(
            pid=os.getpid(),
            policy_version=self._policy_version,
            congestion_control=self._control.in_force,
            default_congestion_control=self._control.default,
            fallback=bool(fallback_reason),
            fallback_reason=reason(fallback_reason),
            hook=self._hook.serves,
            hook_problem=reason(self._hook.problem),
            tagger=self._edge.attached,
            spool_depth=self._spool.depth,
            records_refused=self._courier.refused,
            watch=self._watch.status(),
            flows_started=sent.started,
            flows_finished=sent.finished,
            flows_unfinished=sent.unfinished,
            flows_active=self._traffic.active,
            flows_scheduled=len(self._settings.schedule.flows),
            schedule_done=self._traffic.done,
            flows_received=received.flows,
            bytes_received=received.bytes,
            retransmissions=sent.retransmissions,
            timeouts=sent.timeouts,
            realtime=self._realtime,
            controls_refused=self._sender.refused_controls,
            flows_undeclared=self._sender.undeclared,
            start_lag_max_us=round(sent.start_lag_max_us),
            user_space_mean_us=round(received.user_space_ns / 1000 / max(1, received.kernel_stamped), 1),
        )


def _take_priority() -> bool:
    """Let the endpoints run as soon as they have something to do, as on a host of their own; False if refused.

    On a machine that the switches keep busy an ordinary process waits milliseconds for its turn, which would pass for
    network delay: idle 10 KB flows beside two busy loops on two cores took 5.1 ms at the 99th percentile, and 0.4 ms
    with this. A flow costs half a millisecond; the kernel keeps 5 % of the time for others whatever happens.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError as error:
        log.warning(
            "no real-time priority (%s): on a busy machine flows look slower than they are", error.strerror
        )
        return False
    return True
