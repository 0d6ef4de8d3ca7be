# SPDX-License-Identifier: Apache-2.0
"""The tagger on the interfaces of a host and of its guests, and the setsockopt hook of the machine.

Without BPF, the host's packets leave untagged, and programs cannot declare their flows to the kernel.
"""

import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

from sluice.dataplane.clsact import RunCheck, skipped
from sluice.dataplane.sockopt import SocketHook
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.hostagent.link import HostLink, tag_burst_bytes, traffic
from sluice.hostagent.lossless import lossless_problem
from sluice.policy import tags
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.policy.wire.agents import ForeignDscp, HostSettings

log = logging.getLogger(__name__)

_BEFORE_A_POLICY = TagSettings(writes=False)
CHECK_EVERY = 5
"""`update` looks at the interface at every n-th call. The agent calls it once a second."""


def tag_settings(desired: HostSettings) -> TagSettings:
    """Return what the policy says of a host's tags."""
    return TagSettings(
        idle_gap_ns=desired.idle_gap_ns,
        deadlines=desired.tags_deadlines,
        urgent_after_bytes=desired.urgent_after_bytes,
        sizes=desired.tags_sizes,
        levels=bool(desired.level_bytes),
        forgets_late=desired.forgets_late,
        reserved_dscp=desired.reserved_dscp,
        writes=desired.acts,
    )


class Guests:
    """The interfaces of guests on this host: of virtual machines, and of containers without tags of their own."""

    def __init__(self, patterns: Sequence[str], own: Sequence[str]) -> None:
        """`own`: the interfaces of the host itself, which are no guests."""
        self._patterns = patterns
        self._own = own
        self._attached: dict[str, int] = {}
        """Name → index of each interface that has the programs."""
        self._checks: dict[int, RunCheck] = {}
        """Index → whether the program runs there."""
        self._problems: dict[str, str] = {}
        """Name → why it does not have them."""

    def __len__(self) -> int:
        """How many have tagged packets."""
        return len(self._attached) - len(self._skipped)

    @property
    def _skipped(self) -> list[str]:
        return [name for name, index in self._attached.items() if self._checks[index].is_skipped]

    @property
    def problem(self) -> str:
        """Why packets of guests are not tagged; empty if they are."""
        return "; ".join(
            [*self._problems.values(), *(_untagged(name, skipped(name)) for name in self._skipped)]
        )

    def follow(self, tagger: Tagger, looks: bool) -> None:
        """Tag the packets of new interfaces. `looks`: see, too, whether another program has removed the filters."""
        present = {
            name: index
            for index, name in socket.if_nameindex()
            if name not in self._own and any(fnmatchcase(name, pattern) for pattern in self._patterns)
        }
        kept = {name for name, index in self._attached.items() if present.get(name) == index}
        if looks:
            kept = {name for name in kept if tagger.tags_guest(name)}
        before, self._problems = self._problems, {}
        for name in sorted(present.keys() - kept):
            try:
                tagger.attach_guest(name)
            except SluiceError as error:
                self._problems[name] = _untagged(name, str(error))
                if name not in before:
                    log.warning("%s", self._problems[name])
            else:
                log.info("tags the packets of the guest at %s", name)
        self._attached = {name: index for name, index in present.items() if name not in self._problems}
        self._checks = {index: self._checks.get(index, RunCheck()) for index in self._attached.values()}
        if looks:
            self._look(tagger)

    def _look(self, tagger: Tagger) -> None:
        """Put programs first that do not run. Where that does not help, it is a problem."""
        counted = traffic()
        for name, index in self._attached.items():
            check, was_skipped = self._checks[index], self._checks[index].is_skipped
            with suppress(SluiceError, OSError, KeyError):  # its guest has ended
                received, seen = counted[name].received_packets, tagger.guest_seen(name)
                check.look(received, seen, partial(tagger.attach_guest, name))
            if check.is_skipped and not was_skipped:
                log.warning("%s", _untagged(name, skipped(name)))

    def leave(self, tagger: Tagger) -> None:
        """Remove the filters."""
        for name in self._attached:
            with suppress(SluiceError):  # its guest has ended
                tagger.detach_guest(name)
        self._attached, self._problems = {}, {}


def _untagged(guest: str, reason: str) -> str:
    return f"packets of the guest at {guest} are not tagged: {reason}"


