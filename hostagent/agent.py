# SPDX-License-Identifier: Apache-2.0
"""The agent of one host: it connects the parts, in the network namespace where it was started."""

import gc
import logging
import os
import resource
import signal
import sys
import time

from sluice.dataplane.congestion import DEFAULT_CONTROL, ControlSettings
from sluice.hostagent.control import HostControl
from sluice.hostagent.journal import Journal
from sluice.hostagent.link import HostLink, LinkMeter, mac_address
from sluice.hostagent.loop import Loop
from sluice.hostagent.port.settings import read_json
from sluice.hostagent.receiver import Receiver, ReceiverStatistics
from sluice.hostagent.records import STOPPED
from sluice.hostagent.reporter import Channel, Courier, Reporter
from sluice.hostagent.routes import FabricRoutes
from sluice.hostagent.sender import Sender
from sluice.hostagent.service import AgentOptions
from sluice.hostagent.spool import Spool
from sluice.hostagent.tagger import FlowHook, HostTagger, tag_settings
from sluice.hostagent.traffic import EMPTY, Sampler, Traffic, Transport
from sluice.hostagent.watch import FlowWatch
from sluice.policy.schemes import SCHEMES
from sluice.policy.units import NS_PER_MS, NS_PER_S
from sluice.policy.version import VERSION
from sluice.policy.wire.access import Holder
from sluice.policy.wire.agents import AgentSettings, HostHeartbeat, reason
from sluice.policy.wire.records import Schedule
from sluice.runtime.lifecycle import Notifier, on_end
from sluice.runtime.process import HOST_NICE, Priority, take_priority

log = logging.getLogger(__name__)

_START_POLL_NS = 20 * NS_PER_MS
_REPORTER_LIMIT_S = 20.0
"""The reporter's thread hangs if it has not turned for this long. One request or one BPF load takes less."""
_SWITCH_INTERVAL_S = 0.0005
"""The longest time for which the reporter's thread delays the traffic's thread. Python's default is 5 ms."""


class Agent:
    """`run` serves until a signal asks for the end, then restores the host's settings."""

    def __init__(
        self, options: AgentOptions, name: str, interface: str, schedule: Schedule, notifier: Notifier
    ) -> None:
        """Connect the parts and, with a schedule, listen for flows. Raises SluiceError.

        `name` and `interface` are those of the options, or what the machine has. `schedule` is for this host.
        """
        self._options = options
        self._interface = interface
        self._schedule = schedule
        self._notifier = notifier
        self._policy_version = 0
        self._answered_s = 0.0
        self._realtime = False
        holder = Holder(name, HostHeartbeat.KIND)
        channel = Channel.open(options.web, holder, options.run_dir / "identity", options.enrol)
        web = channel.web
        self._spool = Spool(options.run_dir / "spool", fsync=options.fsync)
        self._courier = Courier(self._spool, web.post)
        self._loop = Loop()
        self._sender = Sender(self._loop, schedule.persistent)
        self._journal = Journal(options.run_dir)
        self._traffic = Traffic(
            self._loop, schedule, self._sender, self._spool, self._journal, options.grace_s
        )
        self._sampler: Sampler | None = None
        if schedule.sample_ms is not None:
            self._sampler = Sampler(self._loop, self._sender, options.run_dir, schedule.sample_ms)
        self._control = host_control(options)
        self._control_settings = DEFAULT_CONTROL
        self._receiver: Receiver | None = None
        if schedule is not EMPTY:  # without a schedule, the host opens no port
            self._receiver = Receiver(self._loop, max_window=schedule.max_window)
        self._cards = (interface, *options.cards)
        self._link = HostLink(self._cards, options.queues_at)
        self._link_meter = LinkMeter(interface)
        self._tagger = HostTagger(self._cards, options.bpf, self._link, options.guests)
        self._hook = FlowHook(options.bpf)
        self._watch = FlowWatch(
            name,
            schedule.names,
            Spool(options.run_dir / "watched", fsync=options.fsync),
            lambda: self._traffic.transport.scheme,
            ignored=lambda: web.peer,
            use_bpf=options.bpf,
        )
        self._reporter = Reporter(
            channel,
            (self._courier, Courier(self._watch.spool, web.post)),
            self._status,
            self._apply,
            self._loop.stop,
            self._collect,
        )

    def run(self) -> None:
        """Serve until a signal asks for the end. Raises the error that ended the agent, in either of its threads."""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        signal.set_wakeup_fd(self._loop.wake_fd, warn_on_full_buffer=False)
        on_end(self._loop.stop)
        try:
            self._link.begin()
            self._tagger.attach()
            self._hook.ensure()
            self._control.begin()
            scheme = SCHEMES.get(self._schedule.scheme)
            first = self._options.congestion_control or (scheme.congestion_control if scheme else None)
            if first:  # otherwise it is the namespace's default until the web process answers
                self._use_control(first, self._schedule.scheme)
            self._watch.begin()
            self._await_start()
            self._reporter.start()
            self._realtime = self._options.realtime and _take_priority()
            gc.freeze()  # the schedule lives as long as the agent, so no collection needs to visit it
            self._report_life()
            self._loop.run()
        finally:
            self._notifier.stopping()
            self._leave()
        if self._reporter.error is not None:
            raise self._reporter.error

    def _report_life(self) -> None:
        """Tell systemd that the agent is ready, from inside the loop, and then that both threads turn."""
        now_ns = time.monotonic_ns()
        self._loop.call_at(now_ns, lambda: self._notifier.ready(f"tags packets on {', '.join(self._cards)}"))
        interval_s = self._notifier.interval_s
        if interval_s is None:
            return

        def turn() -> None:
            if time.monotonic() - self._reporter.turned_s < _REPORTER_LIMIT_S:
                self._notifier.alive()
            self._loop.call_at(time.monotonic_ns() + round(interval_s * NS_PER_S), turn)

        self._loop.call_at(now_ns, turn)

    def _await_start(self) -> None:
        """Start the schedule once its start time is known; poll the start file until then."""
        file = self._options.start_file
        start_at = time.time() if file is None else read_json(file)
        if start_at is None:
            self._loop.call_at(time.monotonic_ns() + _START_POLL_NS, self._await_start)
            return
        self._traffic.begin(start_at)
        if self._sampler is not None:
            self._sampler.begin(self._traffic.epoch_ns)

    def _leave(self) -> None:
        self._traffic.stop(STOPPED)
        if self._sampler is not None:
            self._sampler.close()
        if self._receiver is not None:
            self._receiver.close()
        if self._reporter.is_alive():
            self._reporter.finish()
        self._hook.close()
        self._watch.end()
        self._tagger.detach()
        self._link.end()
        self._control.restore()
        for spool in (self._spool, self._watch.spool):
            spool.close()
            if spool.depth:
                log.warning("%d records are left in the spool; the next agent delivers them", spool.depth)

    # -- The reporter's thread calls these.

    def _collect(self) -> None:
        self._watch.collect()
        self._spool.sync()
        self._watch.spool.sync()

    def _apply(self, settings: AgentSettings) -> None:
        """Apply the settings that answer a heartbeat."""
        host = settings.host
        if host is not None:
            self._control_settings = ControlSettings(
                host.growth or 1,
                host.forgets_late,
                tags=tag_settings(host),
                parameters_of=(host.congestion_control or "") if host.parameters else "",
                parameters=host.parameters,
            )
            self._use_control(host.congestion_control or self._control.own, host.scheme)
        elif self._control.requested:
            self._use_control(self._control.requested, self._traffic.transport.scheme)
        self._tagger.update(host)
        if host is not None:
            self._watch.use_idle_gap(host.idle_gap_ns)
        self._hook.ensure()
        self._policy_version, self._answered_s = settings.policy_version, settings.answered_s or 0.0

    def _use_control(self, name: str, scheme: str) -> None:
        is_tagged = self._tagger.attached and self._options.tags == "packet"
        self._control.use(name, self._control_settings, is_tagged=is_tagged)
        transport = Transport(self._control.in_force, scheme)
        if transport == self._traffic.transport:
            return
        try:
            if self._receiver is not None:
                self._receiver.use_congestion_control(self._control.in_force)
        except FileNotFoundError:
            return  # the process that registered it ended a moment ago; the next heartbeat registers it again
        self._traffic.transport = transport
        log.info("new connections use %s (scheme %s)", self._control.in_force, scheme)

    def _status(self) -> HostHeartbeat:
        sent = self._traffic.statistics
        received = self._receiver.statistics if self._receiver else ReceiverStatistics()
        tagger = self._tagger
        problems = (self._control.problem, tagger.problem, tagger.lossless_problem, tagger.guests.problem)
        fallback_reason = "; ".join(filter(None, problems))
        return HostHeartbeat(
            pid=os.getpid(),
            policy_version=self._policy_version,
            congestion_control=self._control.in_force,
            default_congestion_control=self._control.default,
            fallback=bool(fallback_reason),
            fallback_reason=reason(fallback_reason),
            hook=not self._hook.problem,
            hook_problem=reason(self._hook.problem),
            tagger=self._tagger.attached,
            spool_depth=self._spool.depth,
            records_dropped=self._spool.dropped + self._watch.spool.dropped,
            disk_problem=reason(self._spool.problem or self._watch.spool.problem),
            records_refused=self._courier.refused,
            watch=self._watch.status(),
            flows_started=sent.started,
            flows_finished=sent.finished,
            flows_unfinished=sent.unfinished,
            flows_active=self._traffic.active,
            flows_scheduled=len(self._schedule.flows),
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
            version=VERSION,
            mac=mac_address(self._interface),
            tag_burst_bytes=self._tagger.burst_bytes,
            urgent_bytes=self._tagger.urgent_bytes(),
            answered_s=self._answered_s,
            foreign_dscps=self._tagger.foreign(),
            guests=len(self._tagger.guests),
            link_queues=self._link.name,
            link_problem=reason(self._link.problem),
            start_delays=tuple(sent.start_delays),
            answer_delays=tuple(self._sender.answer_delays),
            running=self._sender.running(),
            link=self._link_meter.read(),
        )