class HostTagger:
    """The tagger of a host's interfaces in the current network namespace. It also chooses queues on their links."""

    def __init__(
        self,
        interfaces: Sequence[str],
        use_bpf: bool = True,
        link: HostLink | None = None,
        guests: Sequence[str] = (),
    ) -> None:
        """`guests`: patterns of the interfaces of guests."""
        self._interfaces = interfaces
        self.guests = Guests(guests, interfaces)
        self._link = link or HostLink(interfaces, None)
        self._use_bpf = use_bpf
        self._tagger: Tagger | None = None
        self._set = _BEFORE_A_POLICY
        self._calls = 0
        self._check = RunCheck()
        self.attached = False
        self.burst_bytes: int | None = None
        """The most payload that can leave under one tag; None while packets leave untagged."""
        self.problem = ""
        """Why packets leave untagged although they should be tagged; empty if they are tagged."""
        self.lossless_problem = ""
        """Why tagged packets may come into a class that belongs to RDMA; empty if they do not."""

    def attach(self) -> None:
        """Attach the filters before those of others, and replace one that a killed agent left.

        Raises SluiceError without one of the interfaces.
        """
        if not self._use_bpf:
            return
        try:
            self._tagger = self._tagger or Tagger(self._set)
            for interface in self._interfaces:
                self._tagger.attach(interface)
        except EnvironmentLacking as lacking:
            self._fail(f"packets are not tagged: {lacking}")
            return
        self.attached, self.problem = True, ""
        self.burst_bytes = self._most_bytes()

    def _most_bytes(self) -> int:
        """What a guest builds is not known here, so it is what it can build."""
        return tags.BURST_BYTES if self.guests else max(map(tag_burst_bytes, self._interfaces))

    def _fail(self, problem: str) -> None:
        self.attached, self.burst_bytes = False, None
        if problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem

    def _look(self, tagger: Tagger) -> None:
        """Attach the tagger again if it was removed or is skipped. If that does not help, it is a problem."""
        if removed := [name for name in self._interfaces if not tagger.is_attached(name)]:
            if self.attached:
                log.warning("the tagger is no longer at %s: attaching it again", ", ".join(removed))
            try:
                self.attach()
            except SluiceError as error:  # the interface has gone, and may come back
                self._fail(f"packets are not tagged: {error}")
            return
        counted = traffic()
        sent = [counted[name].sent_packets for name in self._interfaces if name in counted]
        if sent:
            self._check.look(sum(sent), tagger.seen(), self.attach)
        if self._check.is_skipped:
            self._fail(skipped(", ".join(self._interfaces)))
        elif not self.attached:
            self.attach()

    def update(self, desired: HostSettings | None) -> None:
        """Apply the policy's settings if they have changed, and attach the filter again if it was removed.

        None: there is no policy yet, so the settings stay.
        """
        if self._tagger is None:
            return
        self._calls += 1
        looks = self._calls % CHECK_EVERY == 0
        if looks:
            self._link.ensure()
        settings = self._set
        if desired is not None:
            self._link.limit(desired.level_rates_bps, desired.level_bytes)
            settings = replace(tag_settings(desired), priorities=self._link.priorities(desired.queue_of_tag))
        if settings != self._set:
            self._tagger.set(settings)
            if (settings.writes, settings.reserved_dscp) != (self._set.writes, self._set.reserved_dscp):
                acts_on = self._interfaces if settings.writes else ()
                self.lossless_problem = lossless_problem(acts_on, settings.reserved_dscp)
            self._set = settings
        self.guests.follow(self._tagger, looks)
        if looks:
            self._look(self._tagger)
            self.burst_bytes = self._most_bytes() if self.attached else None

    def urgent_bytes(self) -> int:
        """Return the bytes that left under urgency tags since the tagger was attached. Reserved DSCPs are no tags."""
        if self._tagger is None:
            return 0
        urgent = set(range(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1)) - set(self._set.reserved_dscp)
        return sum(counted.bytes for counted in self._tagger.counters(urgent))

    def foreign(self) -> tuple[ForeignDscp, ...]:
        """Return the DSCPs that others use on this host."""
        return () if self._tagger is None else self._tagger.foreign()

    def detach(self) -> None:
        """Remove the filter. A second call does nothing."""
        if self._tagger is not None:
            self.guests.leave(self._tagger)
            for interface in self._interfaces:
                with suppress(SluiceError):  # it has gone
                    self._tagger.detach(interface)
            self._tagger.close()
            self._tagger = None
        self.attached = False


class FlowHook:
    """Keeps a setsockopt hook attached on this machine: another agent's, or its own if there is no other."""

    def __init__(self, use_bpf: bool = True) -> None:
        self._hook = SocketHook() if use_bpf else None
        self.problem = "" if use_bpf else "programs cannot declare flows: BPF is switched off (--no-bpf)"
        """Why programs cannot declare flows; empty if they can."""

    def ensure(self) -> None:
        """Attach the hook if no agent of this machine has it attached now."""
        if self._hook is None:
            return
        problem = ""
        try:
            self._hook.ensure()
        except EnvironmentLacking as lacking:
            problem = f"programs cannot declare flows: {lacking}"
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem

    def close(self) -> None:
        """Detach this agent's hook. A second call does nothing."""
        if self._hook is not None:
            self._hook.close()