def _take_priority() -> bool:
    """Run this thread before ordinary processes, as if the host had its own machine. False if refused.

    On a machine that the switches keep busy, an ordinary process waits milliseconds for the CPU. Those
    would look like network delay. The measurement has 10 KB flows in an idle network and two busy loops on
    two cores. The 99th percentile of the FCT is 5.1 ms without this priority and 0.4 ms with it.
    A flow takes half a millisecond of CPU time. The kernel always keeps 5 % of the CPU time for others.
    Where real time is not allowed, a nice value helps.
    """
    priority = take_priority(HOST_NICE)
    if priority is not Priority.REALTIME:
        log.warning("the traffic's thread runs %s; on a busy machine, flows may start late", priority)
    return priority is Priority.REALTIME


def host_control(options: AgentOptions) -> HostControl:
    """Return the control of the host's connections, or of those to the fabric's prefixes."""
    noted = options.run_dir / "routes.json"
    if not options.fabric and not noted.exists():
        return HostControl(options.bpf)
    routes = FabricRoutes(options.fabric, noted)
    routes.restore()  # those of a killed agent, which may have had other prefixes
    return HostControl(options.bpf, routes if options.fabric else None)


def release(options: AgentOptions, interface: str) -> None:
    """Remove what a killed agent has left on this host. What a running one has made goes, too, and comes back.

    Raises SluiceError without the interface.
    """
    cards = (interface, *options.cards)
    link, control = HostLink(cards, None), host_control(options)
    link.begin()
    tagger = HostTagger(cards, options.bpf, link, options.guests)
    tagger.attach()  # in the place of the killed agent's
    tagger.update(None)
    tagger.detach()
    control.begin()
    control.restore()
